"""Guard of 27779: a window page whose tokens are freed in two parts is freed once."""

from __future__ import annotations

import pytest
import torch

from kvcore.allocators.swa import SWAAllocator


@pytest.mark.parametrize("in_group", [False, True])
def test_a_window_page_freed_in_two_parts_is_free_once(in_group: bool) -> None:
    allocator = SWAAllocator(64, 32, 4, device="cpu")
    slots = allocator.alloc(8)
    assert isinstance(slots, torch.Tensor)
    if in_group:
        allocator.free_group_begin()
    allocator.free_swa(slots[:2])
    allocator.free_swa(slots[2:8])
    allocator.free_group_end()
    pages = allocator.swa_attn_allocator.free_page_ids().tolist()
    assert len(pages) == len(set(pages)), "a window page is free twice"
    assert allocator.swa_available_size() == 32
    assert not allocator.translate_loc_from_full_to_swa(slots).any()
