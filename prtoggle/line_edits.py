"""Edits of a function's lines, without a syntax tree: the quick way for what is plain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prtoggle.edits import ends_inside_string, make_splice
from prtoggle.source.looks import looks_alike
from prtoggle.source.matching import find_lines, pattern_of
from prtoggle.source.splices import merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.source.splices import Splice
    from prtoggle.spec import Patch


def plan_lines(
    lines: Sequence[str], first_line: int, last_line: int, target: str, patch: Patch, toggle_id: str
) -> tuple[Splice, ...] | None:
    """The splices of plain edits within a file's lines; None when a syntax tree is needed.

    Offsets count from the beginning of line `first_line`. Gives what `plan_patch` gives or None: for a diff,
    a preamble, an edit without one exact place, a deletion that might leave a block empty, and edits that
    might change no code.
    """
    if not patch.edits or patch.preamble.strip():
        return None
    splices = []
    only_looks = True
    for index, edit in enumerate(patch.edits):
        matches = find_lines(lines, first_line, last_line, pattern_of(edit.match)).in_code
        chosen = (edit.occurrence or 1) - 1
        if chosen >= len(matches) or (edit.occurrence is None and len(matches) > 1):
            return None
        found = matches[chosen]
        if edit.mode == "append" and ends_inside_string(lines, first_line, found):
            return None
        start = sum(map(len, lines[first_line - 1 : found.first - 1]))
        extent = start, start + sum(map(len, lines[found.first - 1 : found.last]))
        splice = make_splice(lines, found, extent, edit, toggle_id, target, index)
        if splice.is_deletion and _may_empty(lines, found.first):
            return None
        replaced = lines[found.first - 1 : found.last] if splice.end > splice.start else ()
        only_looks = only_looks and looks_alike("".join(replaced), splice.text)
        splices.append(splice)
    return None if only_looks else merge(splices)


def _may_empty(lines: Sequence[str], first: int) -> bool:
    """Whether the code above line `first` may be the header of a block; a comment there hides it."""
    above = first - 1
    while above > 0 and not lines[above - 1].strip():
        above -= 1
    text = lines[above - 1].strip() if above else ""
    return text.endswith(":") or "#" in text
