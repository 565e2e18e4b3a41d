"""Statements that a fix put in or took away: which belong together, and whether they stay or are undone."""

from __future__ import annotations

import ast
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.forge.standing import import_key
from prtoggle.forge.statements import DEFINITIONS, is_same, likeness, named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.forge.standing import ScopeNode, Standing
    from prtoggle.forge.statements import Item


class Undone(NamedTuple):
    """Lines [first, last) of the module after the fix, from 0, and the lines to put there instead."""

    first: int
    last: int
    lines: tuple[str, ...]
    what: str


class Judgement(NamedTuple):
    """What is undone, and the names of what stays: without any effect, and (`leaves`) with one."""

    undone: list[Undone]
    stays: list[str]
    leaves: list[str]


def judge(
    gone: Sequence[Item],
    come: Sequence[Item],
    at: int,
    *,
    prefix: str,
    scopes: tuple[ScopeNode, ScopeNode],
    standing: Standing,
) -> Judgement:
    """Leaves new statements in where that is harmless, and undoes the rest.

    `at` is the line of the new text at which what is gone belongs, where nothing came in its place.
    """
    old_names = {name for item in gone for name in _import_names(item)}
    kept = bool(gone) and all(map(_is_import, gone)) and _bound(gone) <= _bound(come)
    harmful = [
        item
        for item in come
        if not standing.may_stay(item.node, *scopes)
        # An import that brings nothing but names which the old ones bring stands in their place.
        or (not kept and _is_import(item) and set(_import_names(item)) <= old_names)
    ]
    found = Judgement([Undone(item.first, item.last, (), prefix + named(item)) for item in harmful], [], [])
    for item in (item for item in come if item not in harmful):
        proved = standing.strict().may_stay(item.node, *scopes)
        (found.stays if proved else found.leaves).append(prefix + named(item))
    if gone and (harmful or not kept):
        _put_back(gone, come[-1].last if come else at, prefix, found.undone)
    return found


def _put_back(gone: Sequence[Item], at: int, prefix: str, undone: list[Undone]) -> None:
    """Old statements stand where the last new one is undone, else after what stays: there they win."""
    text: list[str] = []
    for item in gone:
        # A definition that is put back stands apart from its neighbours, as it did.
        text += ["\n", *item.text] if isinstance(item.node, DEFINITIONS) else item.text
    place = undone.pop() if undone else Undone(at, at, (), "")
    names = ", ".join(prefix + named(item) for item in gone)
    undone.append(Undone(place.first, place.last, tuple(text), names))


def _is_import(item: Item) -> bool:
    return isinstance(item.node, (ast.Import, ast.ImportFrom))


def _import_names(item: Item) -> list[str]:
    """The names that an import binds."""
    if not isinstance(item.node, (ast.Import, ast.ImportFrom)):
        return []
    return [(alias.asname or alias.name).partition(".")[0] for alias in item.node.names]


def _bound(items: Sequence[Item]) -> set[tuple[str, int, str, str]]:
    return {
        import_key(item.node, alias)
        for item in items
        if isinstance(item.node, (ast.Import, ast.ImportFrom))
        for alias in item.node.names
    }


def loose_changes(
    before: list[Item], after: list[Item], all_after: list[Item], all_before: list[Item]
) -> Iterator[tuple[list[Item], list[Item], int]]:
    """Statements that went, statements that came in their place, and the line where they belong."""
    blocks = SequenceMatcher(
        None, [likeness(item) for item in before], [likeness(item) for item in after], autojunk=False
    )
    for kind, first, last, begin, end in blocks.get_opcodes():
        if kind == "equal":
            for old, new in zip(before[first:last], after[begin:end], strict=True):
                if old.dump != new.dump:
                    yield [old], [new], new.first
            continue
        gone, come = before[first:last], after[begin:end]
        at = come[0].first if come else _place_of(gone[0], all_before, all_after)
        yield gone, come, at


def _place_of(item: Item, before: list[Item], after: list[Item]) -> int:
    """The line of the new text at which a removed statement stood: after the neighbour that is left."""
    position = next(index for index, other in enumerate(before) if other is item)
    for neighbour in reversed(before[:position]):
        twin = next((other for other in after if is_same(neighbour, other)), None)
        if twin is not None:
            return twin.last
    return after[0].first if after else 0
