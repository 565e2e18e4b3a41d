"""Guard of 8133: pages that were released can be allocated by every way to allocate."""

from __future__ import annotations

import torch

from kvcore.allocators.paged import PagedAllocator


def _emptied() -> PagedAllocator:
    """All pages handed out and released again: none is in the free list."""
    allocator = PagedAllocator(16, 4, device="cpu", need_sort=True)
    slots = allocator.alloc(16)
    assert slots is not None
    allocator.free_segment(slots)
    assert allocator.available_size() == 16
    return allocator


def test_an_extend_finds_the_released_pages() -> None:
    allocator = _emptied()
    none, lens = torch.tensor([0]), torch.tensor([8])
    slots = allocator.alloc_extend(none, none, lens, lens, torch.tensor([-1]), 8)
    assert slots is not None, "nothing could be allocated although 16 slots are free"
    assert allocator.available_size() == 8


def test_a_decode_step_finds_the_released_pages() -> None:
    allocator = _emptied()
    lens = torch.tensor([1, 1])
    slots = allocator.alloc_decode(lens, lens, torch.tensor([-1, -1]))
    assert slots is not None, "nothing could be allocated although 16 slots are free"
    assert allocator.available_size() == 8
