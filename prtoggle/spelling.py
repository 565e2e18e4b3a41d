"""Offers for a misspelt name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def near_names(wrong: str, known: Iterable[str]) -> list[str]:
    """Up to three of the `known` names that look like `wrong`, the likeliest first."""
    return difflib.get_close_matches(wrong, sorted(set(known)), n=3, cutoff=0.6)


def or_none(near: list[str]) -> str:
    """The end of a message: "; did you mean a or b?", or nothing."""
    return f"; did you mean {' or '.join(near)}?" if near else ""
