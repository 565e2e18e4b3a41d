"""Guard of 11616: a state that only the prefix cache holds makes room for a new request."""

from __future__ import annotations

import torch

from kvcore.allocation import alloc_req_slots
from kvcore.allocators.token import TokenAllocator
from kvcore.errors import OutOfSlots
from kvcore.prefix_cache.base import RadixKey
from kvcore.prefix_cache.mamba_radix import MambaRadixCache
from tests.toggles.hybrid_rows import make_pool, make_req


def test_a_cached_state_makes_room_for_a_request() -> None:
    pool = make_pool(num_states=1)
    allocator = TokenAllocator(16, device="cpu")
    tree = MambaRadixCache(pool, allocator)
    slots = allocator.alloc(3)
    state = pool.mamba_allocator.alloc(1)
    assert isinstance(slots, torch.Tensor)
    assert state is not None
    tree.insert(RadixKey([1, 2, 3]), slots, mamba_slot=state[0])
    try:
        rows = alloc_req_slots(pool, [make_req("r")], tree)
    except OutOfSlots as error:
        raise AssertionError(f"refused beside a state that nobody uses: {error}") from error
    assert len(rows) == 1
    assert tree.mamba_evictable_size() == 0
