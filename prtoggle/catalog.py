"""The toggles of all catalogues: which file has which id, and which of several specs counts.

The first folder that has an id wins. A spec is only read when it is asked for: starting a process with one
toggle costs the reading of one file.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prtoggle.applies_to import applicable
from prtoggle.catalogue_folders import PROJECT_ORIGINS, find_folders
from prtoggle.errors import CatalogueError, DuplicateToggleError, SpecError, UnknownToggleError
from prtoggle.loader import (
    YAML_SUFFIXES,
    find_constants,
    load_constant,
    load_file,
    read_text,
    written_id,
)
from prtoggle.spec import normalise_id
from prtoggle.spelling import near_names, or_none

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prtoggle.catalogue_folders import Folder
    from prtoggle.errors import SpecProblem
    from prtoggle.spec import Toggle


@dataclass(slots=True)
class Entry:
    """One spec of a catalogue. It is read when its toggle is asked for, once."""

    id: str
    file: Path
    folder: Folder
    constant: ast.Assign | ast.AnnAssign | None = None
    _toggle: Toggle | None = None

    def toggle(self) -> Toggle:
        """The toggle; raises SpecError when the spec is wrong."""
        if self._toggle is None:
            constant = self.constant
            self._toggle = load_file(self.file) if constant is None else load_constant(constant, self.file)
        return self._toggle


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A spec that does not count, because a folder of higher precedence has its id too."""

    id: str
    file: Path
    by: Path


