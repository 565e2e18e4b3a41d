"""Guard of 27038: a released window lock leaves the window locks of other requests alone."""

from __future__ import annotations

import torch

from kvcore.allocators.swa import SWAAllocator
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.prefix_cache.base import EvictParams, RadixKey
from kvcore.prefix_cache.swa_radix import SWARadixCache


def test_the_window_of_a_shorter_request_stays_locked() -> None:
    allocator = SWAAllocator(64, 64, 1, device="cpu")
    tree = SWARadixCache(ReqToTokenPool(2, 64, device="cpu"), allocator, sliding_window_size=4)
    tokens = list(range(12))
    for end in (6, 12):
        slots = allocator.alloc(end)
        assert isinstance(slots, torch.Tensor)
        tree.insert(RadixKey(tokens[:end]), slots)
    short = tree.inc_lock_ref(tree.match_prefix(RadixKey(tokens[:6])).last_node)
    long = tree.inc_lock_ref(tree.match_prefix(RadixKey(tokens)).last_node)
    tree.dec_lock_ref(long)
    assert tree.swa_protected_size() == 6, "the window of the shorter request is not locked any more"
    tree.evict(EvictParams(num_tokens=64, swa_num_tokens=64))
    window = allocator.translate_loc_from_full_to_swa(tree.owned_slots())
    assert (window > 0).all(), "the window of a running request was evicted"
    tree.dec_lock_ref(short)
    tree.check()
