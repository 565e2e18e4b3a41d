"""Guard of 36135: a free inside a group frees the window slots that the page led to at that moment."""

from __future__ import annotations

import torch

from kvcore.allocators.swa import SWAAllocator


def test_a_page_mapped_anew_before_the_group_ends_keeps_its_new_window_slots() -> None:
    allocator = SWAAllocator(32, 32, 4, device="cpu")
    old = allocator.alloc(4)
    incoming = allocator.alloc(4)
    assert isinstance(old, torch.Tensor)
    assert isinstance(incoming, torch.Tensor)
    allocator.free_group_begin()
    allocator.free(old)
    # A tombstone comes back to life: its full page takes over the incoming window slots.
    window = allocator.translate_loc_from_full_to_swa(incoming)
    allocator.set_full_to_swa_mapping(old, window)
    allocator.set_full_to_swa_mapping(incoming, torch.zeros(4, dtype=torch.int64))
    allocator.free_group_end()
    mapped = int((allocator.full_to_swa_index_mapping > 0).sum())
    used = allocator.size_swa - allocator.swa_available_size()
    assert mapped == used == 4, f"{used} window slots are in use, {mapped} are mapped"
