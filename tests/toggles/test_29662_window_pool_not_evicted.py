"""Guard of 29662: window slots that the cache holds make room for a request that arrives."""

from __future__ import annotations

import torch

from kvcore.allocators.swa import SWAAllocator
from kvcore.disaggregation.decode import alloc_for_decode_prealloc
from kvcore.errors import OutOfSlots
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.prefix_cache.base import RadixKey
from kvcore.prefix_cache.swa_radix import SWARadixCache
from kvcore.req import Req


def test_evictable_window_slots_are_enough() -> None:
    allocator = SWAAllocator(64, 16, 4, device="cpu")
    pool = ReqToTokenPool(2, 64, device="cpu")
    tree = SWARadixCache(pool, allocator, sliding_window_size=8)
    cached = allocator.alloc(16)
    assert isinstance(cached, torch.Tensor)
    tree.insert(RadixKey(list(range(16))), cached)
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (48, 0)
    req = Req(rid="received", origin_input_ids=list(range(100, 120)))
    try:
        slots = alloc_for_decode_prealloc(
            req,
            fill_len=20,
            tree_cache=tree,
            allocator=allocator,
            req_to_token_pool=pool,
            sliding_window_size=8,
        )
    except OutOfSlots as error:
        raise AssertionError(f"refused beside window slots that nobody uses: {error}") from error
    assert slots.numel() == 20
    assert (allocator.translate_loc_from_full_to_swa(slots[-8:]) > 0).all()
