"""Received KV finds its row and slots reserved: full slots throughout, window slots for the last window only."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvcore.admission import match_for_admission
from kvcore.disaggregation.decode import (
    alloc_for_decode_prealloc,
    prealloc_fill_len,
    required_prealloc_tokens,
    window_tail_len,
)
from kvcore.disaggregation.pages import kv_to_page_indices, kv_to_page_num
from kvcore.errors import OutOfSlots, RowOverflow
from kvcore.page_math import align_up
from tests.kvcore.factories import WINDOW, make_req, make_stack

PAGE_SIZES = [1, 4, 16]


def prealloc(stack, req, fill_len=None):
    return alloc_for_decode_prealloc(
        req,
        fill_len=prealloc_fill_len(req) if fill_len is None else fill_len,
        tree_cache=stack.tree,
        allocator=stack.allocator,
        req_to_token_pool=stack.pool,
        sliding_window_size=stack.window,
    )


@pytest.mark.parametrize("cache", ["chunk", "radix", "swa_chunk", "swa"])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_received_request_decodes_like_any_other(cache, page_size):
    stack = make_stack(cache, page_size=page_size)
    reqs = [
        make_req("a", 21, output_ids=[7], max_new_tokens=99),
        make_req("b", 37, output_ids=[7], max_new_tokens=99),
    ]
    for req in reqs:
        slots = prealloc(stack, req)
        assert slots.dtype == torch.int64
        assert slots.tolist() == stack.row(req)
        assert req.kv.kv_committed_len == req.kv.kv_allocated_len == len(req.origin_input_ids)
    stack.check(*reqs)
    batch = stack.batch(reqs)
    batch.take_over()
    assert batch.seq_lens.tolist() == [21, 37]
    for _ in range(30):
        batch.prepare_for_decode()
        batch.advance([[1], [2]])
        stack.check(*batch.reqs)
    stack.finish(batch)
    stack.checker.check_idle("release")


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_prefix_that_is_cached_here_is_not_received(page_size):
    stack = make_stack("radix", page_size=page_size)
    stack.finish(stack.cached(make_req("old", 32, max_new_tokens=1)))
    req = make_req("new", 45, output_ids=[7])
    prefix_len = match_for_admission(req, stack.tree)
    slots = prealloc(stack, req)
    assert prefix_len == 32
    assert stack.row(req) == [*req.prefix_indices.tolist(), *slots.tolist()]
    assert req.kv.cache_protected_len == 32
    stack.check(req)


@given(seq_len=st.integers(1, 300), window=st.integers(1, 80), page_size=st.sampled_from([1, 2, 4, 16]))
def test_the_tail_is_a_window_from_a_page_boundary_on(seq_len, window, page_size):
    tail = window_tail_len(seq_len, window, page_size)
    assert (seq_len - tail) % page_size == 0
    assert min(seq_len, window) <= tail < window + page_size or tail == seq_len


@pytest.mark.parametrize("cache", ["swa_chunk", "swa"])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_window_slots_are_taken_for_the_tail_only(cache, page_size):
    stack = make_stack(cache, page_size=page_size, size=128, size_swa=64)
    req = make_req("long", 100)
    prealloc(stack, req)
    tail = window_tail_len(100, WINDOW, page_size)
    assert 64 - stack.allocator.swa_available_size() == align_up(tail, page_size)
    assert 128 - stack.allocator.full_available_size() == align_up(100, page_size)
    assert req.kv.swa_evicted_seqlen == 100 - tail
    stack.check(req)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_the_window_pool_is_evicted_for_when_it_is_the_short_one(page_size):
    stack = make_stack("swa", page_size=page_size, size=512, size_swa=64)
    stack.finish(stack.cached(make_req("old", origin_input_ids=[9] * 48, max_new_tokens=1)))
    assert stack.allocator.swa_available_size() == 16
    assert stack.allocator.full_available_size() > 400
    req = make_req("new", 30)
    prealloc(stack, req)
    stack.check(req)


@pytest.mark.parametrize("cache", ["chunk", "radix", "swa_chunk", "swa"])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("short_of", ["slots", "rows"])
def test_out_of_slots_leaves_everything_as_it_was(cache, page_size, short_of):
    stack = make_stack(cache, page_size=page_size, size=64, rows=1 if short_of == "rows" else 4)
    held = make_req("held", 20)
    prealloc(stack, held)
    req = make_req("new", 20 if short_of == "rows" else 60)
    before = stack.snapshot(held, req)
    with pytest.raises(OutOfSlots):
        prealloc(stack, req)
    assert before.differences(stack.snapshot(held, req)) == []


def test_a_request_beyond_its_row_is_refused():
    stack = make_stack("chunk", width=32)
    req = make_req("long", 40)
    before = stack.snapshot(req)
    with pytest.raises(RowOverflow, match="request long would fill 40 columns"):
        prealloc(stack, req)
    assert before.differences(stack.snapshot(req)) == []


@pytest.mark.parametrize(
    ("outputs", "rebootstrap", "expected"), [(0, False, 8), (1, False, 8), (3, False, 10), (3, True, 11)]
)
def test_what_arrives_is_all_but_the_last_output(outputs, rebootstrap, expected):
    req = make_req("r", 8, output_ids=[1] * outputs)
    assert prealloc_fill_len(req, is_rebootstrap=rebootstrap) == expected


def test_required_tokens_are_whole_pages():
    assert required_prealloc_tokens(16, 37, 16) == 32
    assert required_prealloc_tokens(0, 37, 1) == 37


@given(num_tokens=st.integers(0, 60), page_size=st.sampled_from([1, 4, 16]))
def test_slots_travel_as_pages(num_tokens, page_size):
    stack = make_stack("chunk", page_size=page_size)
    stack.allocator.alloc(page_size * 2)
    pages = kv_to_page_num(num_tokens, page_size)
    slots = stack.allocator.alloc(pages * page_size)[:num_tokens]
    indices = kv_to_page_indices(slots, page_size)
    assert len(indices) == pages
    assert [page * page_size for page in indices.tolist()] == slots[::page_size].tolist()


def test_a_run_that_starts_inside_a_page_does_not_travel():
    with pytest.raises(AssertionError, match="slot 21 is not the first of a page of 4"):
        kv_to_page_indices(torch.arange(21, 30), 4)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_less_than_what_is_matched_is_refused_and_takes_no_row(page_size):
    stack = make_stack("radix", page_size=page_size)
    stack.finish(stack.cached(make_req("first", origin_input_ids=[5] * 32)))
    late = make_req("late", origin_input_ids=[5] * 40)
    match_for_admission(late, stack.tree)
    matched = late.prefix_indices.numel()
    assert matched > 16
    before = stack.snapshot(late)
    with pytest.raises(AssertionError, match=f"up to token 15, but {matched} are matched here already"):
        prealloc(stack, late, fill_len=15)
    assert before.differences(stack.snapshot(late)) == []
