"""Targets in a source tree that is installed nowhere: folders and files, no finder, nothing imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prtoggle.definitions import LOCALS
from prtoggle.errors import TargetModuleError
from prtoggle.target import ResolvedTarget, parse_target

if TYPE_CHECKING:
    from pathlib import Path


class SourceTree:
    """A checkout: packages lie in its root, or in `src` or `python` below it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._roots = [root for root in (folder, folder / "src", folder / "python") if root.is_dir()]

    def resolve(self, text: str) -> ResolvedTarget:
        """The target's module and file in this tree. Raises TargetModuleError when there is none."""
        ref = parse_target(text)
        for root in self._roots:
            found = self._walk(root, ref.names, ref.module_names)
            if found is not None:
                file, depth = found
                return ResolvedTarget(".".join(ref.names[:depth]), ".".join(ref.names[depth:]), file)
        raise TargetModuleError(
            f"{text}: there is no module of that name below {self.folder}", target=text, module=ref.names[0]
        )

    def package(self, name: str) -> Path | None:
        """The folder of a top-level package, or the folder of a top-level module; None when it is gone."""
        for root in self._roots:
            if (root / name).is_dir():
                return root / name
            if (root / f"{name}.py").is_file():
                return root
        return None

    @staticmethod
    def _walk(root: Path, names: tuple[str, ...], module_names: int | None) -> tuple[Path, int] | None:
        """The file of the longest module that the names begin with, and how many of them it takes."""
        folder = root
        found: tuple[Path, int] | None = None
        for depth, name in enumerate(names, 1):
            if name == LOCALS or (module_names is not None and depth > module_names):
                break
            if (folder / name).is_dir():
                folder /= name
                init = folder / "__init__.py"
                found = (init, depth) if init.is_file() else found
            elif (folder / f"{name}.py").is_file():
                return folder / f"{name}.py", depth
            else:
                break
        return found if module_names is None or (found and found[1] == module_names) else None
