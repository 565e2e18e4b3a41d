"""Guard of 32016: an allocation evicts what it lacks, so that the rest of the cache keeps its hits."""

from __future__ import annotations

import torch

from kvcore.capacity import evict_from_tree_cache
from kvcore.prefix_cache.base import RadixKey
from kvcore.prefix_cache.radix import RadixCache
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack


def test_ten_missing_slots_evict_ten_cached_tokens() -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64), num_slots=190, cache="radix")
    tree = stack.tree
    assert isinstance(tree, RadixCache)
    for token in range(100):
        slot = stack.allocator.alloc(1)
        assert isinstance(slot, torch.Tensor)
        tree.insert(RadixKey([token]), slot)
    assert (stack.allocator.available_size(), tree.evictable_size()) == (90, 100)
    evict_from_tree_cache(tree, stack.allocator, 100)
    assert tree.evictable_size() == 90, "more was evicted than was missing"
    assert stack.allocator.available_size() == 100
