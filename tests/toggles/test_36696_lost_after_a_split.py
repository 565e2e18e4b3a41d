"""Guard of 36696: a run that was split is still found in full, and evicted in full."""

from __future__ import annotations

import pytest
import torch

from kvcore.prefix_cache.base import EvictParams, RadixKey
from kvcore.prefix_cache.radix import RadixCache
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack


@pytest.mark.parametrize("page_size", [1, 4])
def test_both_branches_of_a_split_run_are_found(page_size: int) -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64, page_size=page_size), num_slots=128)
    tree = RadixCache(stack.pool, stack.allocator)
    first = RadixKey(list(range(16)))
    second = RadixKey([*range(8), *range(100, 108)])
    for key in (first, second):
        slots = stack.allocator.alloc(16)
        assert isinstance(slots, torch.Tensor)
        stack.allocator.free_segment(slots[: tree.insert(key, slots).prefix_len])
    assert tree.match_prefix(first).cache_protected_len == 16
    assert tree.match_prefix(second).cache_protected_len == 16
    tree.evict(EvictParams(num_tokens=128))
    assert stack.allocator.available_size() == 128
