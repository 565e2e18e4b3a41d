"""Guard of lock-the-matched-node: eviction cannot free what a running request has locked."""

from __future__ import annotations

import torch

from kvcore.prefix_cache.base import EvictParams, RadixKey
from kvcore.prefix_cache.radix import RadixCache
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack


def test_a_locked_prefix_survives_any_eviction() -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64), num_slots=32)
    tree = RadixCache(stack.pool, stack.allocator)
    slots = stack.allocator.alloc(8)
    assert isinstance(slots, torch.Tensor)
    tree.insert(RadixKey(list(range(8))), slots)
    lock = tree.inc_lock_ref(tree.match_prefix(RadixKey(list(range(8)))).last_node)
    tree.evict(EvictParams(num_tokens=32))
    free = set(stack.allocator.free_page_ids().tolist())
    assert not free & set(slots.tolist()), "slots of a locked prefix are free"
    tree.dec_lock_ref(lock)
    assert tree.evict(EvictParams(num_tokens=32)).num_tokens_evicted == 8
