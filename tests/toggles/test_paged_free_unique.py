"""Guard of paged-free-unique: slots of one page freed in one call free the page once."""

from __future__ import annotations

import pytest

from kvcore.allocators.paged import PagedAllocator


@pytest.mark.parametrize("in_group", [False, True])
def test_two_slots_of_a_page_free_it_once(in_group: bool) -> None:
    allocator = PagedAllocator(32, 4, device="cpu")
    slots = allocator.alloc(16)
    assert slots is not None
    if in_group:
        allocator.free_group_begin()
    allocator.free(slots[[0, 1, 4, 5]])
    allocator.free_group_end()
    pages = allocator.free_page_ids().tolist()
    assert len(pages) == len(set(pages)), "a page is free twice"
    assert allocator.available_size() == 24
