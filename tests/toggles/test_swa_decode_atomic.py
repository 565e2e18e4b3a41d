"""Guard of swa-decode-atomic: a decode step that the window pool cannot serve takes nothing from the full pool."""

from __future__ import annotations

import torch

from kvcore.allocators.swa import SWAAllocator


def test_a_step_without_window_pages_leaves_both_pools_alone() -> None:
    allocator = SWAAllocator(64, 8, 4, device="cpu")
    assert allocator.alloc(8) is not None
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (56, 0)
    lens = torch.tensor([9])
    last = torch.tensor([11])
    assert allocator.alloc_decode(lens, lens, last) is None
    assert allocator.full_available_size() == 56, "a page of the full pool is lost"
