"""Token and paged allocators: single calls."""

from __future__ import annotations

import pytest
import torch

from kvcore import kernels
from kvcore.allocators import PagedAllocator
from kvcore.errors import ConfigurationError, InvariantViolation, PageAlignmentError
from tests.kvcore.allocators.factories import admit, extend_args, ints, make_pool, snapshot

DTYPES = [torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_extend_uses_up_the_last_page_then_takes_pages_in_request_order(dtype: torch.dtype) -> None:
    pool = make_pool(page_size=4, num_pages=16)
    pool.set_free_pages([7, 8, 9])

    slots = pool.alloc_extend(*extend_args([6, 0], [13, 3], [21, -1], dtype))

    assert slots is not None
    assert slots.tolist() == [22, 23, 28, 29, 30, 31, 32, 36, 37, 38]
    assert slots.dtype == torch.int64
    assert pool.free_pages.tolist() == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_decode_opens_a_page_where_one_begins(dtype: torch.dtype) -> None:
    pool = make_pool(page_size=4, num_pages=16)
    pool.set_free_pages([5, 6])

    slots = pool.alloc_decode(ints([9, 8], dtype), ints([9, 8], dtype), ints([15, 18], dtype))

    assert slots is not None
    assert slots.tolist() == [20, 19]
    assert slots.dtype == torch.int64
    assert pool.free_pages.tolist() == [6]


def test_page_size_one_works_in_pages_too() -> None:
    pool = PagedAllocator(5, 1, device="cpu")

    assert admit(pool, 3).tolist() == [1, 2, 3]
    slots = pool.alloc_decode(ints([4, 2]), ints([4, 2]), ints([3, 2]))

    assert slots is not None
    assert slots.tolist() == [4, 5]


@pytest.mark.parametrize("page_size", [1, 4])
def test_alloc_hands_out_whole_pages_in_order(page_size: int) -> None:
    pool = make_pool(num_pages=3, page_size=page_size)

    slots = pool.alloc(2 * page_size)

    assert slots is not None
    assert slots.tolist() == list(range(page_size, 3 * page_size))
    assert pool.available_size() == page_size


def test_alloc_refuses_a_part_of_a_page() -> None:
    pool = make_pool(page_size=4)
    before = snapshot(pool)

    with pytest.raises(PageAlignmentError, match="found 6 slots at page_size 4"):
        pool.alloc(6)

    assert snapshot(pool) == before


def test_a_pool_of_partial_pages_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="found size 10 and page_size 4"):
        PagedAllocator(10, 4, device="cpu")


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("need_sort", [False, True])
def test_a_short_pool_answers_none_and_stays_as_it_was(
    page_size: int, need_sort: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capacity is known before a kernel runs: neither kernel is reached."""
    pool = make_pool(num_pages=3, page_size=page_size, need_sort=need_sort)
    row = admit(pool, 3 * page_size)
    pool.free_segment(row[:page_size])
    before = sorted(pool.free_page_ids().tolist())
    launched: list[str] = []
    for name in ("alloc_extend", "alloc_decode"):
        monkeypatch.setattr(kernels, name, lambda *_, _name=name, **__: launched.append(_name))

    assert pool.alloc(2 * page_size) is None
    assert pool.alloc_extend(*extend_args([0, 0], [1, 1], [-1, -1])) is None
    lens = ints([page_size + 1] * 2)
    assert pool.alloc_decode(lens, lens, ints([2, 3])) is None
    assert launched == []
    assert sorted(pool.free_page_ids().tolist()) == before


def test_an_empty_free_list_never_reaches_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool(num_pages=1, page_size=4)
    row = admit(pool, 4)
    launched = []
    monkeypatch.setattr(kernels, "alloc_extend", lambda *_, **__: launched.append("extend"))

    assert pool.alloc_extend(*extend_args([4], [5], [int(row[3])])) is None
    assert launched == []


def test_an_empty_batch_takes_nothing() -> None:
    pool = make_pool()
    before = snapshot(pool)

    extended = pool.alloc_extend(*extend_args([], [], []))
    decoded = pool.alloc_decode(ints([]), ints([]), ints([]))

    assert extended is not None
    assert extended.tolist() == []
    assert decoded is not None
    assert decoded.tolist() == []
    pool.free(ints([]))
    pool.free_segment(ints([]))
    assert snapshot(pool) == before


def test_a_request_that_does_not_grow_takes_no_slot() -> None:
    pool = make_pool(page_size=4)
    row = admit(pool, 6)

    slots = pool.alloc_extend(*extend_args([6, 0], [6, 2], [int(row[5]), -1]))

    assert slots is not None
    assert slots.tolist() == [12, 13]


def test_free_takes_any_order_any_part_and_duplicates() -> None:
    """One free call over the same page twice frees it once."""
    pool = make_pool(num_pages=3, page_size=4)
    row = admit(pool, 12)

    pool.free(torch.cat((row[[9, 2]], row[:3], row[9:10])))

    assert pool.free_pages.tolist() == [1, 3]
    assert pool.available_size() == 8


def test_the_reserved_page_is_never_freed() -> None:
    pool = make_pool(num_pages=3, page_size=4)
    row = admit(pool, 4)

    pool.free(torch.cat((ints([0, 3]), row)))

    assert sorted(pool.free_pages.tolist()) == [1, 2, 3]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("num_tokens", [1, 4, 5, 11])
def test_a_segment_frees_its_pages_in_order(dtype: torch.dtype, num_tokens: int) -> None:
    pool = make_pool(num_pages=3, page_size=4)
    row = admit(pool, num_tokens)

    pool.free_segment(row.to(dtype))

    assert sorted(pool.free_pages.tolist()) == [1, 2, 3]
    assert pool.free_pages.dtype == torch.int64


def test_runs_of_whole_pages_may_be_concatenated() -> None:
    pool = make_pool(num_pages=6, page_size=4)
    first, second = admit(pool, 8), admit(pool, 5)

    pool.free_segment(torch.cat((first, second)))

    assert pool.available_size() == pool.size


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_double_free_never_makes_more_free_than_the_pool_has(page_size: int) -> None:
    pool = make_pool(num_pages=3, page_size=page_size)
    row = admit(pool, page_size)
    pool.free_segment(row)
    before = snapshot(pool)

    with pytest.raises(InvariantViolation, match="freed twice"):
        pool.free_segment(row)

    assert snapshot(pool) == before


@pytest.mark.parametrize("page_size", [1, 4])
def test_clear_frees_everything_and_closes_the_group(page_size: int) -> None:
    pool = make_pool(num_pages=3, page_size=page_size)
    row = admit(pool, 2 * page_size)
    pool.free_group_begin()
    pool.free(row)

    pool.clear()

    assert pool.free_pages.tolist() == [1, 2, 3]
    pool.free_group_begin()


def test_shortfall_is_what_is_missing_and_no_more() -> None:
    pool = make_pool(num_pages=3, page_size=4)

    assert pool.shortfall(12) == (0, 0)
    assert pool.shortfall(20) == (8, 0)


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_caller_that_keeps_slots_keeps_them_through_later_frees(page_size: int) -> None:
    """What alloc returns is the caller's own, not a view of the free list."""
    pool = make_pool(num_pages=2, page_size=page_size)
    first = pool.alloc(page_size)
    assert first is not None
    kept = first.tolist()
    second = pool.alloc(page_size)
    assert second is not None
    pool.free(second)
    pool.alloc(page_size)

    assert first.tolist() == kept


def test_pages_of_another_pool_are_refused_and_none_is_freed() -> None:
    pool = make_pool(num_pages=4, page_size=4)
    slots = pool.alloc(16)
    assert slots is not None

    with pytest.raises(InvariantViolation, match=r"free of pages \[5, 9\], but the pool has pages 1 to 4"):
        pool.free(ints([4, 5, 20, 36]))

    assert pool.free_pages.tolist() == []
