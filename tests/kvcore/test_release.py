"""A release gives back slots, row and states once; what left a window goes back while the request still runs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvcore.allocators.swa import SWAAllocator
from kvcore.page_math import align_down, align_up
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.release import (
    free_swa_out_of_window_slots,
    free_swa_out_of_window_slots_of_batch,
    release_kv_cache,
)
from kvcore.req import ReqKvInfo
from tests.kvcore.factories import WINDOW, make_req, make_stack

PAGE_SIZES = [1, 2, 4, 16]
CACHES = ["chunk", "radix", "swa_chunk", "swa"]


@pytest.mark.parametrize("in_group", [False, True])
@pytest.mark.parametrize("spec", [None, "eagle"])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_all_that_is_not_cached_comes_back(cache, page_size, spec, in_group):
    stack = make_stack(cache, page_size=page_size, size=1024, spec=spec)
    batch = stack.cached(*[make_req(str(i), 5 + 9 * i, max_new_tokens=9) for i in range(4)])
    for _ in range(3):
        batch.prepare_for_decode()
        batch.advance([[1, 2] if spec else [1]] * 4)
    if in_group:
        stack.allocator.free_group_begin()
    stack.finish(batch)
    stack.allocator.free_group_end()
    stack.check()
    stack.checker.check_idle("release")
    if cache in {"chunk", "swa_chunk"}:
        assert stack.allocator.available_size() == 1024


def test_over_allocation_is_freed_from_the_next_page_on():
    """P 4, committed 11, allocated 20: the cache frees page [8, 11), the rest is [12, 20)."""
    stack = make_stack("chunk", page_size=4, size=64, spec="eagle")
    batch = stack.extended(make_req("r", 11))
    batch.prepare_for_decode()
    assert batch.reqs[0].kv.kv_allocated_len == 20
    stack.finish(batch)
    stack.check()
    assert stack.allocator.available_size() == 64


def test_pages_of_context_parallel_ranks_are_freed_whole():
    """The allocator's page holds one page of each rank; rounding to a rank's page would free a part of it again."""
    stack = make_stack("chunk", page_size=4, dcp_size=4, size=128, spec="eagle")
    batch = stack.extended(make_req("r", 21))
    batch.prepare_for_decode()
    stack.check(*batch.reqs)
    stack.finish(batch)
    stack.check()
    assert stack.allocator.available_size() == 128


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_second_release_is_a_no_op(page_size):
    stack = make_stack("radix", page_size=page_size)
    batch = stack.cached(make_req("r", 20))
    req = batch.reqs[0]
    release_kv_cache(req, stack.tree)
    assert req.kv is None
    before = stack.snapshot(req)
    release_kv_cache(req, stack.tree)
    assert before.differences(stack.snapshot(req)) == []


@pytest.mark.parametrize("cache", ["radix", "swa"])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_stripped_output_leaves_the_prompt_in_the_tree(cache, page_size):
    stack = make_stack(cache, page_size=page_size, size=512)
    batch = stack.cached(make_req("r", 32, max_new_tokens=100))
    for _ in range(40):
        batch.prepare_for_decode()
        batch.advance([[3]])
    release_kv_cache(batch.reqs[0], stack.tree, strip_output=True)
    stack.check()
    stack.checker.check_idle("release")
    assert stack.tree.evictable_size() == 32


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_without_insertion_only_what_was_shared_stays(page_size):
    stack = make_stack("radix", page_size=page_size)
    stack.finish(stack.cached(make_req("first", 16, max_new_tokens=1)))
    shared = stack.tree.evictable_size()
    batch = stack.extended(make_req("second", 40))
    stack.finish(batch, is_insert=False)
    assert stack.tree.evictable_size() == shared
    stack.checker.check_idle("release")


def make_window_req(page_size: int, length: int):
    allocator = SWAAllocator(
        align_up(length, page_size), align_up(length, page_size), page_size, device="cpu"
    )
    pool = ReqToTokenPool(2, align_up(length, page_size), device="cpu")
    req = make_req("r", length)
    [row] = pool.alloc([req])
    slots = allocator.alloc(align_up(length, page_size))
    pool.write((row, slice(0, length)), slots[:length].int())
    req.kv = ReqKvInfo(row, kv_committed_len=length, kv_allocated_len=length)
    return allocator, pool, req


def evict(allocator, pool, req, pre_len, *, window, page_size, is_chunk_cache=False):
    free_swa_out_of_window_slots(
        req,
        pre_len,
        sliding_window_size=window,
        page_size=page_size,
        req_to_token_pool=pool,
        allocator=allocator,
        is_chunk_cache=is_chunk_cache,
    )


@given(window=st.integers(1, 70), page_size=st.sampled_from([1, 2, 4, 16, 64]), pre_len=st.integers(1, 400))
def test_what_a_tree_may_insert_keeps_a_window_of_live_tokens(window, page_size, pre_len):
    allocator, pool, req = make_window_req(page_size, pre_len)
    evict(allocator, pool, req, pre_len, window=window, page_size=page_size)
    frontier = req.kv.swa_evicted_seqlen
    inserted = align_down(pre_len, page_size)
    assert frontier % page_size == 0
    assert inserted - frontier >= min(window, inserted)
    # No more than the window rounded up, and one page for the tail, stays.
    assert pre_len - frontier < align_up(max(window, page_size), page_size) + page_size
    assert allocator.swa_available_size() == frontier
    assert allocator.full_available_size() == 0


@given(window=st.integers(1, 70), page_size=st.sampled_from([1, 2, 4, 16, 64]), pre_len=st.integers(1, 400))
def test_a_cache_that_keeps_nothing_goes_up_to_the_window(window, page_size, pre_len):
    allocator, pool, req = make_window_req(page_size, pre_len)
    evict(allocator, pool, req, pre_len, window=window, page_size=page_size, is_chunk_cache=True)
    assert req.kv.swa_evicted_seqlen == align_down(max(0, pre_len - window), page_size)


def make_window_stack(page_size: int, lengths: list[int]):
    """Requests of these lengths in one pool, all their slots mapped."""
    total = sum(align_up(length, page_size) for length in lengths)
    allocator = SWAAllocator(total, total, page_size, device="cpu")
    pool = ReqToTokenPool(len(lengths), max(align_up(length, page_size) for length in lengths), device="cpu")
    reqs = [make_req(f"r{i}", length) for i, length in enumerate(lengths)]
    for req, row, length in zip(reqs, pool.alloc(reqs), lengths, strict=True):
        slots = allocator.alloc(align_up(length, page_size))
        pool.write((row, slice(0, length)), slots[:length].int())
        req.kv = ReqKvInfo(row, kv_committed_len=length, kv_allocated_len=length)
    return allocator, pool, reqs


@given(
    window=st.integers(1, 40),
    page_size=st.sampled_from([1, 4, 16]),
    lens=st.lists(st.tuples(st.integers(1, 200), st.integers(0, 200)), min_size=1, max_size=6),
    is_chunk_cache=st.booleans(),
)
def test_a_batch_leaves_the_window_as_its_requests_do_alone(window, page_size, lens, is_chunk_cache):
    lengths = [max(pair) for pair in lens]
    pre_lens = [min(pair) for pair in lens]
    together, pool, reqs = make_window_stack(page_size, lengths)
    alone, alone_pool, alone_reqs = make_window_stack(page_size, lengths)
    settings = {"sliding_window_size": window, "page_size": page_size, "is_chunk_cache": is_chunk_cache}

    free_swa_out_of_window_slots_of_batch(
        reqs, pre_lens, req_to_token_pool=pool, allocator=together, **settings
    )
    for req, pre_len in zip(alone_reqs, pre_lens, strict=True):
        free_swa_out_of_window_slots(req, pre_len, req_to_token_pool=alone_pool, allocator=alone, **settings)

    assert [req.kv for req in reqs] == [req.kv for req in alone_reqs]
    assert together.swa_available_size() == alone.swa_available_size()
    assert together.swa_available_size() == sum(req.kv.swa_evicted_seqlen for req in reqs)
    assert torch.equal(together.full_to_swa_index_mapping, alone.full_to_swa_index_mapping)


def test_window_frontier_in_numbers():
    allocator, pool, req = make_window_req(64, 1024)
    evict(allocator, pool, req, 1023, window=127, page_size=64)
    assert req.kv.swa_evicted_seqlen == 832


def test_the_frontier_never_moves_back_and_respects_the_tree():
    allocator, pool, req = make_window_req(4, 64)
    req.kv.cache_protected_len = 16
    req.kv.swa_evict_floor = 22
    evict(allocator, pool, req, 40, window=8, page_size=4)
    assert req.kv.swa_evicted_seqlen == 32
    assert allocator.swa_available_size() == 32 - 24
    evict(allocator, pool, req, 20, window=8, page_size=4)
    assert req.kv.swa_evicted_seqlen == 32


@pytest.mark.parametrize("spec", [None, "eagle"])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_long_decode_holds_no_more_than_its_window(page_size, spec):
    stack = make_stack("swa", page_size=page_size, size=1024, size_swa=256, spec=spec, context_len=600)
    batch = stack.cached(make_req("r", 20, max_new_tokens=500))
    req = batch.reqs[0]
    for _ in range(200):
        batch.prepare_for_decode()
        batch.advance([[5, 6] if spec else [5]])
        stack.check(req)
    live = req.kv.kv_allocated_len - req.kv.swa_evicted_seqlen
    assert live <= align_up(max(WINDOW, page_size), page_size) + 3 * page_size + 8 + 2 * 8 + 8
    stack.finish(batch)
    stack.checker.check_idle("release")


@pytest.mark.parametrize("page_size", [1, 4])
def test_stripping_the_output_frees_nothing_that_the_tree_owns(page_size):
    """A retracted request comes back with its output; the tree may hold some of that, and goes on doing so."""
    stack = make_stack("radix", page_size=page_size, size=128)
    batch = stack.cached(make_req("first", 8))
    batch.prepare_for_decode()
    batch.advance([[7]])
    first = batch.reqs[0]
    again = make_req("again", 8)
    again.output_ids = [7, 7, 7, 7]
    again.origin_input_ids = list(first.origin_input_ids)
    first.output_ids = [7, 7, 7, 7]
    for _ in range(3):
        batch.prepare_for_decode()
    stack.finish(batch)
    (resumed,) = stack.cached(again).reqs
    protected = resumed.kv.cache_protected_len
    assert protected > 8
    release_kv_cache(resumed, stack.tree, strip_output=True)
    stack.check()
    stack.checker.check_idle("release")
