"""Three texts of one function, with the fix, today and before the fix, merged into today's without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prtoggle.drift.carried import carry_over
from prtoggle.drift.edit_maker import same_code
from prtoggle.drift.merging import Merged, dedented, merge_lines
from prtoggle.source.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence


def merged_function(fixed: Sequence[str], today: Sequence[str], before: Sequence[str]) -> tuple[Merged, str]:
    """The merge of three texts of a function at whatever indentation each is, and today's indentation."""
    base, ours = dedented(today)
    newline = "\r\n" if today and today[0].endswith("\r\n") else "\n"
    with_fix, without = (
        [line.rstrip("\r\n") + newline for line in dedented(text)[1]] for text in (fixed, before)
    )
    ours = [line.rstrip("\r\n") + newline for line in ours]
    merged = merge_lines(with_fix, ours, without)
    if not merged.clean:
        # A later commit may have laid the fix's own lines out anew, and changed nothing.
        texts = ["".join(lines) for lines in (with_fix, without, ours)]
        carried = carry_over(*texts) if same_code(texts[0], texts[2]) else None
        if carried is not None:
            merged = Merged(split_lines(carried), (), 1, 0)
    return merged, base


def first_conflict(merged: Merged) -> str:
    """What a person would see of the first conflict, in one line."""
    conflict = merged.conflicts[0]
    gone, came = _only(conflict.base, conflict.ours), _only(conflict.ours, conflict.base)
    if gone and came:
        what = f"what the fix made {gone!r} now reads {came!r}"
    elif came:
        what = f"{came!r} was put in among them"
    else:
        what = f"what the fix made {gone!r} is gone" if gone else "their indentation, order or number changed"
    return f"was changed later on the fix's own lines: {what}"


def _only(lines: Sequence[str], others: Sequence[str]) -> str:
    """The first line that the others do not have, whatever its indentation; empty without one."""
    there = {line.strip() for line in others}
    return next((line.strip() for line in lines if line.strip() and line.strip() not in there), "")
