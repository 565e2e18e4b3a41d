"""Guard of 24036: a request that arrives takes window slots for its window, in whole pages."""

from __future__ import annotations

import pytest

from kvcore.allocators.swa import SWAAllocator
from kvcore.disaggregation.decode import alloc_for_decode_prealloc
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.prefix_cache.swa_chunk import SWAChunkCache
from kvcore.release import release_kv_cache
from kvcore.req import Req


@pytest.mark.parametrize(("fill_len", "used"), [(48, 8), (46, 12), (6, 8)])
def test_only_the_window_takes_window_slots(fill_len: int, used: int) -> None:
    allocator = SWAAllocator(64, 64, 4, device="cpu")
    pool = ReqToTokenPool(2, 64, device="cpu")
    tree = SWAChunkCache(pool, allocator, sliding_window_size=8)
    req = Req(rid="received", origin_input_ids=list(range(fill_len)))
    alloc_for_decode_prealloc(
        req,
        fill_len=fill_len,
        tree_cache=tree,
        allocator=allocator,
        req_to_token_pool=pool,
        sliding_window_size=8,
    )
    assert allocator.size_swa - allocator.swa_available_size() == used
    release_kv_cache(req, tree)
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (64, 64)
