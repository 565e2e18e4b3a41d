"""Lines that stood on one side of an edit's own lines and stand on the other side today.

`x = max(x, 0)` moved below the only line that reads x still has its place, and taking it out changes nothing.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.drift.merging import changes
from prtoggle.source.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LEAVES = {"return", "raise", "continue", "break", "assert", "yield"}


class _Text(NamedTuple):
    lines: list[str]
    """Stripped."""
    spans: list[tuple[int, int]]
    """[first, last) of each place that the edit changes."""


def passed(locked: tuple[str, str], today: tuple[str, str]) -> list[str]:
    """The lines that have passed the edit's own and share a name with them, or leave; stripped, in order.

    Each pair is a text with the fix and the same text with the edit done. Lines that stand more than once in
    either text tell nothing.
    """
    then, now = _text(*locked), _text(*today)
    if len(then.spans) != len(now.spans):
        return []
    once = [{line for line, times in Counter(text.lines).items() if times == 1} for text in (then, now)]
    telling = once[0] & once[1]
    found = []
    for old, new in zip(then.spans, now.spans, strict=True):
        own = {word for line in then.lines[slice(*old)] for word in _words(line)}
        sides = _sides(then.lines, old), _sides(now.lines, new)
        crossed = (sides[0][0] & sides[1][1]) | (sides[0][1] & sides[1][0])
        found += [
            line
            for line in now.lines
            if line in crossed & telling and (own & set(_words(line)) or line.split(" ")[0] in _LEAVES)
        ]
    return list(dict.fromkeys(found))


def _text(fixed: str, edited: str) -> _Text:
    lines = split_lines(fixed)
    spans = [(first, last) for first, last, _, _ in changes(lines, split_lines(edited))]
    return _Text([line.strip() for line in lines], spans)


def _sides(lines: Sequence[str], span: tuple[int, int]) -> tuple[set[str], set[str]]:
    return set(lines[: span[0]]), set(lines[span[1] :])


def _words(line: str) -> Iterator[str]:
    """The names in a line of code, not those in its comment."""
    for word in re.findall(r"[^\W\d]\w*", line.partition("#")[0]):
        if not keyword.iskeyword(word):
            yield word
