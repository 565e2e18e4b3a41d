"""Disaggregation: freed pages wait apart and are merged, in order, when the free list runs short."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvcore.allocators import PureSWAAllocator
from tests.kvcore.allocators.factories import admit, extend_args, ints, make_pool

if TYPE_CHECKING:
    from kvcore.allocators import PagedAllocator, TokenAllocator


def drained_pool(page_size: int) -> TokenAllocator | PagedAllocator:
    """All pages taken, then given back in descending order: nothing free, all waiting."""
    pool = make_pool(num_pages=3, page_size=page_size, need_sort=True)
    row = admit(pool, 3 * page_size)
    for page in (2, 1, 0):
        pool.free_segment(row[page * page_size : (page + 1) * page_size])
    assert pool.free_pages.tolist() == []
    assert pool.release_pages.tolist() == [3, 2, 1]
    return pool


@pytest.mark.parametrize("page_size", [1, 4])
def test_waiting_pages_count_as_available(page_size: int) -> None:
    assert drained_pool(page_size).available_size() == 3 * page_size


@pytest.mark.parametrize("page_size", [1, 4])
def test_alloc_merges_in_ascending_order(page_size: int) -> None:
    pool = drained_pool(page_size)

    slots = pool.alloc(2 * page_size)

    assert slots is not None
    assert slots[::page_size].tolist() == [page_size, 2 * page_size]
    assert pool.release_pages.tolist() == []


@pytest.mark.parametrize("page_size", [1, 4])
def test_extend_merges_when_the_free_list_is_short(page_size: int) -> None:
    slots = drained_pool(page_size).alloc_extend(*extend_args([0], [page_size + 1], [-1]))

    assert slots is not None
    assert slots[::page_size].tolist() == [page_size, 2 * page_size]


@pytest.mark.parametrize("page_size", [1, 4])
def test_decode_merges_when_the_free_list_is_short(page_size: int) -> None:
    lens = ints([page_size + 1])

    slots = drained_pool(page_size).alloc_decode(lens, lens, ints([50]))

    assert slots is not None
    assert slots.tolist() == [page_size]


def test_nothing_is_merged_while_the_free_list_lasts() -> None:
    pool = make_pool(num_pages=3, page_size=4, need_sort=True)
    pool.free_segment(admit(pool, 4))

    slots = pool.alloc(8)

    assert slots is not None
    assert slots[::4].tolist() == [8, 12]
    assert pool.release_pages.tolist() == [1]


def test_only_the_released_part_is_sorted() -> None:
    """The free list keeps its order; the released pages follow it in theirs."""
    pool = make_pool(num_pages=5, page_size=4, need_sort=True)
    row = admit(pool, 16)
    pool.free_segment(row[8:12])
    pool.free_segment(row[:4])

    slots = pool.alloc(12)

    assert slots is not None
    assert slots[::4].tolist() == [20, 4, 12]


@pytest.mark.parametrize("page_size", [1, 4])
def test_what_would_not_suffice_is_not_merged(page_size: int) -> None:
    """After None the allocator is exactly as before: the released pages wait in their order."""
    pool = drained_pool(page_size)
    lens = ints([page_size + 1] * 4)

    assert pool.alloc(4 * page_size) is None
    assert pool.alloc_extend(*extend_args([0], [4 * page_size], [-1])) is None
    assert pool.alloc_decode(lens, lens, ints([50] * 4)) is None

    assert pool.free_pages.tolist() == []
    assert pool.release_pages.tolist() == [3, 2, 1]


def test_a_pool_of_windows_only_merges_too() -> None:
    pool = PureSWAAllocator(3, device="cpu", need_sort=True)
    slots = pool.alloc(3)
    assert slots is not None
    pool.free(slots.flip(0))

    again = pool.alloc(2)

    assert again is not None
    assert again.tolist() == [1, 2]
