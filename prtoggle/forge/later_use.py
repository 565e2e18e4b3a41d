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
from prtoggle.forge.altered import altered_functions, other_uses
from prtoggle.forge.heirs import heirs_of, made_otherwise
from prtoggle.forge.lost_names import binds, lost_names, names_of, uses_of
from prtoggle.forge.signatures import changed_signatures, misfit
from prtoggle.source.source_text import read_source, split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from prtoggle.forge.altered import Altered
    from prtoggle.forge.heirs import Heirs
    from prtoggle.forge.lost_names import Lost
    from prtoggle.forge.signatures import Changed


class Ages(Protocol):
    """Knows which lines of a file are older than the fix."""

    def is_older(self, path: Path, text: str) -> bool:
        """Whether every line of the text stood in the file before the fix."""


class _Lost(NamedTuple):
    """What the reverted modules lack, or have otherwise."""

    names: list[Lost]
    calls: list[Changed]
    altered: list[Altered]

    def found_in(self, text: str) -> _Lost:
        """What of it a text may be about."""
        calls = [
            item for item in self.calls if item.is_made or any(_stands_in(name, text) for name in item.names)
        ]
        return _Lost(
            [item for item in self.names if _stands_in(item.name, text)],
            calls,
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
    others: dict[Altered, str] = {}
    defined: set[str] = set()
    every = list(_texts(texts, files))
    makers = {name for item in lost.calls if item.is_made for name in item.names}
    heirs = {name: heirs_of(name, [text for _, text in every]) for name in makers}
    owned = {path.resolve(): module for path, module in modules.items()}
    for path, text in every:
        wanted = lost.found_in(text)
        if any(wanted) and (tree := _parsed(text)) is not None:
            said = uses_of(tree, path, wanted.names) | said
            calls = _misfits(tree, path, wanted.calls, heirs, own=path not in texts) | calls
            others = _others(tree, path, text, wanted.altered, ages, owned.get(path, "")) | others
            defined |= names_of(tree).attributes
    members = {item.name for item in said if item.kind == "member"}
    # An attribute that another class has too may be the one that is meant.
    skipped = {item for item in said if item.kind == "attribute" and item.name in defined | members}
    told = {item.owner for item in said if item.kind == "parameter"}
    found = [text for item, text in said.items() if item not in skipped]
    found += [text for owner, text in calls.items() if owner not in told]
    return found + [
        text for item, text in others.items() if item.owner not in told and item.owner not in calls
    ]


def _others(
    tree: ast.Module, path: Path, text: str, altered: Sequence[Altered], ages: Ages, module: str
) -> dict[Altered, str]:
    """The first later use of each altered function that is no call which fits, as a sentence."""
    said: dict[Altered, str] = {}
    for item in altered:
        for node in other_uses(tree, item, own=module == item.module):
            lines = "".join(split_lines(text)[node.lineno - 1 : node.end_lineno])
            if not ages.is_older(path, lines):
                after = (
                    "after the revert it does not" if "takes" in item.what else "after the revert it is not"
                )
                use = "is used" if item.calls_too else "is passed on"
                said[item] = f"{item.owner} {use} at {path.name}:{node.lineno}: it {item.what}, and {after}"
                break
    return said


def _stands_in(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _misfits(
    tree: ast.Module, path: Path, changed: Sequence[Changed], heirs: Mapping[str, Heirs], *, own: bool
) -> dict[str, str]:
    """The first call, by the function that it is for, which does not fit once the fix is out."""
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
        if item is not None:
            where = f"{path.name}:{getattr(node, 'lineno', 0)}"
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
