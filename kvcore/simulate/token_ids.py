"""Token ids for requests of which a trace only tells the lengths and the identity of prompt blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.simulate.trace import TRACE_BLOCK

if TYPE_CHECKING:
    from kvcore.simulate.trace import TraceRequest

_PRIVATE_BASE = 1 << 40
"""First id outside the blocks of any trace; below it, id = hash id * TRACE_BLOCK + offset in the block."""
_IDS_PER_REQUEST = 1 << 24


def prompt_ids(request: TraceRequest, prompt_len: int, block_len: int = TRACE_BLOCK) -> list[int]:
    """The first ``prompt_len`` token ids of the request's prompt; a new list.

    Equal hash ids give equal blocks of ids, different ones share no id, so that prompts share exactly the
    prefixes that the trace says they share. A request without hash ids shares nothing with any other.
    ``block_len`` below ``TRACE_BLOCK`` goes with lengths that are shrunk by the same factor.
    """
    if request.hash_ids is None:
        start = _private_start(request.line)
        return list(range(start, start + prompt_len))
    ids: list[int] = []
    for block in range(-(-prompt_len // block_len)):
        start = request.hash_ids[block] * TRACE_BLOCK
        ids.extend(range(start, start + min(block_len, prompt_len - block * block_len)))
    return ids


def output_ids(line: int, num_done: int, num_new: int) -> range:
    """Ids of output tokens ``num_done`` to ``num_done + num_new`` of one request; no other has them."""
    start = _private_start(line) + _IDS_PER_REQUEST // 2 + num_done
    return range(start, start + num_new)


def _private_start(line: int) -> int:
    return _PRIVATE_BASE + line * _IDS_PER_REQUEST
