"""Writes the bundled trace: ``python -m kvcore.simulate.make_bundled_trace``. The same bytes every time.

A busy quarter of a minute of an imagined chat service: conversations of several turns whose prompts grow
by the last answer and the next question, a system prompt that many of them share, and now and then a document
that fits no context.
"""

from __future__ import annotations

import json
import random
from typing import NamedTuple

from kvcore.simulate.trace import BUNDLED_TRACE, TRACE_BLOCK

_SEED = 20260
_CONVERSATIONS = 52
_SYSTEM_PROMPTS = ((0, 1, 2), (3,), ())
"""Hash ids of the blocks that the conversations of one service share."""
_DOCUMENT_EVERY = 9
"""Each so many conversations starts with a document of 5,000 to 9,000 tokens."""


class _Row(NamedTuple):
    arrival_ms: int
    input_len: int
    output_len: int
    hash_ids: list[int]


def bundled_rows() -> list[dict[str, object]]:
    """The rows of the bundled trace in the order of arrival, ready to be dumped as JSON."""
    rng = random.Random(_SEED)  # noqa: S311 - a reproducible workload, no secret
    next_hash = 1 + max(max(ids, default=0) for ids in _SYSTEM_PROMPTS)
    rows: list[_Row] = []
    for conversation in range(_CONVERSATIONS):
        turns, next_hash = _conversation(rng, conversation, next_hash)
        rows.extend(turns)
    rows.sort(key=lambda row: row.arrival_ms)
    return [
        {
            "timestamp": r.arrival_ms,
            "input_length": r.input_len,
            "output_length": r.output_len,
            "hash_ids": r.hash_ids,
        }
        for r in rows
    ]


def _conversation(rng: random.Random, number: int, next_hash: int) -> tuple[list[_Row], int]:
    """The turns of one conversation; only whole blocks carry over from turn to turn, as in Mooncake's."""
    whole_blocks = list(_SYSTEM_PROMPTS[number % len(_SYSTEM_PROMPTS)])
    length = len(whole_blocks) * TRACE_BLOCK
    if number % _DOCUMENT_EVERY == _DOCUMENT_EVERY - 1:
        length += rng.randint(5_000, 9_000)
    arrival = rng.randint(0, 12_000)
    rows: list[_Row] = []
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        length += int(rng.lognormvariate(5.0, 0.9)) + 8
        blocks = -(-length // TRACE_BLOCK)
        new = blocks - len(whole_blocks)
        hash_ids = whole_blocks + list(range(next_hash, next_hash + new))
        next_hash += new
        output_len = min(600, int(rng.lognormvariate(4.6, 0.8)) + 1)
        rows.append(_Row(arrival, length, output_len, hash_ids))
        whole_blocks = hash_ids[: length // TRACE_BLOCK]
        length += output_len
        arrival += rng.randint(500, 4_000)
    return rows, next_hash


def bundled_text() -> str:
    """The bytes of the bundled trace as text: JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in bundled_rows())


if __name__ == "__main__":
    BUNDLED_TRACE.write_text(bundled_text(), encoding="utf-8")
