"""Guard of 38519: page 0 is never free, also after a request whose front left the window."""

from __future__ import annotations

import pytest

from kvcore.allocators.swa import SWAAllocator
from kvcore.errors import InvariantViolation


@pytest.mark.parametrize("in_group", [False, True])
def test_the_reserved_page_never_becomes_free(in_group: bool) -> None:
    allocator = SWAAllocator(64, 32, 4, device="cpu")
    slots = allocator.alloc(16)
    assert slots is not None
    allocator.free_swa_segment(slots[:8])
    if in_group:
        allocator.free_group_begin()
    try:
        allocator.free_segment(slots, swa_evicted=8)
        allocator.free_group_end()
    except InvariantViolation as violation:
        raise AssertionError(f"freed what had left the window: {violation}") from violation
    assert 0 not in allocator.swa_attn_allocator.free_page_ids().tolist(), "page 0 can be handed out"
    assert (allocator.full_available_size(), allocator.swa_available_size()) == (64, 32)
