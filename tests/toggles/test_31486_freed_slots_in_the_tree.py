"""Guard of 31486: the tree of an all-window model holds no slot that is free."""

from __future__ import annotations

import torch

from kvcore.allocators.pure_swa import PureSWAAllocator
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.prefix_cache.pure_swa_radix import PureSWARadixCache
from kvcore.req import Req, ReqKvInfo


def test_a_finished_request_inserts_nothing_it_has_given_back() -> None:
    allocator = PureSWAAllocator(32, device="cpu")
    pool = ReqToTokenPool(2, 32, device="cpu")
    tree = PureSWARadixCache(pool, allocator, sliding_window_size=4)
    slots = allocator.alloc(12)
    assert isinstance(slots, torch.Tensor)
    req = Req(rid="r", origin_input_ids=list(range(12)))
    rows = pool.alloc([req])
    assert rows is not None
    pool.req_to_token[rows[0], :12] = slots
    allocator.free_swa_segment(slots[:8])
    req.kv = ReqKvInfo(rows[0], 0, 12, 12, swa_evicted_seqlen=8)
    tree.cache_finished_req(req, kv_len=12)
    free = set(allocator.free_page_ids().tolist())
    held = set(tree.owned_slots().tolist())
    assert not free & held, f"slots {sorted(free & held)} are free and cached"
    assert allocator.available_size() + tree.evictable_size() == 32