class Catalog:
    """The toggles of several folders, those of the first folder first."""

    def __init__(self, folders: Sequence[Folder], *, root: Path, missing: Sequence[Folder] = ()) -> None:
        self.folders = tuple(folders)
        #: What guards are relative to: where pyproject.toml lies, or the working directory.
        self.root = root
        #: Inherited folders and entry points whose folder is not there.
        self.missing = tuple(missing)

    @classmethod
    def discover(cls, cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> Catalog:
        """The catalogues of this process. Raises CatalogueError for a named folder that is not there."""
        places = find_folders(
            _working_directory() if cwd is None else cwd, os.environ if environ is None else environ
        )
        return cls(places.found, root=places.root, missing=places.missing)

    @cached_property
    def _entries(self) -> dict[str, list[Entry]]:
        """Id to the specs that count: one, or the variants of one folder. Raises for ids that clash."""
        return {toggle_id: groups[0] for toggle_id, groups in self._groups.items()}

    @cached_property
    def _groups(self) -> dict[str, list[list[Entry]]]:
        groups: dict[str, list[list[Entry]]] = {}
        for folder in self.folders:
            of_folder: dict[str, list[Entry]] = {}
            for entry in _scan(folder):
                of_folder.setdefault(entry.id, []).append(entry)
            for toggle_id, entries in of_folder.items():
                _refuse_clash(entries)
                groups.setdefault(toggle_id, []).append(entries)
        return groups

    @property
    def shadowed(self) -> tuple[Shadowed, ...]:
        """The specs that do not count, because an earlier folder has their id."""
        return tuple(
            Shadowed(toggle_id, entry.file, groups[0][0].file)
            for toggle_id, groups in self._groups.items()
            for group in groups[1:]
            for entry in group
        )

    def ids(self) -> list[str]:
        """All ids, numbers in their order before slugs."""
        return sorted(self._entries, key=_natural)

    def get(self, toggle_id: int | str) -> Toggle:
        """The toggle of that id, of its variants the one for the installed version.

        Raises UnknownToggleError, offering near ids, SpecError for a wrong spec, NotApplicableError when no
        variant is for the installed version.
        """
        wanted = normalise_id(toggle_id)
        return applicable([entry.toggle() for entry in self._of(wanted)])

    def variants(self, toggle_id: int | str) -> list[Toggle]:
        """All specs of that id in the folder that counts, whatever versions they are for."""
        return [entry.toggle() for entry in self._of(normalise_id(toggle_id))]

    def _of(self, toggle_id: str) -> list[Entry]:
        if toggle_id in self._entries:
            return self._entries[toggle_id]
        raise self._unknown(toggle_id)

    def _unknown(self, toggle_id: str, why: str = "") -> UnknownToggleError:
        near = near_names(toggle_id, self._entries)
        searched = (
            ", ".join(f"{folder.path} ({folder.origin})" for folder in self.folders) or "no catalogue at all"
        )
        gone = (
            f"; not there: {', '.join(str(folder.path) for folder in self.missing)}" if self.missing else ""
        )
        offer = or_none(near) or "; `prtoggle list --all` shows what there is"
        return UnknownToggleError(
            f"{why}there is no toggle {toggle_id} in {searched}{gone}{offer}", id=toggle_id, near=near
        )

    def toggles(self) -> list[Toggle]:
        """All toggles, in the order of `ids`. Of variants the applicable one, or the first where none is.

        Raises SpecError with the problems of all specs that are wrong.
        """
        return self._read(self.ids())

    @property
    def project_folders(self) -> tuple[Folder, ...]:
        """The project's own catalogues; all catalogues when it has none."""
        own = tuple(folder for folder in self.folders if folder.origin in PROJECT_ORIGINS)
        return own or self.folders

    def project_toggles(self) -> list[Toggle]:
        """The toggles of the project's own catalogues; all toggles when it has none."""
        own = self.project_folders
        return self._read(toggle_id for toggle_id in self.ids() if self._entries[toggle_id][0].folder in own)

    def select(self, ids: Iterable[int | str]) -> list[Toggle]:
        """The toggles of these ids, in this order, each once.

        Raises like `get`, and UnknownToggleError for one that requires a toggle which no catalogue has.
        """
        selected = [self.get(toggle_id) for toggle_id in dict.fromkeys(map(normalise_id, ids))]
        for toggle in selected:
            for required in toggle.requires:
                if required not in self._entries:
                    raise self._unknown(required, f"toggle {toggle.id} requires {required}, and ")
        return selected

    def _read(self, ids: Iterable[str]) -> list[Toggle]:
        problems: list[SpecProblem] = []
        toggles = []
        for toggle_id in ids:
            try:
                toggles.append(applicable(self.variants(toggle_id), strict=False))
            except SpecError as error:
                problems += error.problems
        if problems:
            raise SpecError.of(problems)
        return toggles


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        # A child may be started in a folder that is gone; it has no project then.
        return Path(os.sep)


def _natural(toggle_id: str) -> tuple[int, int, str]:
    number = re.match(r"\d+", toggle_id)
    return (0, int(number[0]), toggle_id) if number else (1, 0, toggle_id)


def _scan(folder: Folder) -> Iterator[Entry]:
    """The specs of a folder, without reading more of them than their ids; sorted by file name."""
    for file in _files(folder):
        if file.suffix in YAML_SUFFIXES:
            toggle_id = written_id(_text(file, folder), file.stem)
            entry = Entry(toggle_id or "", file, folder)
            if toggle_id is None:
                entry.id = entry.toggle().id
            yield entry
        elif file.suffix == ".py":
            text = _text(file, folder)
            # Most Python files of a folder hold no specs, and need not be parsed to see it.
            for constant in find_constants(text, str(file)) if "_PR_REVERT_YAML_" in text else ():
                entry = Entry("", file, folder, constant)
                entry.id = entry.toggle().id
                yield entry


def _files(folder: Folder) -> list[Path]:
    """The files of a catalogue; without hidden ones, such as the lock that an editor puts beside a spec."""
    if not folder.path.is_dir():
        return [folder.path]
    try:
        return sorted(file for file in folder.path.iterdir() if not file.name.startswith("."))
    except OSError as error:
        raise _unreadable(folder.path, folder, error) from error


def _text(file: Path, folder: Folder) -> str:
    try:
        return read_text(file)
    except OSError as error:
        raise _unreadable(file, folder, error) from error


def _unreadable(path: Path, folder: Folder, error: OSError) -> CatalogueError:
    return CatalogueError(
        f"{path}, of the catalogue that {folder.origin} names, cannot be read: {error.strerror}; repair it, "
        "or take it away",
        folder=str(folder.path),
    )


def _refuse_clash(entries: Sequence[Entry]) -> None:
    """Raise for several specs of one id in one folder, unless they are variants for different versions."""
    if len(entries) > 1 and not all(entry.toggle().applies_to for entry in entries):
        files = [str(entry.file) for entry in entries]
        raise DuplicateToggleError(
            f"toggle {entries[0].id} is defined twice in {entries[0].folder.path}: {' and '.join(files)}. An "
            "id stands once in a folder, unless all its specs say which versions they are for (applies_to).",
            id=entries[0].id,
            files=files,
        )
