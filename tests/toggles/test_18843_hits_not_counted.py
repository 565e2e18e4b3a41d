"""Guard of 18843: a prefix that was used three times outlives one that was used once."""

from __future__ import annotations

import pytest
import torch

from kvcore.prefix_cache.base import EvictParams, RadixKey
from kvcore.prefix_cache.radix import RadixCache
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack


@pytest.mark.parametrize("policy", ["lfu", "slru"])
def test_the_prefix_hit_most_is_kept(policy: str) -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64), num_slots=64)
    tree = RadixCache(stack.pool, stack.allocator, eviction_policy=policy)
    popular, once = RadixKey([1, 2, 3]), RadixKey([7, 8, 9])
    for key in (popular, popular, popular, once):
        slots = stack.allocator.alloc(3)
        assert isinstance(slots, torch.Tensor)
        stack.allocator.free_segment(slots[: tree.insert(key, slots).prefix_len])
    tree.evict(EvictParams(num_tokens=3))
    assert tree.match_prefix(popular).cache_protected_len == 3, "the prefix that was hit three times is gone"
    assert tree.match_prefix(once).cache_protected_len == 0
