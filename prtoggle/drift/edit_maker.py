"""Writes the edits that lead from a module's text to a wanted text, and proves each by doing it.

Every change gets the smallest block of lines that has one place in its target: whole statements where that
is not much longer, so that the edit outlives a reformatting, else the changed lines, with more and more
lines of context until the text is unique.
"""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.drift.merging import changes, dedented
from prtoggle.edits import apply_splices, merge, plan_patch
from prtoggle.errors import EditError, EditOverlapError, PrToggleError, SpecError
from prtoggle.source.matching import blocks_of
from prtoggle.source.source_text import split_lines
from prtoggle.spec import Edit, Patch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.source.source_text import ModuleSource
    from prtoggle.target import ResolvedTarget

_MOST_CONTEXT = 40
_MANY_LINES = 12


class _Change(NamedTuple):
    """Lines [first, last) of the module (from 0) become `text`."""

    first: int
    last: int
    text: tuple[str, ...]


def edits_between(
    source: ModuleSource, tree: ast.Module, target: ResolvedTarget, wanted: str
) -> tuple[Edit, ...]:
    """Edits of `target` that make `source` say what `wanted` says; changes of comments alone are left out.

    Raises EditError when a change lies outside of the target, or no edit does it.
    """
    if same_code(source.text, wanted):
        raise EditError(f"{target.text}: there is no code to change", target=target.text)
    new = split_lines(wanted)
    found = [_Change(i, j, tuple(new[k:m])) for i, j, k, m in changes(source.lines, new)]
    together = list(_worth_it(source, _joined(source, found, 1)))
    while True:
        edits = tuple(_edit(source, tree, target, change) for change in together)
        try:
            edited = do_edits(source, tree, target, edits)
        except EditOverlapError:
            # Two of them need lines of context in common, so they are one edit.
            gap = min(after.first - before.last for before, after in pairwise(together))
            together = _joined(source, together, gap)
            continue
        if not same_code(edited, wanted):
            raise EditError(f"{target.text}: the edits do not come to the wanted text", target=target.text)
        return edits


def do_edits(source: ModuleSource, tree: ast.Module, target: ResolvedTarget, edits: Sequence[Edit]) -> str:
    """The module's text with `edits` of `target` in it.

    Names are not looked up: another patch of the same toggle may bring one back.
    """
    patch = Patch(target.text, tuple(edits))
    return apply_splices(source.text, merge(plan_patch(source, tree, target, patch, "draft")))


def same_code(one: str, other: str) -> bool:
    """Whether two module texts differ in layout and comments at most. False for text that is no Python."""
    if one == other:
        return True
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except (SyntaxError, ValueError):
        return False


def _joined(source: ModuleSource, found: Sequence[_Change], gap: int) -> list[_Change]:
    """Changes with at most `gap` lines between them as one."""
    joined: list[_Change] = []
    for change in found:
        if joined and change.first - joined[-1].last <= gap:
            before = joined.pop()
            between = tuple(source.lines[before.last : change.first])
            joined.append(_Change(before.first, change.last, (*before.text, *between, *change.text)))
        else:
            joined.append(change)
    return joined


def _worth_it(source: ModuleSource, found: Sequence[_Change]) -> Iterator[_Change]:
    """The changes that matter to the program; one that is valid only together with others does."""
    for change in found:
        if not same_code(source.text, _done(source, change)):
            yield change


def _done(source: ModuleSource, change: _Change) -> str:
    lines = source.lines
    return "".join([*lines[: change.first], *change.text, *lines[change.last :]])


def _edit(source: ModuleSource, tree: ast.Module, target: ResolvedTarget, change: _Change) -> Edit:
    """The first candidate that, done on its own, gives exactly what the change gives."""
    wanted = _done(source, change)
    for edit in _candidates(source, tree, change):
        try:
            splices = plan_patch(source, tree, target, Patch(target.text, (edit,)), "draft")
        except PrToggleError:
            continue
        text = apply_splices(source.text, splices)
        if text == wanted or same_code(text, wanted) or _same_but_blanks(text, wanted):
            return edit
    raise EditError(
        f"{target.text}: lines {change.first + 1}-{change.last} of {source.path} cannot be written as an "
        "edit of this target: the change begins or ends outside of it, or has no place of its own",
        target=target.text,
    )


def _same_but_blanks(one: str, other: str) -> bool:
    return [line.rstrip() for line in one.splitlines() if line.strip()] == [
        line.rstrip() for line in other.splitlines() if line.strip()
    ]


def _candidates(source: ModuleSource, tree: ast.Module, change: _Change) -> Iterator[Edit]:
    lines = source.lines
    first, last = change.first, change.last
    text = list(change.text)
    if first == last:
        if first:
            yield from _made([lines[first - 1]], text, "append")
        if first < len(lines):
            yield from _made([lines[first]], text, "prepend")
    for begin, end in _ranges(source, tree, first, last):
        new = [*lines[begin:first], *text, *lines[last:end]]
        yield from _made(lines[begin:end], new, "replacement")


def _ranges(source: ModuleSource, tree: ast.Module, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Ranges of lines around a change, the best first."""
    whole = _statements(tree, first, last)
    if whole is not None and whole[1] - whole[0] <= max(_MANY_LINES, 2 * (last - first)):
        yield whole
    if first < last:
        yield first, last
    for begin, end in dict.fromkeys([(first, last), whole or (first, last)]):
        for more in range(1, _MOST_CONTEXT):
            yield max(0, begin - more), end
            yield begin, min(len(source.lines), end + more)
            yield max(0, begin - more), min(len(source.lines), end + more)


def _statements(tree: ast.Module, first: int, last: int) -> tuple[int, int] | None:
    """The lines of the whole statements of the innermost block that cover lines [first, last)."""
    best: tuple[int, int] | None = None
    for block in blocks_of(tree):
        inside = [
            (_first_line(node) - 1, node.end_lineno or node.lineno)
            for node in block
            if _first_line(node) - 1 < last and first < (node.end_lineno or node.lineno)
        ]
        if not inside or inside[0][0] > first or inside[-1][1] < last:
            continue
        if best is None or inside[-1][1] - inside[0][0] < best[1] - best[0]:
            best = inside[0][0], inside[-1][1]
    return best


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _made(match: Sequence[str], text: Sequence[str], mode: str) -> Iterator[Edit]:
    """The edit, unless it is none (blank text, nothing changed)."""
    _, match_lines = dedented(_unix(match))
    _, text_lines = dedented(_unix(text))
    try:
        yield Edit("".join(match_lines), "".join(text_lines).strip("\n") and "".join(text_lines), mode)  # type: ignore[arg-type]
    except SpecError:
        return


def _unix(lines: Sequence[str]) -> list[str]:
    return [line.rstrip("\r\n") + "\n" for line in lines]
