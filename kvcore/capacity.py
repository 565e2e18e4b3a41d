"""What is free, what eviction can add, and what to say when both together are too little."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.allocators.base import MapsWindow
from kvcore.allocators.dsv4 import DSV4Allocator
from kvcore.errors import OutOfSlots
from kvcore.prefix_cache.base import EvictParams, SupportsSWA

if TYPE_CHECKING:
    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.prefix_cache.base import PrefixCache


def evict_from_tree_cache(
    tree_cache: PrefixCache | None, allocator: TokenToKVPoolAllocator, num_tokens: int
) -> None:
    """Evict what ``num_tokens`` slots are short of, in each pool of ``allocator``, and no more.

    Does nothing when the slots are free or there is no cache. The cache gives back at least what it is asked
    for, or all that is not locked; whether that is enough shows in the allocation that follows
    (sgl-project/sglang#32016).
    """
    if tree_cache is None:
        return
    missing, swa_missing = allocator.shortfall(num_tokens)
    if missing or swa_missing:
        tree_cache.evict(EvictParams(num_tokens=missing, swa_num_tokens=swa_missing))


def available_and_evictable_str(tree_cache: PrefixCache | None, allocator: TokenToKVPoolAllocator) -> str:
    """Free and evictable slots, one line per pool, and free compress states, for error messages."""
    if not isinstance(allocator, MapsWindow):
        return _pool_line("tokens", allocator.available_size(), _evictable(tree_cache))
    swa_evictable = tree_cache.swa_evictable_size() if isinstance(tree_cache, SupportsSWA) else 0
    lines = [
        _pool_line("full tokens", allocator.full_attn_allocator.available_size(), _evictable(tree_cache)),
        _pool_line("window tokens", allocator.swa_attn_allocator.available_size(), swa_evictable),
    ]
    if isinstance(allocator, DSV4Allocator):
        lines += [
            f"Available c{pool.ratio} states: {pool.allocator.available_size()}" for pool in allocator.states
        ]
    return "\n".join(lines)


def out_of_slots(
    what: str, num_tokens: int, tree_cache: PrefixCache | None, allocator: TokenToKVPoolAllocator
) -> OutOfSlots:
    """The error of an entry point; ``what`` is "Out of memory", or the phase and "out of memory"."""
    return OutOfSlots(
        f"{what}. Try to lower your batch size.\n"
        f"Try to allocate {num_tokens} tokens.\n"
        f"{available_and_evictable_str(tree_cache, allocator)}"
    )


def _evictable(tree_cache: PrefixCache | None) -> int:
    return 0 if tree_cache is None else tree_cache.evictable_size()


def _pool_line(name: str, available: int, evictable: int) -> str:
    return (
        f"Available {name}: {available + evictable} (available_size={available} + evictable_size={evictable})"
    )
