"""Three-way merges of lines: what today's text becomes when one change is taken out of it.

    base    the text with the fix, as it was when it was known
    ours    the same text today
    theirs  the text without the fix

Changes of neighbouring lines do not conflict here, other than in most merge tools, as long as they touch no
line in common and do not both insert at one place: edits beside a fix are what a later commit usually makes.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.errors import PrToggleError
from prtoggle.indentation import common_indent, string_lines

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
    taken = there = 0
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
            there += kind == "same"
            lines += text[at[0] : at[1]]
    return Merged(lines, tuple(conflicts), taken, there)


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
