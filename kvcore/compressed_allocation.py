"""Slots for models with compressed attention: the states of a step come with its slots, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.allocation_sizing import get_alloc_reserve_per_decode, page_aligned_decode_alloc_lens
from kvcore.allocators.dsv4 import DSV4Allocator
from kvcore.allocators.page_count import num_decode_pages, num_extend_pages
from kvcore.capacity import evict_from_tree_cache, out_of_slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.allocators.dsv4_lens import DSV4StateLens, Phase
    from kvcore.allocators.dsv4_values import DSV4OutCacheLoc
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.req import ReqKvInfo
    from kvcore.server_args import ServerArgs


def _compute_dsv4_state_lens(
    allocator: TokenToKVPoolAllocator,
    rows: Sequence[int],
    prefix_lens_cpu: torch.Tensor,
    seq_lens_cpu: torch.Tensor,
    phase: Phase,
) -> DSV4StateLens | None:
    """State positions of the requests in ``rows`` before and after a step; ``None`` without compress states.

    The lengths are host int [bs], ``phase`` is "extend", "decode", or "reserve" for speculation. Changes
    nothing.
    """
    if not isinstance(allocator, DSV4Allocator):
        return None
    return allocator.compute_dsv4_state_lens(rows, prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), phase)


def decode_states_fit(
    allocator: TokenToKVPoolAllocator, server_args: ServerArgs, records: Sequence[ReqKvInfo]
) -> bool:
    """Whether the compress states that the next decode step of ``records`` takes are free.

    True for models without compress states. Evicting prefixes brings no state back, so nothing is evicted.
    """
    if not isinstance(allocator, DSV4Allocator):
        return True
    rows = [kv.req_pool_idx for kv in records]
    if server_args.speculative_algorithm is None:
        cur = [kv.kv_allocated_len for kv in records]
        nxt = [length + 1 for length in cur]
        state_lens = allocator.compute_dsv4_state_lens(rows, cur, nxt, "decode")
        return allocator.has_states_for(rows, state_lens)
    reserve = get_alloc_reserve_per_decode(server_args)
    lens = page_aligned_decode_alloc_lens(records, reserve, allocator.page_size)
    state_lens = allocator.compute_dsv4_state_lens(rows, lens.cur, lens.nxt, "reserve")
    return allocator.has_states_for(rows, state_lens)


def alloc_extend_bundle(
    tree_cache: PrefixCache | None,
    allocator: DSV4Allocator,
    rows: Sequence[int],
    prefix_lens: torch.Tensor,
    prefix_lens_cpu: torch.Tensor,
    seq_lens: torch.Tensor,
    seq_lens_cpu: torch.Tensor,
    last_loc: torch.Tensor,
    extend_num_tokens: int,
    *,
    step: Phase,
    phase: str,
) -> DSV4OutCacheLoc:
    """As ``alloc_paged_token_slots_extend``, with the states of ``rows`` and all six locations.

    Raises OutOfSlots, with all pools but the tree's as before, when any of them is short.
    """
    state_lens = allocator.compute_dsv4_state_lens(
        rows, prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), step
    )
    page_size = allocator.page_size
    num_pages = num_extend_pages(prefix_lens_cpu, seq_lens_cpu, page_size)
    evict_from_tree_cache(tree_cache, allocator, num_pages * page_size)
    bundle = allocator.alloc_extend_bundle(
        prefix_lens,
        prefix_lens_cpu,
        seq_lens,
        seq_lens_cpu,
        last_loc,
        extend_num_tokens,
        rows=rows,
        state_lens=state_lens,
    )
    if bundle is None:
        raise out_of_slots(phase, extend_num_tokens, tree_cache, allocator)
    return bundle


def alloc_decode_bundle(
    tree_cache: PrefixCache | None,
    allocator: DSV4Allocator,
    rows: Sequence[int],
    seq_lens: torch.Tensor,
    seq_lens_cpu: torch.Tensor,
    last_loc: torch.Tensor,
) -> DSV4OutCacheLoc:
    """As ``alloc_paged_token_slots_decode``, with one state per request and all six locations."""
    lens = seq_lens_cpu.tolist()
    state_lens = allocator.compute_dsv4_state_lens(rows, [seq_len - 1 for seq_len in lens], lens, "decode")
    page_size = allocator.page_size
    evict_from_tree_cache(tree_cache, allocator, num_decode_pages(seq_lens_cpu, page_size) * page_size)
    bundle = allocator.alloc_decode_bundle(seq_lens, seq_lens_cpu, last_loc, rows=rows, state_lens=state_lens)
    if bundle is None:
        raise out_of_slots("Decode out of memory", len(lens), tree_cache, allocator)
    return bundle
