"""An extend grants rows and slots, writes the rows, makes the records; or leaves everything as it was."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvcore.admission import match_for_admission, set_extend_range
from kvcore.allocation import alloc_for_extend, alloc_req_slots, extend_lens_of, write_cache_indices
from kvcore.errors import KvReuseError, OutOfSlots, RowOverflow
from kvcore.prefix_cache.unfinished import maybe_cache_unfinished_req
from tests.kvcore.factories import make_req, make_stack

PAGE_SIZES = [1, 2, 4, 16]
CACHES = ["chunk", "radix", "swa_chunk", "swa"]


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_rows_hold_the_slots_that_were_given(cache, page_size):
    stack = make_stack(cache, page_size=page_size)
    reqs = [make_req("a", 5), make_req("b", 16), make_req("c", 33)]
    batch = stack.batch(stack.queued(*reqs))
    batch.extend_lens = extend_lens_of(reqs, stack.allocator.device)
    granted = alloc_for_extend(batch)
    assert granted.out_cache_loc.dtype == torch.int64
    assert granted.out_cache_loc.tolist() == [slot for req in reqs for slot in stack.row(req)]
    assert granted.req_pool_indices_cpu.tolist() == [req.kv.req_pool_idx for req in reqs]
    assert [req.kv.kv_committed_len for req in reqs] == [5, 16, 33]
    assert [req.kv.kv_allocated_len for req in reqs] == [5, 16, 33]
    stack.check(*reqs)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_matched_prefix_is_written_before_the_new_slots(page_size):
    stack = make_stack("radix", page_size=page_size)
    first = make_req("first", 32)
    stack.finish(stack.cached(first))
    second = make_req("second", 40)
    batch = stack.batch(stack.queued(second))
    prefix = second.prefix_indices.tolist()
    assert len(prefix) == 32
    batch.prepare_for_extend()
    assert stack.row(second)[:32] == prefix
    assert second.kv.cache_protected_len == 32
    assert batch.out_cache_loc.tolist() == stack.row(second)[32:]
    stack.check(second)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_the_chunks_of_a_prompt_share_one_row(cache, page_size):
    stack = make_stack(cache, page_size=page_size)
    req = make_req("r", 70)
    match_for_admission(req, stack.tree)
    while True:
        set_extend_range(req, 32, page_size)
        stack.batch([req]).prepare_for_extend()
        stack.check(req)
        maybe_cache_unfinished_req(req, stack.tree, chunked=bool(req.is_chunked))
        stack.check(req)
        if not req.is_chunked:
            break
    assert req.kv.kv_allocated_len == 70
    assert stack.pool.available_size() == 15


def test_a_budget_that_reaches_no_page_boundary_extends_nothing():
    req = make_req("r", 40)
    assert set_extend_range(req, 15, 16) == 0
    assert req.fill_ids == []
    assert set_extend_range(req, 17, 16) == 16
    assert set_extend_range(req, 40, 16) == 40


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("short_of", ["slots", "rows"])
def test_out_of_slots_leaves_requests_and_pools_as_they_were(cache, page_size, short_of):
    stack = make_stack(cache, page_size=page_size, size=64, rows=2 if short_of == "rows" else 8)
    running = stack.cached(make_req("running", 20, origin_input_ids=[50] * 20))
    reqs = [make_req("a", 16), make_req("b", 16 if short_of == "rows" else 40)]
    batch = stack.batch(stack.queued(*reqs))
    before = stack.snapshot(*reqs, *running.reqs)
    with pytest.raises(OutOfSlots) as raised:
        batch.prepare_for_extend()
    assert before.differences(stack.snapshot(*reqs, *running.reqs)) == []
    if short_of == "rows":
        assert "2 requests, 1 of 2 rows are free" in str(raised.value)
        assert "--max-running-requests" in str(raised.value)
    else:
        assert str(raised.value).startswith("Prefill out of memory. Try to lower your batch size.\n")
        assert "Try to allocate 56 tokens." in str(raised.value)
        assert "available_size=" in str(raised.value)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_out_of_slots_after_eviction_has_changed_the_tree_only(page_size):
    stack = make_stack("radix", page_size=page_size, size=64)
    stack.finish(stack.cached(make_req("old", 32, origin_input_ids=[50] * 32)))
    req = make_req("large", 100)
    batch = stack.batch(stack.queued(req))
    before = stack.snapshot(req)
    with pytest.raises(OutOfSlots):
        batch.prepare_for_extend()
    assert before.differences(stack.snapshot(req), evicted=True) == []
    assert stack.allocator.available_size() == 64
    assert stack.tree.evictable_size() == 0


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_eviction_brings_back_only_what_is_missing(page_size):
    """Each of 16 cached prompts is one leaf of a page; an extend that lacks two pages evicts two."""
    stack = make_stack("radix", page_size=page_size, size=20 * page_size, rows=32)
    for i in range(16):
        stack.finish(stack.cached(make_req(str(i), origin_input_ids=[100 + i] * page_size, max_new_tokens=1)))
    assert stack.tree.evictable_size() == 16 * page_size
    stack.extended(make_req("new", 6 * page_size))
    assert stack.tree.evictable_size() == 14 * page_size


def test_a_prompt_beyond_the_row_is_refused_by_name():
    stack = make_stack("radix", page_size=4, width=32)
    other, req = make_req("other", 8), make_req("too-long", 33, origin_input_ids=[9] * 33)
    running = stack.extended(other)
    batch = stack.batch(stack.queued(req))
    before = stack.snapshot(req, *running.reqs)
    with pytest.raises(RowOverflow, match="request too-long would fill 33 columns of its row, which has 32"):
        batch.prepare_for_extend()
    assert before.differences(stack.snapshot(req, *running.reqs)) == []


def test_rows_can_be_granted_without_a_cache():
    stack = make_stack("chunk")
    assert alloc_req_slots(stack.pool, [make_req("a"), make_req("b")], None) == [1, 2]


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_diffusion_block_goes_on_in_the_slots_that_it_kept(page_size):
    stack = make_stack("chunk", page_size=page_size)
    block, fresh = make_req("block", 8), make_req("fresh", 5)
    stack.batch(stack.queued(block)).prepare_for_extend()
    kept = stack.row(block)
    block.prefix_indices = torch.tensor(kept[:4])
    block.extend_len = 4
    block.dllm_incomplete_ids = [1, 2, 3, 4]
    batch = stack.batch([block, *stack.queued(fresh)])
    before = stack.allocator.available_size()
    batch.prepare_for_extend()
    assert batch.out_cache_loc[:4].tolist() == kept[4:]
    assert batch.out_cache_loc[4:].tolist() == stack.row(fresh)
    assert stack.row(block) == kept
    assert before - stack.allocator.available_size() == (5 if page_size == 1 else 8)
    # The slots are a copy: rewriting the row does not change them.
    stack.pool.req_to_token.zero_()
    assert batch.out_cache_loc[:4].tolist() == kept[4:]


@pytest.mark.parametrize(
    ("extend_len", "num_incomplete", "match"),
    [(3, 4, "must be reused as a full block"), (8, 8, "retained KV is missing")],
)
def test_a_block_that_does_not_fit_its_slots_is_refused(extend_len, num_incomplete, match):
    stack = make_stack("chunk", page_size=4)
    block = make_req("block", 8)
    stack.batch(stack.queued(block)).prepare_for_extend()
    block.prefix_indices = torch.tensor(stack.row(block)[:4])
    block.extend_len = extend_len
    block.dllm_incomplete_ids = [0] * num_incomplete
    before = stack.snapshot(block)
    with pytest.raises(KvReuseError, match=match):
        stack.batch([block]).prepare_for_extend()
    assert before.differences(stack.snapshot(block)) == []


@given(data=st.data(), page_size=st.sampled_from(PAGE_SIZES), need_sort=st.booleans())
def test_any_mix_of_prefixes_and_lengths_conserves_the_pool(data, page_size, need_sort):
    """Prompts over two tokens share prefixes; rows, records and tree agree after every extend."""
    stack = make_stack("radix", page_size=page_size, size=1024, rows=32, need_sort=need_sort)
    prompts = st.lists(st.integers(0, 1), min_size=1, max_size=40)
    live = []
    for i in range(data.draw(st.integers(1, 4))):
        ids = data.draw(st.lists(prompts, min_size=1, max_size=4))
        reqs = [make_req(f"{i}-{k}", origin_input_ids=prompt) for k, prompt in enumerate(ids)]
        batch = stack.cached(*reqs)
        live += batch.reqs
        stack.check(*live)
        for req in [req for req in live if data.draw(st.booleans())]:
            stack.finish(stack.batch([req]) if req not in batch.reqs else batch, req)
            live.remove(req)
        stack.check(*live)


def test_write_cache_indices_writes_two_ranges_and_no_more():
    stack = make_stack("chunk")
    table = stack.pool.req_to_token
    table.fill_(-7)
    rows = torch.tensor([3, 1])
    prefix_lens, seq_lens = torch.tensor([2, 0]), torch.tensor([3, 2])
    prefix, new = torch.tensor([11, 12]), torch.tensor([13, 21, 22])
    write_cache_indices(new, rows, prefix_lens, prefix_lens, seq_lens, seq_lens, prefix, stack.pool)
    assert table[3, :4].tolist() == [11, 12, 13, -7]
    assert table[1, :3].tolist() == [21, 22, -7]
    assert (table[[0, 2]] == -7).all()
