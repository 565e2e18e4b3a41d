"""Allocators and lengths for tests; everything on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from kvcore.allocators import PagedAllocator, SWAAllocator, TokenAllocator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.allocators.base import TokenToKVPoolAllocator


class ExtendArgs(NamedTuple):
    """Positional arguments of ``alloc_extend``."""

    prefix_lens: torch.Tensor
    prefix_lens_cpu: torch.Tensor
    seq_lens: torch.Tensor
    seq_lens_cpu: torch.Tensor
    last_loc: torch.Tensor
    extend_num_tokens: int


def ints(values: Sequence[int], dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def extend_args(
    prefix_lens: Sequence[int],
    seq_lens: Sequence[int],
    last_locs: Sequence[int],
    dtype: torch.dtype = torch.int64,
) -> ExtendArgs:
    prefix, seq = ints(prefix_lens, dtype), ints(seq_lens, dtype)
    num_tokens = sum(seq_lens) - sum(prefix_lens)
    return ExtendArgs(prefix, prefix.clone(), seq, seq.clone(), ints(last_locs, dtype), num_tokens)


def make_pool(
    num_pages: int = 8, page_size: int = 4, *, need_sort: bool = False
) -> TokenAllocator | PagedAllocator:
    """The allocator that an engine would pick for the page size."""
    if page_size == 1:
        return TokenAllocator(num_pages, device="cpu", need_sort=need_sort)
    return PagedAllocator(num_pages * page_size, page_size, device="cpu", need_sort=need_sort)


def make_swa(
    num_pages: int = 8, num_swa_pages: int = 8, page_size: int = 4, *, need_sort: bool = False
) -> SWAAllocator:
    return SWAAllocator(
        num_pages * page_size, num_swa_pages * page_size, page_size, device="cpu", need_sort=need_sort
    )


def admit(allocator: TokenToKVPoolAllocator, num_tokens: int) -> torch.Tensor:
    """The row of a fresh request of ``num_tokens`` tokens; the pool must have room."""
    row = allocator.alloc_extend(*extend_args([0], [num_tokens], [-1]))
    assert row is not None
    return row


def snapshot(allocator: object) -> list[object]:
    """All that an allocator must leave alone when it answers ``None`` or raises."""
    if isinstance(allocator, SWAAllocator):
        return [
            snapshot(allocator.full_attn_allocator),
            snapshot(allocator.swa_attn_allocator),
            allocator.full_to_swa_index_mapping.tolist(),
        ]
    assert isinstance(allocator, TokenAllocator | PagedAllocator)
    state = allocator.backup_state()
    queued = [pages.tolist() for pages in state.queued]
    return [state.free_pages.tolist(), state.release_pages.tolist(), queued, state.group_open]
