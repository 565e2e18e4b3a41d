"""Which module a file of a repository is, and where the fix's files are today."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Place(NamedTuple):
    """A file as a module: its dotted name, the file, and the folder of its top-level package."""

    module: str
    file: Path
    folder: Path


def place_of(root: Path, path: str, renames: Mapping[str, str]) -> Place | None:
    """Where the file that the fix knew as `path` is today; None when it is gone."""
    for name in (path, renames.get(path, "")):
        file = root / name
        if name and file.is_file():
            return Place(*_module(root, file))
    return None


def _module(root: Path, file: Path) -> tuple[str, Path, Path]:
    """Packages reach up as far as there is an __init__.py; above it lies what is on sys.path."""
    names = [] if file.name == "__init__.py" else [file.stem]
    folder = file.parent
    top = folder
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        names.insert(0, folder.name)
        top, folder = folder, folder.parent
    if folder == file.parent and folder not in (root, root / "src", root / "python"):
        # No package at all: a namespace package, counted from the nearest usual root.
        base = next((at for at in (root / "src", root / "python") if folder.is_relative_to(at)), root)
        names = [*folder.relative_to(base).parts, *names]
        top = folder
    return ".".join(names), file, top
