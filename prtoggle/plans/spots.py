"""Where an edit shows in the text that runs, as those who watch for it need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prtoggle.installers.base import Spot
from prtoggle.source.source_text import split_lines

if TYPE_CHECKING:
    from prtoggle.source.splices import EditedLines


def spot_of(shown: EditedLines, original: str, shift: int = 0) -> Spot:
    """The spot of one splice of `original`; its lines are those of the edited text, moved down by `shift`."""
    splice = shown.splice
    indent = None
    if splice.is_deletion:
        lines = split_lines(original[splice.start : splice.end])
        indent = next((len(line) - len(line.lstrip()) for line in lines if line.strip()), None)
    lines_shown = tuple(range(shown.first + shift, shown.last + shift + 1))
    return Spot(splice.toggle_id, splice.target, splice.index, lines_shown, indent)
