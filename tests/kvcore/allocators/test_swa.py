"""The window allocator: single calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from kvcore.errors import PageAlignmentError
from tests.kvcore.allocators.factories import admit, extend_args, ints, make_swa, snapshot

if TYPE_CHECKING:
    from kvcore.allocators import SWAAllocator


def mapped_pages(swa: SWAAllocator) -> int:
    return len(torch.unique(swa.full_to_swa_index_mapping[:-1] // swa.page_size)) - 1


def test_sizes_and_what_is_available_are_the_minimum_of_both_pools() -> None:
    swa = make_swa(num_pages=8, num_swa_pages=3, page_size=4)
    admit(swa, 4)

    assert (swa.size, swa.size_full, swa.size_swa) == (12, 32, 12)
    assert (swa.available_size(), swa.full_available_size(), swa.swa_available_size()) == (8, 28, 8)


def test_the_shortfall_names_both_pools() -> None:
    swa = make_swa(num_pages=8, num_swa_pages=3, page_size=4)

    assert swa.shortfall(12) == (0, 0)
    assert swa.shortfall(40) == (8, 28)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("page_size", [1, 4])
def test_every_new_slot_leads_to_a_window_slot_of_the_same_offset(page_size: int, dtype: torch.dtype) -> None:
    swa = make_swa(num_pages=32, num_swa_pages=32, page_size=page_size)
    admit(swa, 3 * page_size)
    row = admit(swa, 6)
    more = swa.alloc_extend(*extend_args([6], [11], [int(row[-1])], dtype))
    assert more is not None
    row = torch.cat((row, more))
    last = swa.alloc_decode(ints([12], dtype), ints([12], dtype), row[-1:].to(dtype))
    assert last is not None
    row = torch.cat((row, last))

    window = swa.translate_loc_from_full_to_swa(row.to(dtype))

    assert (window > 0).all()
    assert (window % page_size == row % page_size).all()
    assert len(torch.unique(window)) == 12


def test_the_last_location_of_an_empty_prefix_leads_to_itself() -> None:
    assert make_swa().translate_loc_from_full_to_swa(ints([-1, 0])).tolist() == [-1, 0]


@pytest.mark.parametrize(("num_pages", "num_swa_pages"), [(2, 8), (8, 2)])
def test_a_call_that_one_pool_cannot_serve_changes_neither(num_pages: int, num_swa_pages: int) -> None:
    swa = make_swa(num_pages, num_swa_pages, page_size=4)
    rows = [admit(swa, 4), admit(swa, 4)]
    before = snapshot(swa)
    lens = ints([5, 5])
    lasts = torch.stack([row[-1] for row in rows])

    assert swa.alloc_decode(lens, lens, lasts) is None
    assert swa.alloc_extend(*extend_args([4, 4], [5, 5], lasts.tolist())) is None
    assert swa.alloc(4) is None
    assert snapshot(swa) == before


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("evicted_pages", [0, 1, 3])
def test_a_segment_frees_both_sides_but_what_was_evicted(page_size: int, evicted_pages: int) -> None:
    swa = make_swa(page_size=page_size)
    row = admit(swa, 2 * page_size + 1)
    evicted = min(evicted_pages * page_size, len(row))
    swa.free_swa_segment(row[:evicted])

    swa.free_segment(row, swa_evicted=evicted)

    for pool in (swa.full_attn_allocator, swa.swa_attn_allocator):
        assert sorted(pool.free_pages.tolist()) == list(range(1, 9))
    assert mapped_pages(swa) == 0


def test_a_segment_of_evicted_tokens_alone_leaves_the_window_pool_alone() -> None:
    """Unmapped entries lead to the reserved page, which no free list ever holds."""
    swa = make_swa()
    row = admit(swa, 8)
    swa.free_swa_segment(row)
    before = swa.swa_attn_allocator.free_pages.tolist()

    swa.free_segment(row, swa_evicted=8)

    assert swa.swa_attn_allocator.free_pages.tolist() == before
    assert 0 not in before
    assert swa.full_available_size() == swa.size_full


@pytest.mark.parametrize("swa_evicted", [2, -4])
def test_an_eviction_frontier_inside_a_page_is_refused(swa_evicted: int) -> None:
    swa = make_swa(page_size=4)
    row = admit(swa, 8)
    before = snapshot(swa)

    with pytest.raises(PageAlignmentError, match=f"found {swa_evicted} at page_size 4"):
        swa.free_segment(row, swa_evicted=swa_evicted)

    assert snapshot(swa) == before


def test_out_of_window_eviction_keeps_the_full_slots() -> None:
    swa = make_swa()
    row = admit(swa, 12)

    swa.free_swa_segment(row[:8])

    assert swa.swa_available_size() == swa.size_swa - 4
    assert swa.full_available_size() == swa.size_full - 12
    assert swa.translate_loc_from_full_to_swa(row[:8]).tolist() == [0] * 8
    assert (swa.translate_loc_from_full_to_swa(row[8:]) > 0).all()


@pytest.mark.parametrize("page_size", [1, 4])
def test_freeing_the_window_side_twice_changes_nothing(page_size: int) -> None:
    swa = make_swa(page_size=page_size)
    row = admit(swa, 6)
    swa.free_swa(row[:5])
    before = snapshot(swa)

    swa.free_swa(row[:5])

    assert snapshot(swa) == before


def test_freeing_a_part_of_a_page_frees_its_window_page_once() -> None:
    """The mapping of the whole page goes with it, so the rest of the page cannot free it again."""
    swa = make_swa(page_size=4)
    row = admit(swa, 8)

    swa.free_swa(row[:2])
    swa.free_swa(row[2:4])

    pages = swa.swa_attn_allocator.free_pages
    assert len(pages) == len(torch.unique(pages)) == 7
    assert swa.swa_available_size() <= swa.size_swa
    assert swa.translate_loc_from_full_to_swa(row[:4]).tolist() == [0] * 4
    assert mapped_pages(swa) == 1


@pytest.mark.parametrize("page_size", [1, 4])
def test_the_slow_free_takes_any_order_and_skips_what_is_not_mapped(page_size: int) -> None:
    swa = make_swa(page_size=page_size)
    row = admit(swa, 2 * page_size + 1)
    swa.free_swa_segment(row[:page_size])

    swa.free(torch.cat((row.flip(0), row[:1], ints([0]))) if page_size > 1 else row.flip(0))

    assert swa.full_available_size() == swa.size_full
    assert swa.swa_available_size() == swa.size_swa
    assert mapped_pages(swa) == 0


def test_clear_keeps_the_entry_for_empty_prefixes() -> None:
    swa = make_swa()
    admit(swa, 8)

    swa.clear()

    assert swa.available_size() == swa.size
    assert swa.full_to_swa_index_mapping.tolist() == [0] * 36 + [-1]


@pytest.mark.parametrize("tail_len", [0, 2, 6, 10])
def test_a_window_tail_maps_the_tail_and_clears_the_rest(tail_len: int) -> None:
    swa = make_swa(page_size=4)
    swa.full_to_swa_index_mapping[:-1].fill_(20)  # what a former owner might have left

    row = swa.alloc_extend_swa_tail(*extend_args([0], [10], [-1]), swa_tail_len=tail_len)

    assert row is not None
    window = swa.translate_loc_from_full_to_swa(row).tolist()
    assert window[: 10 - tail_len] == [0] * (10 - tail_len)
    assert window[10 - tail_len :] == list(range(4, 4 + tail_len))
    assert swa.size_swa - swa.swa_available_size() == -(-tail_len // 4) * 4
    assert swa.size_full - swa.full_available_size() == 12


def test_a_window_tail_goes_on_where_it_ended() -> None:
    swa = make_swa(page_size=4)
    row = swa.alloc_extend_swa_tail(*extend_args([0], [10], [-1]), swa_tail_len=6)
    assert row is not None
    more = swa.alloc_extend(*extend_args([10], [14], [int(row[-1])]))
    assert more is not None
    row = torch.cat((row, more))

    window = swa.translate_loc_from_full_to_swa(row)

    assert (window[4:] % 4 == row[4:] % 4).all()
    swa.free_segment(row, swa_evicted=4)
    assert swa.full_available_size() == swa.size_full
    assert swa.swa_available_size() == swa.size_swa


@pytest.mark.parametrize(("num_pages", "num_swa_pages"), [(2, 8), (8, 1)])
def test_a_window_tail_that_does_not_fit_changes_nothing(num_pages: int, num_swa_pages: int) -> None:
    swa = make_swa(num_pages, num_swa_pages, page_size=4)
    before = snapshot(swa)

    assert swa.alloc_extend_swa_tail(*extend_args([0], [10], [-1]), swa_tail_len=6) is None
    assert snapshot(swa) == before


@pytest.mark.parametrize(
    ("seq_lens", "tail_len", "message"),
    [
        ([10], 3, "starts at token 7, inside a page of 4"),
        ([10], 11, "a tail of 11 among 10 new tokens"),
        ([10], -2, "a tail of -2"),
        ([4, 4], 4, "found 2 requests"),
    ],
)
def test_a_tail_that_cannot_be_is_refused(seq_lens: list[int], tail_len: int, message: str) -> None:
    swa = make_swa(page_size=4)
    before = snapshot(swa)
    args = extend_args([0] * len(seq_lens), seq_lens, [-1] * len(seq_lens))

    with pytest.raises(PageAlignmentError, match=message):
        swa.alloc_extend_swa_tail(*args, swa_tail_len=tail_len)

    assert snapshot(swa) == before
