"""Changes of a source text as splices: what is replaced by what, who wants it, and how several combine.

All offsets are into the original text, so the result does not depend on the order in which toggles came. At
one offset the order of what is put in is fixed by `Rank`:

        line 4 (matched by A)   | A's append | preamble | B's prepend |   line 5 (matched by B) ...
                                ^ the offset of line 5
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from prtoggle.errors import EditOverlapError
from prtoggle.source.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Rank(IntEnum):
    """In which order texts that are put in at one offset follow each other."""

    APPEND = 0
    PREAMBLE = 1
    PREPEND = 2
    REPLACEMENT = 3


@dataclass(frozen=True, slots=True)
class Splice:
    """Replace `original[start:end]` by `text`.

    `anchor` is the half-open range of the original text that the edit was matched on: equal to the replaced
    range for a replacement, the matched lines for an append or prepend, empty for what has no matched lines.
    `index` is the edit's place in its patch (hunk, for a diff), -1 for the preamble. `note` says what was
    done beyond the letter of the spec, for people to read.
    """

    start: int
    end: int
    text: str
    toggle_id: str
    target: str
    index: int = 0
    rank: Rank = Rank.REPLACEMENT
    anchor: tuple[int, int] = (0, 0)
    note: str | None = None

    @property
    def is_deletion(self) -> bool:
        """Whether no statement is put in place of what is taken out."""
        return self.rank is Rank.REPLACEMENT and not _has_code(self.text)


@dataclass(frozen=True, slots=True)
class EditedLines:
    """Where a splice shows in the edited text: lines `first` to `last`, from 1.

    For a deletion it is the next line of code after the gap, in both fields; it may lie beyond the edited
    function when the function's last statement went.
    """

    splice: Splice
    first: int
    last: int


def moved_splice(splice: Splice, by: int) -> Splice:
    """The same change in a text that begins `by` characters earlier (later, when negative)."""
    anchor = (splice.anchor[0] + by, splice.anchor[1] + by)
    return replace(splice, start=splice.start + by, end=splice.end + by, anchor=anchor)


def merge(splices: Iterable[Splice]) -> tuple[Splice, ...]:
    """The splices in the order of the text, each once.

    Raises EditOverlapError when two want the same lines.
    """
    given = tuple(splices)
    if len(given) < 2:
        return given
    ordered = sorted(
        dict.fromkeys(given),
        key=lambda splice: (splice.start, splice.rank, splice.toggle_id, splice.target, splice.index),
    )
    by_extent = sorted(ordered, key=lambda splice: _extent(splice)[0])
    for position, splice in enumerate(by_extent):
        end = _extent(splice)[1]
        for other in by_extent[position + 1 :]:
            if _extent(other)[0] > end:
                break
            if _clash(splice, other):
                raise _overlap_error(splice, other)
    return tuple(ordered)


def _extent(splice: Splice) -> tuple[int, int]:
    if splice.anchor[0] == splice.anchor[1]:
        return splice.start, splice.end
    return min(splice.start, splice.anchor[0]), max(splice.end, splice.anchor[1])


def _clash(one: Splice, two: Splice) -> bool:
    replaced = [splice for splice in (one, two) if splice.start < splice.end]
    if not replaced:
        return one.start == two.start and one.rank == two.rank and one.rank is not Rank.PREAMBLE
    for splice in replaced:
        other = two if splice is one else one
        start, end = _extent(other)
        if start < end:
            if start < splice.end and splice.start < end:
                return True
        elif splice.start < start < splice.end:
            return True
    return False


def _overlap_error(one: Splice, two: Splice) -> EditOverlapError:
    first, second = (f"toggle {item.toggle_id} ({_edit_name(item)} of {item.target})" for item in (one, two))
    whose = "edits of one toggle" if one.toggle_id == two.toggle_id else "toggles"
    return EditOverlapError(
        f"{first} and {second} want the same source lines. {whose.capitalize()} go together only when they "
        "touch separate lines: edits match the original source, never each other's text.",
        target=one.target,
        toggles=tuple(dict.fromkeys((one.toggle_id, two.toggle_id))),
    )


def _edit_name(splice: Splice) -> str:
    return "preamble" if splice.index < 0 else f"edit {splice.index + 1}"


def apply_splices(text: str, splices: Sequence[Splice]) -> str:
    """`text` with all splices done; they have to come from `merge`. Every other character stays as it is."""
    pieces: list[str] = []
    position = 0
    for splice in splices:
        pieces += (text[position : splice.start], splice.text)
        position = splice.end
    pieces.append(text[position:])
    return "".join(pieces)


def edited_line_map(text: str, splices: Sequence[Splice]) -> tuple[EditedLines, ...]:
    """For each splice (as `merge` ordered them) the lines of the edited text where it shows."""
    edited = apply_splices(text, splices)
    lines = split_lines(edited)
    found = []
    shift = 0
    for splice in splices:
        begin = splice.start + shift
        shift += len(splice.text) - (splice.end - splice.start)
        first = _line_number(edited, begin)
        count = len(split_lines(splice.text))
        wanted = range(first, first + count) if _has_code(splice.text) else range(first, len(lines) + 1)
        code = [number for number in wanted if _is_code(lines[number - 1])] or [
            min(first, max(1, len(lines)))
        ]
        found.append(EditedLines(splice, code[0], code[0] if splice.is_deletion else code[-1]))
    return tuple(found)


def _line_number(text: str, offset: int) -> int:
    before = text[:offset]
    return before.count("\n") + before.count("\r") - before.count("\r\n") + 1


def _is_code(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith("#")


def _has_code(text: str) -> bool:
    stripped = text.strip()
    if not stripped or stripped[0] != "#":
        return bool(stripped)
    return any(map(_is_code, split_lines(text)))
