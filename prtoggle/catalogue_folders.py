"""Where catalogues are looked for.

In order of precedence:

PRTOGGLE_PATH                        folders or single files, separated like PATH
PRTOGGLE_CATALOGUES                  what the parent process found, inherited
[tool.prtoggle] catalogues           of the nearest pyproject.toml at or above the working directory
entry points prtoggle.catalogues     dotted folder paths, found without importing anything
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from prtoggle.errors import CatalogueError
from prtoggle.spelling import near_names, or_none
from prtoggle.target import find_module

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH_VARIABLE: Final = "PRTOGGLE_PATH"
INHERITED_VARIABLE: Final = "PRTOGGLE_CATALOGUES"
ENTRY_POINTS: Final = "prtoggle.catalogues"
PROJECT_ORIGINS: Final = (PATH_VARIABLE, INHERITED_VARIABLE, "pyproject.toml")


@dataclass(frozen=True, slots=True)
class Folder:
    """One catalogue: a folder of specs, or a single file of them, and which of the places named it."""

    path: Path
    origin: str


class Places(NamedTuple):
    """The folders that are there, those (inherited or of entry points) that are not, and the root."""

    found: list[Folder]
    missing: list[Folder]
    root: Path


def find_folders(directory: Path, variables: Mapping[str, str]) -> Places:
    """The catalogue folders of a process in `directory` with these environment variables, each once.

    Raises CatalogueError for a folder that PRTOGGLE_PATH or pyproject.toml names and that is not there.
    """
    project = _nearest_pyproject(directory)
    inherited = _listed(variables, INHERITED_VARIABLE)
    asked = [
        *_path_folders(variables, directory, inherited=bool(inherited)),
        *(Folder(Path(path), INHERITED_VARIABLE) for path in inherited),
        *(_project_folders(project) if project is not None else ()),
        *_entry_point_folders(),
    ]
    # What a process inherits from its parent, or from its own start, may be the project's or a package's.
    origins = {
        folder.path.resolve(): folder.origin
        for folder in reversed(asked)
        if folder.origin != INHERITED_VARIABLE
    }
    found: dict[Path, Folder] = {}
    for folder in asked:
        if folder.path.exists():
            place = folder.path.resolve()
            found.setdefault(place, Folder(folder.path, origins.get(place, folder.origin)))
    missing = [folder for folder in asked if not folder.path.exists()]
    root = directory if project is None else project.parent
    return Places(list(found.values()), missing, root)


def _listed(variables: Mapping[str, str], name: str) -> list[str]:
    return [path for path in variables.get(name, "").split(os.pathsep) if path]


def _path_folders(variables: Mapping[str, str], base: Path, *, inherited: bool) -> list[Folder]:
    """What PRTOGGLE_PATH names.

    In a child that was started in another folder a relative path may lead nowhere: what the parent made of
    it is inherited.
    """
    listed = _listed(variables, PATH_VARIABLE)
    if inherited:
        listed = [path for path in listed if Path(path).is_absolute() or (base / path).exists()]
    return [
        _existing(path, PATH_VARIABLE, base, f"{PATH_VARIABLE}={variables[PATH_VARIABLE]}") for path in listed
    ]


def _existing(path: str, origin: str, base: Path, where: str) -> Folder:
    full = base / Path(path).expanduser()
    if not full.exists():
        raise CatalogueError(
            f"{where} names the catalogue {full}, which is not there; make that folder, or name the one that "
            "holds the specs",
            folder=str(full),
        )
    return Folder(full, origin)


def _nearest_pyproject(directory: Path) -> Path | None:
    for folder in (directory, *directory.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            return path
    return None


def _project_folders(pyproject: Path) -> list[Folder]:
    try:
        table = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("tool", {}).get("prtoggle", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{pyproject} cannot be read: {error}", folder=str(pyproject)) from error
    unknown = sorted(set(table) - {"catalogues"})
    if unknown:
        offer = or_none(near_names(unknown[0], ["catalogues"])) or "; known is catalogues"
        raise CatalogueError(f"{pyproject}: [tool.prtoggle] has an unknown key {unknown[0]}{offer}")
    listed = table.get("catalogues", [])
    if not isinstance(listed, list) or not all(isinstance(path, str) for path in listed):
        raise CatalogueError(
            f"{pyproject}: [tool.prtoggle] catalogues is {listed!r} and has to be a list of folders, such as "
            'catalogues = ["toggles"]'
        )
    origin = "pyproject.toml"
    where = f"{pyproject}: [tool.prtoggle] catalogues"
    return [_existing(path, origin, pyproject.parent, where) for path in listed]


def _entry_point_folders() -> list[Folder]:
    """The folders that installed distributions offer; a dotted path is followed without an import."""
    return [
        Folder(_dotted_folder(point.value), f"entry point {point.name}")
        for point in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda point: point.name)
    ]


def _dotted_folder(value: str) -> Path:
    top, _, rest = value.partition(".")
    try:
        folders = find_module(top).folders
    except ImportError:
        folders = ()
    candidates = [Path(folder, *rest.split(".")) if rest else Path(folder) for folder in folders]
    return next((path for path in candidates if path.is_dir()), Path(*value.split(".")))
