"""Guard of 36739: the second end of a free group frees nothing."""

from __future__ import annotations

import pytest

from kvcore.errors import InvariantViolation
from tests.toggles.small_stack import make_allocator


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_second_end_frees_nothing(page_size: int) -> None:
    allocator = make_allocator(32, page_size)
    slots = allocator.alloc(16)
    other = allocator.alloc(8)
    assert slots is not None
    assert other is not None
    allocator.free_group_begin()
    allocator.free_segment(slots)
    allocator.free_group_end()
    try:
        allocator.free_group_end()
    except InvariantViolation as violation:
        raise AssertionError(f"the second end freed again: {violation}") from violation
    assert allocator.available_size() == 24
    pages = allocator.free_page_ids().tolist()
    assert len(pages) == len(set(pages))
