"""Guard of 31643: the state that requests start from outlives those that matches only pass."""

from __future__ import annotations

import torch

from kvcore.allocators.token import TokenAllocator
from kvcore.prefix_cache.base import EvictParams, RadixKey
from kvcore.prefix_cache.mamba_radix import MambaRadixCache
from tests.toggles.hybrid_rows import make_pool


def test_the_state_in_use_outlives_the_one_on_the_way() -> None:
    pool = make_pool(num_states=3)
    allocator = TokenAllocator(32, device="cpu")
    tree = MambaRadixCache(pool, allocator)
    short, long, other = RadixKey([1, 2]), RadixKey([1, 2, 3, 4]), RadixKey([9])
    for key in (short, long, other):
        slots = allocator.alloc(len(key))
        state = pool.mamba_allocator.alloc(1)
        assert isinstance(slots, torch.Tensor)
        assert state is not None
        result = tree.insert(key, slots, mamba_slot=state[0])
        allocator.free_segment(slots[: result.prefix_len])
    tree.match_prefix(long)
    tree.evict(EvictParams(mamba_num=1))
    assert tree.match_prefix(other).mamba_state_slot is not None, "an idle state was kept instead"
    assert tree.match_prefix(short).mamba_state_slot is None
