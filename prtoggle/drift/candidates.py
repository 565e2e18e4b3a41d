"""Where a function may have gone that is not where its toggle says.

Evidence, the strongest first: the same body under the same name, the same body under another, the same name
in the package with a text that merges cleanly, a comment that names the pull request. What the last three
are worth is for `likeness` to say.
"""

from __future__ import annotations

import ast
import re
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.drift.functions import Definition, definitions, parsed_block, shape
from prtoggle.errors import UnsupportedTargetError
from prtoggle.source.source_text import ModuleSource, read_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


#: Names of a body that a file has to hold before it is parsed for it.
_TELLING = 5


class Evidence(IntEnum):
    """Why a definition may be the one that is looked for; a greater value is stronger."""

    MENTION = 1
    LINES = 2
    NAME = 3
    BODY = 4
    BODY_AND_NAME = 5


WORDS = {
    Evidence.MENTION: "a comment in it names the pull request",
    Evidence.LINES: "the lines that the edit changes stand in it",
    Evidence.NAME: "it has the same name",
    Evidence.BODY: "it has the same body under another name",
    Evidence.BODY_AND_NAME: "it has the same body and name",
}


class Candidate(NamedTuple):
    """A definition that may be the target's."""

    module: str
    source: ModuleSource
    tree: ast.Module
    definition: Definition
    evidence: tuple[Evidence, ...]

    @property
    def target(self) -> str:
        """How a spec names it."""
        return f"{self.module}.{self.definition.qualname}"

    @property
    def best(self) -> Evidence:
        """The strongest evidence for it."""
        return max(self.evidence)


class Wanted(NamedTuple):
    """What is known of the definition that is looked for.

    `edited` are the lines that an edit changes, `mentions` words that a comment about the fix would hold.
    """

    qualname: str
    lines: Sequence[str]
    edited: Sequence[str] = ()
    mentions: Sequence[str] = ()


def package_files(folder: Path) -> list[tuple[str, Path]]:
    """(module name, file) of all Python files of a package folder, or of a folder of single modules."""
    is_package = (folder / "__init__.py").is_file()
    base = folder.parent if is_package else folder
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        if not any(part.startswith(".") or part == "__pycache__" for part in parts):
            names = parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts
            found.append((".".join(names), path))
    return found


def search(wanted: Wanted, files: Sequence[tuple[str, Path]]) -> list[Candidate]:
    """The definitions in the files that any evidence speaks for, the strongest first."""
    node = parsed_block(wanted.lines)
    body = "" if node is None else shape(node)
    name = wanted.qualname.removesuffix(".fset").removesuffix(".fdel").rpartition(".")[2]
    telling = _telling_names(node)
    found: list[Candidate] = []
    for module, path in files:
        source = cached_source(path)
        if source is None or not _worth_parsing(source.text, name, wanted, telling):
            continue
        try:
            tree = ast.parse(source.text)
        except (SyntaxError, ValueError):
            continue
        for definition in definitions(tree, source.lines):
            evidence = tuple(_evidence(definition, wanted, node, body, name))
            if evidence:
                found.append(Candidate(module, source, tree, definition, evidence))
    return sorted(_innermost(found), key=lambda candidate: (-candidate.best, candidate.target))


def cached_source(path: Path) -> ModuleSource | None:
    """The file, read once while it stays as it is; None for one that cannot be read."""
    try:
        status = path.stat()
        return _read(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return None


@lru_cache(maxsize=8192)
def _read(path: Path, _changed: int, _size: int) -> ModuleSource | None:
    """The file, read once while it stays as it is: several toggles are looked for in one package."""
    try:
        return read_source(path)
    except (UnsupportedTargetError, OSError):
        return None


def _telling_names(node: ast.stmt | None) -> list[str]:
    """The longest names in a definition's body: wherever it goes, and however it is laid out, they go too."""
    names: set[str] = set()
    for statement in getattr(node, "body", ()):
        for part in ast.walk(statement):
            if isinstance(part, ast.Name):
                names.add(part.id)
            elif isinstance(part, ast.Attribute):
                names.add(part.attr)
    return sorted(names, key=lambda name: (-len(name), name))[:_TELLING]


def _worth_parsing(text: str, name: str, wanted: Wanted, telling: Sequence[str]) -> bool:
    """Whether any evidence can be in the text at all; most files of a package need no parsing."""
    edited = [line.strip() for line in wanted.edited if line.strip()]
    return (
        (name in text and re.search(rf"\b(?:def|class)\s+{re.escape(name)}\b", text) is not None)
        or (bool(telling) and all(word in text for word in telling))
        or (bool(edited) and all(line in text for line in edited))
        or any(word in text for word in wanted.mentions)
    )


def _evidence(
    definition: Definition, wanted: Wanted, node: ast.stmt | None, body: str, name: str
) -> Iterator[Evidence]:
    same_kind = type(definition.node) is type(node)
    same_name = same_kind and getattr(definition.node, "name", "") == name
    owners = {_owner(definition.qualname), _owner(wanted.qualname)}
    same_body = same_kind and _as_long(definition.node, node) and shape(definition.node) == body
    if same_body:
        yield Evidence.BODY_AND_NAME if same_name else Evidence.BODY
    elif same_name and (len(owners) == 1 or "" in owners):
        # A method of another class is another method; one that moved into or out of a class may be this.
        yield Evidence.NAME
    text = [line.strip() for line in definition.lines]
    edited = [line.strip() for line in wanted.edited if line.strip()]
    if edited and any(text[at : at + len(edited)] == edited for at in range(len(text))):
        yield Evidence.LINES
    comments = [line.partition("#")[2] for line in definition.lines if "#" in line]
    if any(
        re.search(rf"(?<!\d){re.escape(word)}(?!\d)", note) for word in wanted.mentions for note in comments
    ):
        yield Evidence.MENTION


def _as_long(one: ast.stmt, other: ast.stmt | None) -> bool:
    """Whether the bodies have as many statements, give or take a docstring: a look before the comparison."""
    return abs(len(getattr(one, "body", ())) - len(getattr(other, "body", ()))) <= 1


def _owner(qualname: str) -> str:
    """The class of a method, "" for a function of a module."""
    return qualname.removesuffix(".fset").removesuffix(".fdel").rpartition(".")[0].rpartition(".")[2]


def _innermost(found: Sequence[Candidate]) -> list[Candidate]:
    """Without classes that are there only because of one of their own methods."""
    return [
        candidate
        for candidate in found
        if candidate.best > Evidence.LINES
        or not any(
            other is not candidate
            and other.module == candidate.module
            and other.definition.qualname.startswith(f"{candidate.definition.qualname}.")
            for other in found
        )
    ]
