"""Free groups clone, do not nest, resolve the mapping when queued, and end exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from kvcore.errors import FreeGroupError
from tests.kvcore.allocators.factories import admit, make_pool, make_swa, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvcore.allocators.base import TokenToKVPoolAllocator


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("need_sort", [False, True])
def test_a_group_holds_back_what_is_freed_until_its_end(page_size: int, need_sort: bool) -> None:
    pool = make_pool(num_pages=4, page_size=page_size, need_sort=need_sort)
    row = admit(pool, 3 * page_size)

    pool.free_group_begin()
    pool.free_segment(row[:page_size])
    pool.free(row[page_size:])

    assert pool.available_size() == page_size
    assert sorted(pool.free_page_ids().tolist()) == [1, 2, 3, 4]
    pool.free_group_end()
    assert pool.available_size() == pool.size


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_second_end_is_a_no_op(page_size: int) -> None:
    pool = make_pool(num_pages=8, page_size=page_size)
    row = admit(pool, page_size)
    pool.free_group_begin()
    pool.free(row)
    pool.free_group_end()
    before = snapshot(pool)

    pool.free_group_end()

    assert snapshot(pool) == before
    assert pool.available_size() == pool.size


def test_an_end_without_a_group_is_a_no_op() -> None:
    pool = make_pool()
    before = snapshot(pool)

    pool.free_group_end()

    assert snapshot(pool) == before


@pytest.mark.parametrize("make", [make_pool, make_swa])
def test_groups_do_not_nest_and_the_outer_one_survives(
    make: Callable[[], TokenToKVPoolAllocator],
) -> None:
    pool = make()
    row = admit(pool, 4)
    pool.free_group_begin()
    pool.free(row)
    before = snapshot(pool)

    with pytest.raises(FreeGroupError, match="groups do not nest"):
        pool.free_group_begin()

    assert snapshot(pool) == before
    pool.free_group_end()
    assert pool.available_size() == pool.size


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("method", ["free", "free_segment"])
def test_a_group_copies_what_it_is_given(page_size: int, method: str) -> None:
    """The row may be overwritten before the group ends."""
    pool = make_pool(num_pages=4, page_size=page_size)
    row = admit(pool, 2 * page_size)
    pool.free_group_begin()
    getattr(pool, method)(row[:page_size])
    row[:page_size] = row[page_size:].clone()

    pool.free_group_end()

    assert sorted(pool.free_pages.tolist()) == [1, 3, 4]


@pytest.mark.parametrize("method", ["free", "free_segment"])
def test_a_window_group_resolves_the_mapping_when_queued(method: str) -> None:
    """A tombstone that is revived before the group ends keeps its new window page."""
    swa = make_swa()
    row = admit(swa, 4)
    swa.free_group_begin()
    getattr(swa, method)(row)
    fresh = swa.swa_attn_allocator.alloc(4)
    assert fresh is not None
    swa.set_full_to_swa_mapping(row, fresh)

    swa.free_group_end()

    assert swa.translate_loc_from_full_to_swa(row).tolist() == fresh.tolist()
    assert swa.swa_available_size() == swa.size_swa - 4
    assert int(fresh[0]) // 4 not in swa.swa_attn_allocator.free_pages.tolist()
    assert swa.full_available_size() == swa.size_full


def test_a_double_free_within_a_group_is_not_hidden() -> None:
    pool = make_pool(num_pages=4, page_size=4)
    row = admit(pool, 8)
    pool.free_group_begin()
    pool.free(row[:4])
    pool.free(row[:4])

    pages = pool.free_page_ids()

    assert len(pages) > len(torch.unique(pages))
