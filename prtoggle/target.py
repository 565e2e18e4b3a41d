"""A dotted target resolved to a file and a name in it, importing nothing, not even a parent package.

Only the finder of the top-level name is asked (`importlib.util.find_spec` does not import for a name without
a dot); below it the folders of the package are searched. A module that is loaded already is taken from
`sys.modules`, with the file that it says it has.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import pkgutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prtoggle.definitions import LOCALS, TargetNode, locate
from prtoggle.errors import TargetModuleError, UnsupportedTargetError
from prtoggle.spec import check_target_text
from prtoggle.spelling import near_names, or_none

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

__all__ = [
    "ModuleFile",
    "ResolvedTarget",
    "TargetNode",
    "TargetRef",
    "find_module",
    "find_module_file",
    "locate",
    "parse_target",
    "refuse_main",
    "split_name",
    "split_target",
]

ModuleKind = Literal[
    "source", "namespace", "extension", "builtin", "frozen", "bytecode", "archive", "unknown"
]

_INSTEAD: dict[ModuleKind, str] = {
    "namespace": "is a namespace package: name something in one of its modules",
    "extension": "is a compiled extension module: it has no Python source, so use wrap: or value: on it",
    "builtin": "is built into the interpreter: it has no Python source, so use wrap: or value: on it",
    "frozen": "is frozen into the interpreter: its source is not what runs, so use wrap: or value: on it",
    "bytecode": "is there as bytecode only: it has no Python source to edit, so use wrap: or value: on it",
    "archive": "lies in a zip archive: unpack it, or use wrap: or value: on it",
    "unknown": "comes without a source file: use wrap: or value: on it",
}


@dataclass(frozen=True, slots=True)
class TargetRef:
    """A target as it is written: names, and how many of them are the module's where a colon says so."""

    text: str
    names: tuple[str, ...]
    module_names: int | None = None


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """A module as the import system would find it; `path` is its source file, for the kind "source"."""

    name: str
    kind: ModuleKind
    path: Path | None = None
    folders: tuple[str, ...] = ()
    loaded: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedTarget:
    """A target's module, its name in that module ("" for the module itself), and the module's source file."""

    module: str
    qualname: str
    file: Path

    @property
    def is_package(self) -> bool:
        """Whether the module is a package."""
        return self.file.name == "__init__.py"

    @property
    def text(self) -> str:
        """The target in one spelling, as messages name it."""
        return f"{self.module}.{self.qualname}" if self.qualname else self.module


def parse_target(text: str) -> TargetRef:
    """The names of `pkg.module.Class.method` or `pkg.module:Class.method`; SpecError for other text."""
    check_target_text(text)
    module, colon, name = text.partition(":")
    names = tuple(module.split(".")) + (tuple(name.split(".")) if colon else ())
    return TargetRef(text, names, module.count(".") + 1 if colon else None)


def dotted_prefixes(name: str) -> list[str]:
    """`a`, `a.b` and `a.b.c` for `a.b.c` or `a.b:c`: the modules on the way, and the names in them."""
    parts = name.replace(":", ".").split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def split_target(text: str) -> ResolvedTarget:
    """The target's module, name and source file.

    Raises TargetModuleError when there is no such module, UnsupportedTargetError when it has no source file.
    Whether the module defines the name is for `locate` to say.
    """
    found, qualname = split_name(text)
    return ResolvedTarget(found.name, qualname, _source_path(found, text))


def split_name(text: str) -> tuple[ModuleFile, str]:
    """The longest module that `text` begins with, of any kind, and the rest of the name.

    A submodule wins over an attribute of its package that has the same name.
    """
    ref = parse_target(text)
    if ref.module_names is not None:
        return find_module(".".join(ref.names[: ref.module_names])), ".".join(ref.names[ref.module_names :])
    found = _top_level(ref.names[0], text)
    depth = 1
    while depth < len(ref.names) and ref.names[depth] != LOCALS:
        inner = _submodule(found, ref.names[depth])
        if inner is None:
            break
        found, depth = inner, depth + 1
    if found.kind == "namespace" and depth < len(ref.names):
        raise _no_such_module(".".join(ref.names[: depth + 1]), found, text)
    return found, ".".join(ref.names[depth:])


def refuse_main(text: str) -> None:
    """Raises UnsupportedTargetError for a name in `__main__`, which stands for whatever program runs.

    Before it runs nothing is known of it: for a toggle that is in force from the start, or is only read.
    """
    main, _, name = text.replace(":", ".").partition(".")
    if main == "__main__":
        raise UnsupportedTargetError(
            f"{text}: __main__ is whatever program runs, which is not known before it does. Name the module "
            f"that the file is, as in `target: script.{name or 'f'}` for script.py, and start it as "
            "`python -m script`",
            target=text,
        )


