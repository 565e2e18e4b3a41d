"""Three-way merges of lines: what today's text becomes when one change is taken out of it.

    base    the text with the fix, as it was when it was known
    ours    the same text today
    theirs  the text without the fix

Changes of neighbouring lines do not conflict here, other than in most merge tools, as long as they touch no
line in common and do not both insert at one place: edits beside a fix are what a later commit usually makes.
Nor does a block that was only indented anew.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.errors import PrToggleError
from prtoggle.source.indentation import common_indent, string_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class ToolMissingError(PrToggleError, ImportError):
    """A library that only the commands about fixes and drift need is not installed."""


class Conflict(NamedTuple):
    """Lines that both sides changed: as they were with the fix, as they are today, as they were before it."""

    base: tuple[str, ...]
    ours: tuple[str, ...]
    theirs: tuple[str, ...]


class Merged(NamedTuple):
    """The merged lines; where there are conflicts, today's lines stand in their place.

    `taken` counts the places where a change of `theirs` went in, `there` those where today's text had it.
    With both, the fix was reworked, and whether the rest of it can go out alone is for a person to say.
    """

    lines: list[str]
    conflicts: tuple[Conflict, ...]
    taken: int
    there: int

    @property
    def clean(self) -> bool:
        """Whether nobody has to decide anything."""
        return not self.conflicts


def merge_lines(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> Merged:
    """Do to `ours` what leads from `base` to `theirs`. Raises ToolMissingError without merge3."""
    try:
        from merge3 import Merge3  # noqa: PLC0415 (of the extra "forge")
    except ImportError as error:
        raise ToolMissingError(
            "three-way merges need the package merge3: pip install 'prtoggle[forge]'"
        ) from error
    lines: list[str] = []
    conflicts: list[Conflict] = []
    taken = 0
    for region in Merge3(list(base), list(ours), list(theirs)).merge_regions():
        kind, *at = region
        if kind == "conflict":
            parts = tuple(base[at[0] : at[1]]), tuple(ours[at[2] : at[3]]), tuple(theirs[at[4] : at[5]])
            beside = _beside(*parts)
            if beside is None:
                conflicts.append(Conflict(*parts))
            taken += beside is not None
            lines += parts[1] if beside is None else beside
        else:
            text = {"unchanged": base, "a": ours, "same": ours, "b": theirs}[kind]
            taken += kind == "b"
            lines += text[at[0] : at[1]]
    there = _there(base, ours, theirs)
    moved = _reindented(base, ours, theirs) if conflicts and not there else None
    if moved is not None:
        return Merged(moved, (), 1, 0)
    return Merged(lines, tuple(conflicts), taken, there)


def _there(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> int:
    """How many changes of `theirs` are in `ours` already; blank lines do not count."""
    made = {(first, last, tuple(ours[begin:end])) for first, last, begin, end in changes(base, ours)}
    return sum(
        (first, last, tuple(theirs[begin:end])) in made
        for first, last, begin, end in changes(base, theirs)
        if any(line.strip() for line in (*base[first:last], *theirs[begin:end]))
    )


def _reindented(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str] | None:
    """The change of `theirs` in a text whose lines are the same ones but for their indentation.

    A later commit that puts a block below an `if` or a `with` touches all its lines. Every line that the
    change takes out, and the lines beside what it puts in, have to stand in `ours` in their order.
    """
    place = same_lines(base, ours)
    done = list(ours)
    for first, last, begin, end in sorted(changes(base, theirs), reverse=True):
        lines = range(first, last) if first < last else range(first - 1, first + 1)
        at = [place.get(line, -1) for line in lines]
        if -1 in at or any(after - before != 1 for before, after in pairwise(at)):
            return None
        shift = _depth(ours[at[0]]) - _depth(base[lines[0]])
        start, stop = (at[0], at[-1] + 1) if first < last else (at[-1], at[-1])
        done[start:stop] = [_shifted(line, shift) for line in theirs[begin:end]]
    return done


def same_lines(base: Sequence[str], ours: Sequence[str]) -> dict[int, int]:
    """Which line of `ours` each line of `base` has become, for those that are there, counted from 0.

    A line may be indented anew together with a line next to it; alone in another block it is another line.
    """
    old, now = [line.strip() for line in base], [line.strip() for line in ours]
    place: dict[int, int] = {}
    for block in SequenceMatcher(None, old, now, autojunk=False).get_matching_blocks():
        place |= {block.a + step: block.b + step for step in range(block.size)}
    shift = {line: _depth(ours[at]) - _depth(base[line]) for line, at in place.items() if old[line]}
    return {
        line: at
        for line, at in place.items()
        if shift.get(line, 0) == 0
        or any(
            place.get(line + step) == at + step and shift.get(line + step) == shift[line] for step in (-1, 1)
        )
    }


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _shifted(line: str, by: int) -> str:
    if not line.strip():
        return line
    return " " * by + line if by >= 0 else line[min(-by, _depth(line)) :]


def _beside(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str] | None:
    """Both changes of one stretch of lines, when each leaves alone what the other touches."""
    left, right = list(changes(base, ours)), list(changes(base, theirs))
    for first, last, _, _ in left:
        for begin, end, _, _ in right:
            apart = last <= begin or end <= first
            if not apart or (first == last and begin == end and first == begin):
                return None
    done: list[str] = []
    at = 0
    merged = [(*change[:2], ours[change[2] : change[3]]) for change in left]
    merged += [(*change[:2], theirs[change[2] : change[3]]) for change in right]
    for first, last, text in sorted(merged, key=lambda change: change[:2]):
        done += [*base[at:first], *text]
        at = last
    return [*done, *base[at:]]


def changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """The places where `new` differs: lines [i, j) of `old` became lines [k, l) of `new`, from 0."""
    for kind, *at in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            first, last, begin, end = at
            yield first, last, begin, end


def dedented(lines: Sequence[str]) -> tuple[str, list[str]]:
    """The common indentation of a block that begins in code, and its lines without it.

    Lines that begin inside a string literal are left as they are.
    """
    inside = string_lines("".join(lines))
    base = common_indent(lines, inside)
    return base, [line if index in inside else line.removeprefix(base) for index, line in enumerate(lines)]


def indented(lines: Sequence[str], base: str) -> list[str]:
    """The block of `dedented` lines at another indentation."""
    inside = string_lines("".join(lines))
    return [line if index in inside or not line.strip() else base + line for index, line in enumerate(lines)]
