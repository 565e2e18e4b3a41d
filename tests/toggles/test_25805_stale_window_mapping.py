"""Guard of 25805: outside its window tail a request's slots lead nowhere, whatever its pages led to before."""

from __future__ import annotations

import pytest
import torch

from kvcore.allocators.swa import SWAAllocator


@pytest.mark.parametrize("tail_len", [0, 4])
def test_recycled_pages_do_not_lead_to_another_owners_window(tail_len: int) -> None:
    allocator = SWAAllocator(32, 32, 4, device="cpu")
    owner = allocator.alloc(4)
    assert isinstance(owner, torch.Tensor)
    owned = allocator.translate_loc_from_full_to_swa(owner)
    # What a former owner of these pages left behind.
    allocator.set_full_to_swa_mapping(torch.arange(8, 16), owned.repeat(2))
    lens, none = torch.tensor([8]), torch.tensor([0])
    slots = allocator.alloc_extend_swa_tail(none, none, lens, lens, torch.tensor([-1]), 8, tail_len)
    assert isinstance(slots, torch.Tensor)
    head = allocator.translate_loc_from_full_to_swa(slots[: 8 - tail_len])
    assert not head.any(), f"slots {slots.tolist()} lead to window slots {head.tolist()}"
    allocator.free(slots)
    free = set(allocator.swa_attn_allocator.free_page_ids().tolist())
    assert int(owned[0]) // 4 not in free, "the window page of a live owner is free"