def find_module_file(module: str) -> ModuleFile:
    """The module with its source file; TargetModuleError or UnsupportedTargetError when there is none."""
    found = find_module(module)
    _source_path(found, module)
    return found


def find_module(module: str) -> ModuleFile:
    """The module of that name, of any kind. Raises TargetModuleError when there is none."""
    first, *rest = module.split(".")
    found = _top_level(first, module)
    for name in rest:
        inner = _submodule(found, name)
        if inner is None:
            raise _no_such_module(f"{found.name}.{name}", found, module)
        found = inner
    return found


def _source_path(found: ModuleFile, text: str) -> Path:
    if found.path is None:
        raise UnsupportedTargetError(f"{text}: module {found.name} {_INSTEAD[found.kind]}", target=text)
    return found.path


def _top_level(name: str, text: str) -> ModuleFile:
    if name in sys.modules:
        return _loaded(name, sys.modules[name], text)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as error:
        raise TargetModuleError(
            f"{text}: looking for module {name} failed: {error}", target=text, module=name
        ) from error
    if spec is None:
        near = near_names(name, _modules_in(sys.path))
        raise TargetModuleError(
            f"{text}: there is no module named {name} on sys.path{or_none(near)}", target=text, module=name
        )
    return _from_spec(name, spec)


def _submodule(package: ModuleFile, name: str) -> ModuleFile | None:
    full = f"{package.name}.{name}"
    loaded = sys.modules.get(full)
    if loaded is not None:
        return _loaded(full, loaded, full)
    # The import system's own search would look for the parent of a namespace package in sys.modules.
    portions: list[str] = []
    for folder in package.folders:
        finder = pkgutil.get_importer(folder)
        spec = None if finder is None else finder.find_spec(full)
        if spec is not None and spec.loader is not None:
            return _from_spec(full, spec)
        portions += (spec and spec.submodule_search_locations) or ()
    return ModuleFile(full, "namespace", None, tuple(portions)) if portions else None


def _from_spec(name: str, spec: importlib.machinery.ModuleSpec) -> ModuleFile:
    folders = tuple(spec.submodule_search_locations or ())
    kind = _kind(spec)
    path = Path(spec.origin) if kind == "source" and spec.origin else None
    return ModuleFile(name, kind, path, folders)


def _kind(spec: importlib.machinery.ModuleSpec) -> ModuleKind:
    loader, origin = spec.loader, spec.origin or ""
    if spec.origin in ("built-in", "frozen"):
        return "builtin" if spec.origin == "built-in" else "frozen"
    if isinstance(loader, importlib.machinery.ExtensionFileLoader):
        return "extension"
    if isinstance(loader, importlib.machinery.SourcelessFileLoader):
        return "bytecode"
    if loader is None or not spec.has_location:
        return "namespace" if spec.submodule_search_locations is not None else "unknown"
    if type(loader).__module__ == "zipimport":
        return "archive"
    return "source" if origin.endswith(tuple(importlib.machinery.SOURCE_SUFFIXES)) else "unknown"


def _loaded(name: str, module: ModuleType | None, text: str) -> ModuleFile:
    if module is None:
        raise TargetModuleError(
            f"{text}: the import of {name} is blocked in sys.modules", target=text, module=name
        )
    spec = getattr(module, "__spec__", None)
    # Not by attribute: a module may answer any name with a __getattr__ of its own.
    folders = tuple(getattr(module, "__dict__", {}).get("__path__") or ())
    if isinstance(spec, importlib.machinery.ModuleSpec):
        found = _from_spec(name, spec)
        return ModuleFile(name, found.kind, found.path, folders or found.folders, loaded=True)
    file = getattr(module, "__file__", None)
    if isinstance(file, str) and file.endswith(tuple(importlib.machinery.SOURCE_SUFFIXES)):
        return ModuleFile(name, "source", Path(file), folders, loaded=True)
    return ModuleFile(name, "namespace" if folders else "unknown", None, folders, loaded=True)


def _no_such_module(name: str, package: ModuleFile, text: str) -> TargetModuleError:
    near = near_names(name.rpartition(".")[2], _modules_in(package.folders))
    where = (
        f"package {package.name}" if package.folders else f"module {package.name}, which is not a package,"
    )
    return TargetModuleError(
        f"{text}: {where} has no module {name.rpartition('.')[2]}{or_none(near)}", target=text, module=name
    )


def _modules_in(folders: Iterable[str]) -> list[str]:
    """The names of modules and packages that lie in the folders, for an offer of near names."""
    names = []
    for folder in folders:
        path = Path(folder or ".")
        if path.is_dir():
            names += [entry.name.partition(".")[0] for entry in path.iterdir() if _looks_like_module(entry)]
    return names


def _looks_like_module(entry: Path) -> bool:
    if entry.name.startswith((".", "__")):
        return False
    return entry.suffix in (".py", ".so", ".pyd") or (entry.is_dir() and entry.name.isidentifier())
