"""Carries an edit over to a text that only its layout tells from the one that the edit was written for."""

from __future__ import annotations

import io
import tokenize
from difflib import SequenceMatcher
from typing import NamedTuple

from prtoggle.drift.edit_maker import same_code
from prtoggle.source.source_text import split_lines

_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


class _Token(NamedTuple):
    text: str
    start: int
    end: int


def carry_over(fixed: str, reverted: str, today: str) -> str | None:
    """`today` changed as `reverted` differs from `fixed`, token by token.

    `fixed` and `today` have to be the same program. None unless the result is the same program as `reverted`.
    """
    old, new, now = _tokens(fixed), _tokens(reverted), _tokens(today)
    if not old or not now:
        return None
    place = _aligned(old, now)
    done, shift = today, 0
    for kind, first, last, begin, end in _opcodes(old, new):
        if kind == "equal":
            continue
        if last > first:
            if first not in place or last - 1 not in place:
                return None
            start, stop = now[place[first]].start, now[place[last - 1]].end
        elif first in place:
            start = stop = now[place[first]].start if place[first] < len(now) else len(today)
        else:
            return None
        text = reverted[new[begin].start : new[end - 1].end] if end > begin else ""
        text += " " if last == first and text else ""
        done = done[: start + shift] + text + done[stop + shift :]
        shift += len(text) - (stop - start)
    done = "".join(line for line in split_lines(done) if line.strip() or line in ("\n", "\r\n"))
    return done if same_code(done, reverted) else None


def _tokens(text: str) -> list[_Token]:
    """The tokens that mean something, with their offsets in the text; empty for what is no Python."""
    lines = split_lines(text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    try:
        found = list(tokenize.generate_tokens(io.StringIO(text, newline="").readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    return [
        _Token(
            token.string, starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]
        )
        for token in found
        if token.type not in _LAYOUT
    ]


def _aligned(old: list[_Token], now: list[_Token]) -> dict[int, int]:
    """Which token of `now` stands for each of `old`, where both texts agree; one past the end included."""
    place = {len(old): len(now)}
    for kind, first, last, begin, _ in _opcodes(old, now):
        if kind == "equal":
            place |= {first + step: begin + step for step in range(last - first)}
    return place


def _opcodes(one: list[_Token], other: list[_Token]) -> list[tuple[str, int, int, int, int]]:
    texts = [token.text for token in one], [token.text for token in other]
    return list(SequenceMatcher(None, *texts, autojunk=False).get_opcodes())
