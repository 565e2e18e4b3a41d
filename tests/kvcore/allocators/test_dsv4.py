"""The six pools of compressed attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvcore.allocators import DSV4Allocator, DSV4OutCacheLoc, DSV4PoolSizes
from kvcore.allocators.base import MapsWindow
from kvcore.allocators.dsv4_lens import (
    c4_state_len,
    c128_state_len,
    compute_dsv4_state_lens,
    num_compressed,
    state_pool_size,
    state_watermark,
)
from kvcore.errors import ConfigurationError, FreeGroupError, OutOfSlots, RowOverflow
from tests.kvcore.allocators.factories import extend_args, ints
from tests.kvcore.operations import CountOperations

if TYPE_CHECKING:
    from collections import Counter

P = 256


class Short(Exception):
    """The allocator answered None."""


def make_dsv4(pages: int = 10, *, page_size: int = P, **sizes: int) -> DSV4Allocator:
    tokens = pages * page_size
    full = {"full": tokens, "swa": tokens, "c4": tokens // 4, "c128": tokens // 128}
    full |= {"c4_state": tokens, "c128_state": tokens}
    return DSV4Allocator(DSV4PoolSizes(**(full | sizes)), page_size, num_rows=5, device="cpu")


def extend(
    dsv4: DSV4Allocator, rows: list[int], lens: list[tuple[int, int]], lasts: list[int]
) -> DSV4OutCacheLoc:
    prefix_lens, seq_lens = [prefix for prefix, _ in lens], [seq for _, seq in lens]
    state_lens = dsv4.compute_dsv4_state_lens(rows, prefix_lens, seq_lens, "extend")
    args = extend_args(prefix_lens, seq_lens, lasts)
    loc = dsv4.alloc_extend_bundle(*args, rows=rows, state_lens=state_lens)
    if loc is None:
        raise Short
    return loc


def decode(dsv4: DSV4Allocator, row: int, slots: torch.Tensor) -> DSV4OutCacheLoc:
    seq_lens = ints([len(slots) + 1])
    state_lens = dsv4.compute_dsv4_state_lens([row], [len(slots)], [len(slots) + 1], "decode")
    loc = dsv4.alloc_decode_bundle(seq_lens, seq_lens, slots[-1:], rows=[row], state_lens=state_lens)
    if loc is None:
        raise Short
    return loc


def everything(dsv4: DSV4Allocator) -> list[object]:
    pools = [dsv4.full_attn_allocator, dsv4.swa_attn_allocator]
    pools += [pages.allocator for pages in dsv4.compressed] + [pool.allocator for pool in dsv4.states]
    rows = [pool.positions(range(5)) for pool in dsv4.states]
    bound = [pages.page_of.tolist() for pages in dsv4.compressed]
    return [
        [pool.free_pages.tolist() for pool in pools],
        rows,
        bound,
        dsv4.full_to_swa_index_mapping.tolist(),
    ]


@pytest.mark.parametrize(
    ("seq_len", "c4", "c128"),
    [(0, 0, 0), (3, 3, 3), (100, 100, 100), (127, 127, 127), (128, 128, 0), (131, 131, 3), (132, 4, 4)],
)
def test_states_cover_the_tail_and_c4_looks_back_over_the_boundary(seq_len: int, c4: int, c128: int) -> None:
    assert (c4_state_len(seq_len), c128_state_len(seq_len)) == (c4, c128)


def test_positions_count_all_states_ever_taken() -> None:
    extended = compute_dsv4_state_lens([100], [100], [100], [300], "extend")
    decoded = compute_dsv4_state_lens([144], [144], [300], [301], "decode")
    reserved = compute_dsv4_state_lens([145], [145], [301], [309], "reserve")

    assert extended.c4 == extended.c128 == ([100], [144], [256])
    assert decoded.c4 == ([144], [145], [300])
    assert reserved.c128 == ([145], [153], [301])


@pytest.mark.parametrize(
    ("ratio", "page_size", "expected"), [(4, 256, 512), (128, 256, 512), (4, 128, 384), (128, 128, 384)]
)
def test_a_request_has_at_least_two_state_pages(ratio: int, page_size: int, expected: int) -> None:
    assert state_pool_size(ratio, page_size, 3) == 3 * expected


def test_old_states_are_evicted_in_whole_pages_behind_the_kept_ones() -> None:
    assert [state_watermark(n, 4, 256) for n in (0, 279, 280)] == [0, 0, 256]
    assert [state_watermark(n, 128, 256) for n in (447, 448)] == [0, 256]


@pytest.mark.parametrize("page_size", [64, 192])
def test_pages_must_hold_whole_blocks(page_size: int) -> None:
    with pytest.raises(ConfigurationError, match=f"found {page_size}"):
        make_dsv4(page_size=page_size)


def test_the_invariant_checker_can_look_into_its_window() -> None:
    assert isinstance(make_dsv4(), MapsWindow)


def test_an_extend_says_where_everything_goes() -> None:
    dsv4 = make_dsv4()
    extend(dsv4, [3], [(0, 1)], [-1])

    loc = extend(dsv4, [1, 2], [(0, 300), (0, 130)], [-1, -1])

    assert loc.full.tolist() == [*range(512, 812), *range(1024, 1154)]
    assert loc.swa.tolist() == loc.full.tolist()
    # Entry k of a request lies in the compressed page of its page k // 64, here page 2, 3 and 4.
    assert loc.c4.tolist() == [*range(128, 203), *range(256, 288)]
    assert loc.c128.tolist() == [4, 5, 8]
    assert (len(loc.c4_state), len(loc.c128_state)) == (44 + 130, 44 + 2)


def test_compressed_entries_follow_across_chunks_and_decodes() -> None:
    dsv4 = make_dsv4()
    first = extend(dsv4, [1], [(0, 126)], [-1])
    chunk = extend(dsv4, [1], [(126, 127)], [int(first.full[-1])])
    step = decode(dsv4, 1, torch.cat((first.full, chunk.full)))

    assert first.c4.tolist() == list(range(64, 95))
    assert chunk.c4.tolist() == chunk.c128.tolist() == []
    assert (step.c4.tolist(), step.c128.tolist()) == ([95], [2])
    assert dsv4.states[0].positions([1]) == [126 + 127 + 1]


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ({"c4": 64}, "DSV4 c4 kv pool exhausted"),
        ({"c128": 2}, "DSV4 c128 kv pool exhausted"),
        ({"c4_state": P}, "DSV4 c4 state pool exhausted"),
        ({"c128_state": P}, "DSV4 c128 state pool exhausted"),
    ],
)
def test_an_exhausted_compress_pool_is_an_error_that_changes_nothing(
    pool: dict[str, int], message: str
) -> None:
    dsv4 = make_dsv4(**pool)
    before = everything(dsv4)

    with pytest.raises(OutOfSlots, match=message):
        extend(dsv4, [1, 2], [(0, 100), (0, 100)], [-1, -1])
    assert isinstance(OutOfSlots(""), RuntimeError)
    assert everything(dsv4) == before


@pytest.mark.parametrize("pool", [{"full": P}, {"swa": P}])
def test_a_short_kv_pool_answers_none_and_changes_nothing(pool: dict[str, int]) -> None:
    dsv4 = make_dsv4(**pool)
    before = everything(dsv4)

    with pytest.raises(Short):
        extend(dsv4, [1, 2], [(0, 100), (0, 100)], [-1, -1])
    assert dsv4.alloc(2 * P) is None
    assert everything(dsv4) == before


def test_a_decode_that_does_not_fit_changes_nothing() -> None:
    dsv4 = make_dsv4(pages=1)
    loc = extend(dsv4, [1], [(0, P)], [-1])
    before = everything(dsv4)

    with pytest.raises(Short):
        decode(dsv4, 1, loc.full)
    assert everything(dsv4) == before


def test_the_plain_interface_binds_compressed_pages_too() -> None:
    dsv4 = make_dsv4(pages=4)

    row = dsv4.alloc_extend(*extend_args([0], [P], [-1]))
    assert row is not None
    more = dsv4.alloc_decode(ints([P + 1]), ints([P + 1]), row[-1:])
    whole = dsv4.alloc(P)

    assert more is not None
    assert whole is not None
    assert [pages.available_tokens() for pages in dsv4.compressed] == [P, P]
    dsv4.free(torch.cat((whole, row, more, row[:3])))
    assert everything(dsv4)[2:] == everything(make_dsv4(pages=4))[2:]
    assert dsv4.available_size() == dsv4.size


def test_the_shortfall_counts_compressed_pages_as_full_ones() -> None:
    dsv4 = make_dsv4(pages=10, c4=3 * P // 4, swa=2 * P)

    assert dsv4.available_size() == dsv4.size == 2 * P
    assert dsv4.shortfall(5 * P) == (2 * P, 3 * P)


def test_releasing_a_request_brings_all_pools_back() -> None:
    dsv4 = make_dsv4()
    row = extend(dsv4, [1], [(0, 400)], [-1]).full
    for _ in range(400):
        row = torch.cat((row, decode(dsv4, 1, row).full))
    assert dsv4.states[0].positions([1]) == [16 + 400]
    # The first state page left the kept range at 280 positions.
    assert dsv4.states[0].allocator.available_size() == 9 * P

    dsv4.free_swa_segment(row[:P])
    dsv4.free_segment(row, swa_evicted=P)
    dsv4.free_states(1)

    assert dsv4.available_size() == dsv4.size
    assert [pages.allocator.available_size() for pages in dsv4.compressed] == [10 * P // 4, 10 * P // 128]
    assert [pool.allocator.available_size() for pool in dsv4.states] == [10 * P, 10 * P]
    assert all((pages.page_of == 0).all() for pages in dsv4.compressed)


def operations_of_a_chunk(num_rows: int) -> Counter[str]:
    """Operations of the second chunk of `num_rows` requests, behind which each gives back a page of states."""
    dsv4 = make_dsv4(pages=30)
    rows = list(range(num_rows))
    slots = extend(dsv4, rows, [(0, 400)] * num_rows, [-1] * num_rows).full
    free = dsv4.states[0].allocator.available_size()
    with CountOperations() as operations:
        extend(dsv4, rows, [(400, 700)] * num_rows, slots[399::400].tolist())
    # Positions 416 to 716 of ratio 4 take a page, and those below 256 give one back.
    assert dsv4.states[0].allocator.available_size() == free
    return operations.counts


def test_more_requests_take_no_more_tensor_operations() -> None:
    one = operations_of_a_chunk(1)

    assert operations_of_a_chunk(5) == one
    assert one


def test_a_row_that_would_outgrow_its_ring_is_refused() -> None:
    dsv4 = make_dsv4(pages=40)
    loc = extend(dsv4, [1], [(0, 10)], [-1])
    state_lens = dsv4.compute_dsv4_state_lens([1], [10], [3000], "reserve")
    before = everything(dsv4)

    with pytest.raises(RowOverflow, match="larger max_reserve_len"):
        dsv4.alloc_extend_bundle(
            *extend_args([10], [3000], [int(loc.full[-1])]), rows=[1], state_lens=state_lens
        )

    assert everything(dsv4) == before


def test_a_group_spans_all_kv_pools() -> None:
    dsv4 = make_dsv4()
    row = extend(dsv4, [1], [(0, 300)], [-1]).full
    dsv4.free_group_begin()
    dsv4.free_segment(row)
    assert dsv4.available_size() == 8 * P
    with pytest.raises(FreeGroupError):
        dsv4.free_group_begin()

    dsv4.free_group_end()
    dsv4.free_group_end()

    assert dsv4.available_size() == dsv4.size


def test_snapshots_cover_all_six_pools() -> None:
    dsv4 = make_dsv4()
    extend(dsv4, [1], [(0, 300)], [-1])
    before, state = everything(dsv4), dsv4.backup_state()

    extend(dsv4, [2], [(0, 500)], [-1])
    assert everything(dsv4) != before
    dsv4.restore_state(state)

    assert everything(dsv4) == before
    dsv4.clear()
    assert everything(dsv4) == everything(make_dsv4())


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(["extend", "decode", "finish"]), st.integers(1, 300)),
        max_size=25,
    )
)
def test_any_life_of_requests_conserves_all_pools(steps: list[tuple[int, str, int]]) -> None:
    dsv4 = make_dsv4(pages=6)
    rows: dict[int, torch.Tensor] = {}
    for row, step, num_tokens in steps:
        slots = rows.get(row, ints([]))
        loc: DSV4OutCacheLoc | None = None
        try:
            if step == "extend":
                last = int(slots[-1]) if len(slots) else -1
                loc = extend(dsv4, [row], [(len(slots), len(slots) + num_tokens)], [last])
            elif step == "decode" and len(slots):
                loc = decode(dsv4, row, slots)
            else:
                dsv4.free_segment(rows.pop(row, ints([])))
                dsv4.free_states(row)
        except (OutOfSlots, Short):
            pass
        if loc is not None:
            before, after = len(slots), len(slots) + len(loc.full)
            assert len(loc.c4) == num_compressed(before, after, 4)
            assert len(loc.c128) == num_compressed(before, after, 128)
            rows[row] = torch.cat((slots, loc.full))
        num_pages = sum(-(-len(slots) // P) for slots in rows.values())
        assert dsv4.available_size() == (6 - num_pages) * P
        assert [pages.available_tokens() for pages in dsv4.compressed] == [(6 - num_pages) * P] * 2
        entries = [pages.entries(slots) for pages in dsv4.compressed for slots in rows.values()]
        assert all((entry > 0).all() for entry in entries)
    for row in list(rows):
        dsv4.free_segment(rows.pop(row))
        dsv4.free_states(row)
    assert [pool.allocator.available_size() for pool in dsv4.states] == [6 * P, 6 * P]
