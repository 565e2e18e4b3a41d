"""Finds the lines that an edit is about: by their text, or failing that by their structure.

Lines are compared one by one, with the common indentation of both blocks ignored, and relative indentation
compared up to its unit (a spec written with four spaces finds a block written with tabs). A place counts only
where it begins in code: text inside a docstring or another string literal is not what an edit means.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.source.indentation import DEFAULT_UNIT, common_indent, leading, string_lines
from prtoggle.source.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Pattern(NamedTuple):
    """The lines that an edit looks for, without blank ones at the ends, as written and stripped."""

    lines: tuple[str, ...]
    stripped: tuple[str, ...]


class Found(NamedTuple):
    """A place that matches: lines `first` to `last` of the file, from 1.

    `base` is their common indentation; `ratio` the file's and the spec's width of one and the same relative
    indentation, where they differ. `reflowed` says that only the structure agreed, not the text.
    """

    first: int
    last: int
    base: str
    ratio: tuple[int, int] | None = None
    reflowed: bool = False


class Matches(NamedTuple):
    """All places of a pattern in a range of lines: those in code, and those that begin inside a string."""

    in_code: tuple[Found, ...]
    in_strings: tuple[Found, ...]


@lru_cache(maxsize=512)
def pattern_of(text: str) -> Pattern:
    """The lines of an edit's `match`; blank lines at both ends are dropped."""
    if "\n" not in text and "\r" not in text and text.strip():
        return Pattern((text.rstrip(),), (text.strip(),))
    lines = [line.rstrip() for line in split_lines(text)]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        del lines[-1]
    return Pattern(tuple(lines), tuple(line.strip() for line in lines))


def find_lines(lines: Sequence[str], first: int, last: int, pattern: Pattern) -> Matches:
    """The places of `pattern` within the file's lines `first` to `last` (from 1, both included).

    `lines` are all lines of the file; line `first` has to begin in code.
    """
    window = lines[first - 1 : last]
    stripped = [line.strip() for line in window]
    size = len(pattern.stripped)
    wanted = list(pattern.stripped)
    starts = [
        index
        for index, line in enumerate(stripped)
        if line == wanted[0] and (size == 1 or stripped[index : index + size] == wanted)
    ]
    if not starts:
        return Matches((), ())
    inside = string_lines("".join(window))
    in_code: list[Found] = []
    in_strings: list[Found] = []
    for start in starts:
        block = [line.rstrip() for line in window[start : start + size]]
        literal = {index - start for index in inside if start <= index < start + size}
        agreed = _same_block(block, pattern.lines, literal)
        if agreed is not None:
            found = Found(first + start, first + start + size - 1, *agreed)
            (in_strings if start in inside else in_code).append(found)
    # Blocks in the spec's own style mean what they show; another style is looked at only without them.
    same_style = [found for found in in_code if found.ratio is None]
    return Matches(tuple(same_style or in_code), tuple(in_strings))


def _same_block(
    block: Sequence[str], wanted: Sequence[str], literal: set[int]
) -> tuple[str, tuple[int, int] | None] | None:
    """The block's common indentation and the ratio of the two styles; None when the blocks differ.

    The lines are known to agree when stripped.
    """
    if 0 in literal or len(block) == 1:
        return leading(block[0]), None
    base, wanted_base = common_indent(block, literal), common_indent(wanted, literal)
    pairs = []
    for index, (line, other) in enumerate(zip(block, wanted, strict=True)):
        if index in literal:
            # A string's own text: as it stands, or shifted as a whole together with the code around it.
            if line != other and line.removeprefix(base) != other.removeprefix(wanted_base):
                return None
        elif line:
            pairs.append((leading(line)[len(base) :], leading(other)[len(wanted_base) :]))
    if all(mine == theirs for mine, theirs in pairs):
        return base, None
    ratio = _common_ratio(pairs)
    return None if ratio is None else (base, ratio)


def _common_ratio(pairs: Sequence[tuple[str, str]]) -> tuple[int, int] | None:
    """The one ratio of all indentations, (in the file, in the spec); None when they are not the same levels.

    A line that is deeper than the one before it is deeper by one level, which shows the unit of each style.
    Lines that only get shallower do not show it: eight spaces may be one level or two.
    """
    for mine, theirs in pairs:
        if bool(mine) != bool(theirs) or len(set(mine)) > 1 or len(set(theirs)) > 1:
            return None
    characters = {(mine[0], theirs[0]) for mine, theirs in pairs if mine}
    if len(characters) != 1 or characters == {("\t", "\t")}:
        return None
    steps = {
        (len(after[0]) - len(before[0]), len(after[1]) - len(before[1]))
        for before, after in pairwise(pairs)
        if len(after[0]) > len(before[0]) or len(after[1]) > len(before[1])
    }
    if not steps and characters != {(" ", " ")}:
        steps = {(1, DEFAULT_UNIT) if characters == {("\t", " ")} else (DEFAULT_UNIT, 1)}
    if len(steps) != 1:
        return None
    ratio = steps.pop()
    same = all(len(mine) * ratio[1] == len(theirs) * ratio[0] for mine, theirs in pairs)
    return ratio if same and min(ratio) > 0 else None


def find_statements(lines: Sequence[str], node: ast.AST, pattern: Pattern) -> list[Found]:
    """The runs of whole statements inside `node` that have the pattern's syntax tree, in source order.

    Layout, comments, redundant parentheses and quotes make no difference to a syntax tree. Only runs that
    fill their physical lines count. Empty when the pattern is no run of whole statements.
    """
    wanted = _parse(pattern.lines)
    if not wanted:
        return []
    dumps = [ast.dump(statement) for statement in wanted]
    found = []
    for block in blocks_of(node):
        for start in range(len(block) - len(wanted) + 1):
            run = block[start : start + len(wanted)]
            if type(run[0]) is type(wanted[0]) and [ast.dump(statement) for statement in run] == dumps:
                place = _whole_lines(lines, run)
                if place is not None:
                    found.append(place)
    return sorted(found)


def _parse(lines: Sequence[str]) -> list[ast.stmt]:
    base = common_indent(lines, string_lines("\n".join(lines)))
    try:
        body = ast.parse("\n".join(line.removeprefix(base) for line in lines)).body
    except (SyntaxError, ValueError):
        return []
    is_text = len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    return [] if is_text else body


def blocks_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements in `node`: bodies, else branches, handlers, cases."""
    for inner in ast.walk(node):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(inner, name, None)
            if isinstance(block, list) and block:
                yield block


def _whole_lines(lines: Sequence[str], run: Sequence[ast.stmt]) -> Found | None:
    first = min([run[0].lineno, *(deco.lineno for deco in getattr(run[0], "decorator_list", ()))])
    last = run[-1].end_lineno or run[-1].lineno
    before = lines[first - 1].encode()[: run[0].col_offset] if first == run[0].lineno else b""
    after = lines[last - 1].encode()[run[-1].end_col_offset :].decode().strip()
    if before.strip() or (after and not after.startswith("#")):
        return None
    return Found(first, last, leading(lines[first - 1]), None, reflowed=True)
