"""Slots for a batch: evict what is missing, then take; out of slots is an error, only the tree has changed.

The caller writes the slots into rows and moves the requests' lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kvcore.allocators.page_count import num_decode_pages, num_extend_pages
from kvcore.capacity import evict_from_tree_cache, out_of_slots
from kvcore.errors import OutOfSlots
from kvcore.prefix_cache.base import EvictParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.req import Req


class HasAllocator(Protocol):
    """A batch, as far as its page size is asked for."""

    allocator: TokenToKVPoolAllocator


def _alloc_page_size(batch: HasAllocator) -> int:
    """Slots per page of the batch's allocator; under context parallelism, of a page on all ranks together."""
    return batch.allocator.page_size


def alloc_token_slots(
    tree_cache: PrefixCache | None,
    allocator: TokenToKVPoolAllocator,
    num_tokens: int,
    *,
    phase: str = "Out of memory",
) -> torch.Tensor:
    """Take ``num_tokens`` slots (whole pages), evicting what is missing; int64 [num_tokens].

    Raises OutOfSlots when the pools are short even then. ``phase`` opens its message.
    """
    evict_from_tree_cache(tree_cache, allocator, num_tokens)
    slots = allocator.alloc(num_tokens)
    if slots is None:
        raise out_of_slots(phase, num_tokens, tree_cache, allocator)
    return slots


def alloc_paged_token_slots_extend(
    tree_cache: PrefixCache | None,
    allocator: TokenToKVPoolAllocator,
    prefix_lens: torch.Tensor,
    prefix_lens_cpu: torch.Tensor,
    seq_lens: torch.Tensor,
    seq_lens_cpu: torch.Tensor,
    last_loc: torch.Tensor,
    extend_num_tokens: int,
    *,
    phase: str = "Prefill out of memory",
) -> torch.Tensor:
    """Take the slots that grow request ``i`` from ``prefix_lens[i]`` to ``seq_lens[i]`` tokens.

    Args:
        prefix_lens, seq_lens: int32 or int64 [bs] on the device; the ``_cpu`` twins hold the same values.
        last_loc: int32 or int64 [bs], slot of token ``prefix_lens[i]-1``, -1 where the prefix is empty.
        extend_num_tokens: ``sum(seq_lens - prefix_lens)``.

    Returns int64 [extend_num_tokens], requests concatenated. Evicts exactly the pages that are missing.
    Raises OutOfSlots when the pools are short even then.
    """
    page_size = allocator.page_size
    num_pages = num_extend_pages(prefix_lens_cpu, seq_lens_cpu, page_size)
    evict_from_tree_cache(tree_cache, allocator, num_pages * page_size)
    slots = allocator.alloc_extend(
        prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu, last_loc, extend_num_tokens
    )
    if slots is None:
        raise out_of_slots(phase, extend_num_tokens, tree_cache, allocator)
    return slots


def alloc_paged_token_slots_decode(
    tree_cache: PrefixCache | None,
    allocator: TokenToKVPoolAllocator,
    seq_lens: torch.Tensor,
    seq_lens_cpu: torch.Tensor,
    last_loc: torch.Tensor,
) -> torch.Tensor:
    """Take one slot per request; the lengths (int [bs]) are those after the step, ``last_loc`` those before.

    Returns int64 [bs]. Evicts exactly the pages that are missing. Raises OutOfSlots when the pools are short
    even then.
    """
    page_size = allocator.page_size
    evict_from_tree_cache(tree_cache, allocator, num_decode_pages(seq_lens_cpu, page_size) * page_size)
    slots = allocator.alloc_decode(seq_lens, seq_lens_cpu, last_loc)
    if slots is None:
        raise out_of_slots("Decode out of memory", seq_lens_cpu.numel(), tree_cache, allocator)
    return slots


def alloc_req_slots(
    req_to_token_pool: ReqToTokenPool, reqs: Sequence[Req], tree_cache: PrefixCache | None
) -> list[int]:
    """Grant a row (in a hybrid pool, a state too) to every request that has none; all rows, in their order.

    States that are missing are evicted from the tree first. Raises OutOfSlots, with nothing granted, when
    rows or states are too few; ``req_to_token_pool.undo_alloc`` takes a grant back.
    """
    missing_states = req_to_token_pool.num_missing_states(reqs)
    if missing_states > 0 and tree_cache is not None:
        tree_cache.evict(EvictParams(mamba_num=missing_states))
    rows = req_to_token_pool.alloc(reqs)
    if rows is None:
        raise OutOfSlots(
            f"Out of request slots: {len(reqs)} requests, {req_to_token_pool.available_str(reqs)}. "
            "Admit fewer requests at a time (--max-running-requests), or build larger pools."
        )
    return rows
