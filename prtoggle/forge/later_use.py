"""Names that a revert takes away and other code uses: such a fix cannot go out alone.

Looked for by name, in all files of the package: calls that no longer fit, attributes that a class no longer
sets, and module-level names that other modules import.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from prtoggle.definitions import last_name
from prtoggle.drift.candidates import cached_source
from prtoggle.forge.altered import altered_functions, has_another, other_uses
from prtoggle.forge.heirs import heirs_of, made_otherwise
from prtoggle.forge.lost_names import binds, lost_names, names_of, uses_of
from prtoggle.forge.signatures import changed_signatures, misfit
from prtoggle.source.source_text import read_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from prtoggle.forge.altered import Altered
    from prtoggle.forge.heirs import Heirs
    from prtoggle.forge.lost_names import Lost
    from prtoggle.forge.signatures import Changed


class Ages(Protocol):
    """Knows which lines of a file are older than the fix."""

    def is_older(self, path: Path, text: str, node: ast.expr | ast.stmt) -> bool:
        """Whether the lines of a node in the file's text stood there before the fix."""


class _Lost(NamedTuple):
    """What the reverted modules lack, or have otherwise."""

    names: list[Lost]
    calls: list[Changed]
    altered: list[Altered]

    def found_in(self, text: str, heirs: Mapping[str, Heirs]) -> _Lost:
        """What of it a text may be about."""
        return _Lost(
            [item for item in self.names if _stands_in(item.name, text)],
            [item for item in self.calls if _may_call(text, item, heirs)],
            [item for item in self.altered if _stands_in(item.name, text)],
        )


def used_later(
    edited: Mapping[Path, str], modules: Mapping[Path, str], files: Sequence[Path], ages: Ages
) -> list[str]:
    """Sentences about names that the edited texts lack, or have otherwise, and other code needs.

    `edited` maps files to their reverted text, `modules` to their names; `files` are searched.
    """
    lost = _Lost([], [], [])
    texts: dict[Path, str] = {}
    for path, text in edited.items():
        before, after = ast.parse(read_source(path).text), ast.parse(text)
        changed = changed_signatures(before, after)
        lost.names.extend(lost_names(names_of(before), names_of(after), modules[path]))
        lost.calls.extend(changed)
        lost.altered.extend(altered_functions(before, after, modules[path], changed))
        texts[path.resolve()] = text
    if not any(lost):
        return []
    said: dict[Lost, str] = {}
    calls: dict[str, str] = {}
    others: list[_Other] = []
    defined: set[str] = set()
    every = list(_texts(texts, files))
    makers = {name for item in lost.calls if item.is_made for name in item.names}
    heirs = {name: heirs_of(name, [text for _, text in every]) for name in makers}
    owned = {path.resolve(): module for path, module in modules.items()}
    for path, text in every:
        wanted = lost.found_in(text, heirs)
        if any(wanted) and (tree := _parsed(text)) is not None:
            file = _File(path, text, tree, ages)
            said = uses_of(tree, path, wanted.names, file.is_older) | said
            calls = _misfits(file, wanted.calls, heirs, own=path not in texts) | calls
            others += _others(file, wanted.altered, owned.get(path, ""))
            defined |= names_of(tree).attributes
    members = {item.name for item in said if item.kind == "member"}
    # An attribute that another class has too may be the one that is meant.
    skipped = {item for item in said if item.kind == "attribute" and item.name in defined | members}
    told = {item.owner for item in said if item.kind == "parameter"}
    found = [text for item, text in said.items() if item not in skipped]
    found += [text for owner, text in calls.items() if owner not in told]
    shared = {other.item.name for other in others if other.another}
    meant = {
        other.item: other.text
        for other in reversed(others)
        if other.text and (other.sure or other.item.name not in shared)
    }
    return found + [
        text for item, text in meant.items() if item.owner not in told and item.owner not in calls
    ]


class _File(NamedTuple):
    """A file that is searched: as the revert leaves it."""

    path: Path
    text: str
    tree: ast.Module
    ages: Ages

    def is_older(self, node: ast.expr | ast.stmt) -> bool:
        """Whether the lines of the node, and the imports that it needs, are older than the fix.

        Then they fit what was there.
        """
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        imports = (
            part
            for part in ast.walk(self.tree)
            if isinstance(part, (ast.Import, ast.ImportFrom))
            and names & {(alias.asname or alias.name).partition(".")[0] for alias in part.names}
        )
        return all(self.ages.is_older(self.path, self.text, part) for part in (node, *imports))


class _Other(NamedTuple):
    """A later use of an altered function, as a sentence, or (`another`) another class with such a member."""

    item: Altered
    text: str = ""
    sure: bool = False
    another: bool = False


def _others(file: _File, altered: Sequence[Altered], module: str) -> Iterator[_Other]:
    """The uses of altered functions that are no calls which fit."""
    for item in altered:
        if has_another(file.tree, item):
            yield _Other(item, another=True)
        for node, sure in other_uses(file.tree, item, own=module == item.module):
            if not file.is_older(node):
                use = "is used" if item.calls_too else "is passed on"
                where = f"{file.path.name}:{node.lineno}"
                after = "does" if "takes" in item.what else "is"
                text = f"{item.owner} {use} at {where}: it {item.what}, and after the revert it {after} not"
                yield _Other(item, text, sure)


def _may_call(text: str, item: Changed, heirs: Mapping[str, Heirs]) -> bool:
    """Whether a call of the function, or one that makes an instance of its class, may stand in a text."""
    names = {*item.names, *(heir for name in item.names if name in heirs for heir in heirs[name].all)}
    replaced = "replace" in text and any(_stands_in(name, text) for name in item.fields)
    return replaced or any(_stands_in(name, text) for name in names)


def _stands_in(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _misfits(
    file: _File, changed: Sequence[Changed], heirs: Mapping[str, Heirs], *, own: bool
) -> dict[str, str]:
    """The first call, by the function that it is for, which does not fit once the fix is out."""
    tree = file.tree
    names = frozenset(name for node in tree.body for name in binds(node)) if own else frozenset()
    aliases = {
        alias.asname: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    said: dict[str, str] = {}
    made = made_otherwise(tree, heirs)
    for node in ast.walk(tree):
        item = misfit(node, changed, names, aliases, made)
        if item is not None and isinstance(node, ast.expr) and not file.is_older(node):
            where = f"{file.path.name}:{node.lineno}"
            why = "fits today, and after the revert it does not, or nobody can tell"
            said.setdefault(item.owner, f"the call of {item.owner} at {where} {why}")
    return said


def still_used(names: Sequence[str], edited: Mapping[Path, str], files: Sequence[Path]) -> set[str]:
    """Those of the dotted names whose last part is read anywhere in the files, after the revert."""
    texts = {path.resolve(): text for path, text in edited.items()}
    wanted = {name.rpartition(".")[2]: name for name in names}
    used: set[str] = set()
    for _, text in _texts(texts, files):
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for name in wanted):
            continue
        for node in ast.walk(_parsed(text) or ast.Module([], [])):
            name = last_name(node)
            if name in wanted and isinstance(getattr(node, "ctx", None), ast.Load):
                used.add(wanted[name])
    return used


def _texts(edited: Mapping[Path, str], files: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """All files, those that the revert edits as it leaves them."""
    for path in sorted({path.resolve() for path in files} | set(edited)):
        if path in edited:
            yield path, edited[path]
        elif (source := cached_source(path)) is not None:
            yield path, source.text


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None
