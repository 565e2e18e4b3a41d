"""Guard of 22470: behind the last page boundary a tree may insert, a window of tokens stays alive."""

from __future__ import annotations

import pytest

from kvcore.allocators.swa import SWAAllocator
from kvcore.page_math import align_down
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.release import free_swa_out_of_window_slots
from kvcore.req import Req, ReqKvInfo


@pytest.mark.parametrize(("window", "page_size"), [(4, 16), (5, 4), (16, 16), (3, 1)])
def test_a_window_stays_alive_before_every_insert_boundary(window: int, page_size: int) -> None:
    for pre_len in range(1, 6 * max(window, page_size)):
        evicted = _evicted_at(pre_len, window, page_size)
        boundary = align_down(pre_len, page_size)
        live_tail = boundary - evicted
        assert evicted == 0 or live_tail >= window, f"at {pre_len} tokens, {live_tail} of {window} are alive"


def _evicted_at(pre_len: int, window: int, page_size: int) -> int:
    """How far out-of-window eviction goes for a request of `pre_len` tokens."""
    size = align_down(pre_len + page_size, page_size)
    allocator = SWAAllocator(size, size, page_size, device="cpu")
    slots = allocator.alloc(size)
    assert slots is not None
    pool = ReqToTokenPool(1, size, device="cpu")
    pool.req_to_token[1] = slots
    req = Req(rid="r", origin_input_ids=[0] * pre_len, kv=ReqKvInfo(1, 0, pre_len, pre_len))
    free_swa_out_of_window_slots(
        req,
        pre_len,
        sliding_window_size=window,
        page_size=page_size,
        req_to_token_pool=pool,
        allocator=allocator,
        is_chunk_cache=False,
    )
    assert req.kv is not None
    assert allocator.swa_available_size() == req.kv.swa_evicted_seqlen
    return req.kv.swa_evicted_seqlen
