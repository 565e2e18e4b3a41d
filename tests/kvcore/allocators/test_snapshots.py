"""backup_state owns a copy, restore_state goes back to it, as often as one likes."""

from __future__ import annotations

import pytest

from tests.kvcore.allocators.factories import admit, make_pool, make_swa, snapshot


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("need_sort", [False, True])
@pytest.mark.parametrize("in_group", [False, True])
def test_a_pool_goes_back_to_its_snapshot_twice(page_size: int, need_sort: bool, in_group: bool) -> None:
    pool = make_pool(num_pages=6, page_size=page_size, need_sort=need_sort)
    first = admit(pool, 2 * page_size)
    second = admit(pool, page_size)
    pool.free(first[:page_size])
    if in_group:
        pool.free_group_begin()
        pool.free(second)
    before, state = snapshot(pool), pool.backup_state()

    for _ in range(2):
        admit(pool, 3 * page_size)
        pool.free(first[page_size:])
        assert snapshot(pool) != before
        pool.restore_state(state)
        assert snapshot(pool) == before


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_window_allocator_goes_back_with_its_mapping(page_size: int) -> None:
    swa = make_swa(page_size=page_size)
    kept = admit(swa, 2 * page_size)
    before, state = snapshot(swa), swa.backup_state()

    admit(swa, page_size)
    swa.free_swa(kept[:page_size])
    assert snapshot(swa) != before
    swa.restore_state(state)

    assert snapshot(swa) == before
