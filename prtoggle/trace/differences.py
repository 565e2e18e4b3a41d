"""How a difference between two values is told: the place, and what each side has there."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from prtoggle.trace.shortening import shorten

#: Stands for a value that is not there.
MISSING: Final = object()


class Difference(NamedTuple):
    """The first place where two values differ, and what each of them has there."""

    where: str
    ours: str
    theirs: str


def difference(where: str, ours: Any, theirs: Any) -> Difference:
    """Both values in text; with their types where they would read alike otherwise."""
    texts = ["nothing" if value is MISSING else shorten(value) for value in (ours, theirs)]
    if texts[0] == texts[1]:
        texts = [
            f"{text} ({type(value).__qualname__})" for text, value in zip(texts, (ours, theirs), strict=True)
        ]
    if texts[0] == texts[1]:
        texts[1] = f"{texts[1]}, of another making"
    return Difference(where, texts[0], texts[1])


def only(items: Any, whole: Any) -> str:
    """A set in text, and which `items` of it the other one lacks."""
    if not items or len(items) == len(whole):
        return shorten(whole)
    return f"{shorten(whole)}, alone in having {shorten(items)}"
