"""Before a speculative step the rows reach the page-aligned watermark, whatever is committed, and never less."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcore.allocation import alloc_for_spec_decode
from kvcore.allocation_sizing import get_alloc_reserve_per_decode
from kvcore.errors import OutOfSlots, RowOverflow
from kvcore.page_math import align_up
from kvcore.speculative.dflash import PlanBuffers
from tests.kvcore.factories import make_req, make_stack

PAGE_SIZES = [1, 2, 4, 16]
SPECS = ["eagle", "ngram", "dflash"]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("topk", [1, 4])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_rows_reach_the_watermark_and_committed_stays(spec, topk, page_size):
    stack = make_stack("radix", page_size=page_size, size=2048, spec=spec, speculative_eagle_topk=topk)
    reserve = get_alloc_reserve_per_decode(stack.server_args)
    batch = stack.cached(*[make_req(str(i), 5 + 4 * i, max_new_tokens=40) for i in range(4)])
    for step in range(12):
        committed = [req.kv.kv_committed_len for req in batch.reqs]
        allocated = [req.kv.kv_allocated_len for req in batch.reqs]
        batch.prepare_for_decode()
        assert [req.kv.kv_committed_len for req in batch.reqs] == committed
        expected = [
            max(a, align_up(c + reserve, page_size)) for a, c in zip(allocated, committed, strict=True)
        ]
        assert [req.kv.kv_allocated_len for req in batch.reqs] == expected
        assert batch.spec_plan.cur_kv_lens.tolist() == batch.spec_plan.cur_kv_lens_cpu.tolist() == allocated
        assert batch.spec_plan.nxt_kv_lens.tolist() == batch.spec_plan.nxt_kv_lens_cpu.tolist() == expected
        assert batch.spec_plan.nxt_kv_lens.dtype == torch.int32
        batch.advance([[step] * (1 + (step + i) % 4) for i in range(4)])
        assert batch.seq_lens.tolist() == [req.kv.kv_committed_len for req in batch.reqs]
        assert [req.seqlen - 1 for req in batch.reqs] == batch.seq_lens_cpu.tolist()
        stack.check(*batch.reqs)
    stack.finish(batch)
    stack.checker.check_idle("the last release")


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_demand_before_the_step_is_what_the_step_takes(spec, page_size):
    stack = make_stack("chunk", page_size=page_size, size=2048, spec=spec)
    batch = stack.extended(*[make_req(str(i), 7 + 3 * i, max_new_tokens=60) for i in range(4)])
    for step in range(15):
        demand, before = batch.new_tokens_required_next_decode(), stack.allocator.available_size()
        batch.prepare_for_decode()
        assert before - stack.allocator.available_size() == demand
        batch.advance([[0] * (1 + step % 4)] * 4)


def test_whole_page_watermark_in_numbers():
    """P 4, reserve 8: from 10 to 20, then from committed 13 to 24; estimates 8 and 4."""
    stack = make_stack("chunk", page_size=4, size=64, spec="eagle")
    batch = stack.extended(make_req("r", 10))
    assert batch.new_tokens_required_next_decode() == 8
    batch.prepare_for_decode()
    assert batch.reqs[0].kv.kv_allocated_len == 20
    batch.advance([[1, 2, 3]])
    assert batch.reqs[0].kv.kv_committed_len == 13
    assert batch.new_tokens_required_next_decode() == 4
    batch.prepare_for_decode()
    assert batch.reqs[0].kv.kv_allocated_len == 24


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_watermark_beyond_the_row_is_refused_with_all_numbers(spec, page_size):
    stack = make_stack("chunk", page_size=page_size, size=256, spec=spec, width=32)
    batch = stack.extended(make_req("short", 4), make_req("near-the-limit", 30))
    before = stack.snapshot(*batch.reqs)
    watermark = align_up(38, page_size)
    with pytest.raises(
        RowOverflow,
        match=rf"request near-the-limit would over-allocate to {watermark} tokens \(it holds 30, page size {page_size}\)"
        r".* its row of 32 columns",
    ):
        batch.prepare_for_decode()
    assert before.differences(stack.snapshot(*batch.reqs)) == []
    assert [req.decode_batch_idx for req in batch.reqs] == [0, 0]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("topk", [1, 4])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_requests_at_the_context_limit_leave_their_neighbours_alone(spec, topk, page_size):
    """With rows as wide as sizing says, every committed length within the context is fine."""
    stack = make_stack(
        "chunk", page_size=page_size, size=4096, spec=spec, context_len=64, speculative_eagle_topk=topk
    )
    reqs = [make_req(str(i), 61, max_new_tokens=100) for i in range(3)]
    batch = stack.extended(*reqs)
    for _ in range(3):
        stack.checker.check(reqs, "the step before")
        batch.prepare_for_decode()
        stack.checker.check(reqs, "prepare_for_decode", touched=reqs)
        batch.advance([[1]] * 3)
    stack.finish(batch)
    stack.checker.check_idle("release")


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("cache", ["chunk", "radix", "swa"])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_out_of_slots_leaves_requests_and_pools_as_they_were(spec, cache, page_size):
    stack = make_stack(cache, page_size=page_size, size=48, spec=spec)
    batch = stack.cached(make_req("a", 16), make_req("b", 17, origin_input_ids=[9] * 17))
    while batch.check_decode_mem():
        batch.prepare_for_decode()
        batch.advance([[1] * 4] * 2)
        stack.check(*batch.reqs)
    before = stack.snapshot(*batch.reqs)
    with pytest.raises(OutOfSlots, match=r"^Decode out of memory\."):
        batch.prepare_for_decode()
    assert before.differences(stack.snapshot(*batch.reqs)) == []


def test_nothing_is_taken_where_the_row_is_long_enough():
    stack = make_stack("chunk", page_size=4, spec="eagle")
    batch = stack.extended(make_req("r", 8))
    batch.prepare_for_decode()
    before = stack.snapshot(*batch.reqs)
    lens = torch.tensor([16], dtype=torch.int32)
    alloc_for_spec_decode(
        stack.tree,
        stack.allocator,
        stack.pool,
        reqs=batch.reqs,
        req_pool_indices=batch.req_pool_indices,
        cur_kv_lens=lens,
        cur_kv_lens_cpu=lens,
        nxt_kv_lens=lens - 4,
        nxt_kv_lens_cpu=lens - 4,
        num_needed_tokens=0,
    )
    assert before.differences(stack.snapshot(*batch.reqs)) == []


def test_alloc_for_spec_decode_checks_the_row_before_it_takes_slots():
    stack = make_stack("chunk", page_size=4, spec="eagle", width=16)
    batch = stack.extended(make_req("r", 8))
    before = stack.snapshot(*batch.reqs)
    lens = torch.tensor([8], dtype=torch.int32)
    with pytest.raises(RowOverflow, match="request r would fill 20 columns"):
        alloc_for_spec_decode(
            stack.tree,
            stack.allocator,
            stack.pool,
            reqs=batch.reqs,
            req_pool_indices=batch.req_pool_indices,
            cur_kv_lens=lens,
            cur_kv_lens_cpu=lens,
            nxt_kv_lens=lens + 12,
            nxt_kv_lens_cpu=lens + 12,
            num_needed_tokens=12,
        )
    assert before.differences(stack.snapshot(*batch.reqs)) == []


def test_a_request_keeps_only_the_tokens_that_fit_its_limit():
    """KV of tokens behind the last kept one never counts as committed."""
    stack = make_stack("radix", spec="eagle")
    batch = stack.extended(make_req("r", 8, max_new_tokens=4))
    batch.prepare_for_decode()
    finished = batch.advance([[1, 2, 3, 4]])
    req = finished[0]
    assert req.output_ids == [7, 1, 2, 3]
    assert req.finished_reason == "length"
    assert req.kv.kv_committed_len == req.seqlen - 1 == 11


def test_results_for_a_request_that_left_are_dropped():
    stack = make_stack("radix", spec="eagle")
    batch = stack.extended(make_req("a", 8), make_req("b", 9))
    batch.prepare_for_decode()
    gone, stays = batch.reqs
    stack.finish(stack.batch([gone]), gone)
    batch.reqs = [gone, stays]
    assert batch.advance([[1, 2], [3]]) == []
    assert gone.output_ids == [7]
    assert stays.output_ids == [7, 3]


def test_plan_buffers_keep_the_step_before_readable():
    buffers = PlanBuffers()
    first = buffers.fill([1, 2], [3, 4], torch.device("cpu"))
    second = buffers.fill([5], [6], torch.device("cpu"))
    assert first.cur_kv_lens.tolist() == [1, 2]
    assert first.nxt_kv_lens_cpu.tolist() == [3, 4]
    assert second.nxt_kv_lens.tolist() == [6]
    assert buffers.capacity == 32
    buffers.fill(list(range(33)), list(range(33)), torch.device("cpu"))
    assert buffers.capacity == 64


@settings(max_examples=25)
@given(
    data=st.data(),
    spec=st.sampled_from(SPECS),
    page_size=st.sampled_from(PAGE_SIZES),
    topk=st.sampled_from([1, 4]),
)
def test_lagging_verification_never_outruns_the_reserve(data, spec, page_size, topk):
    """Under overlap a step is prepared before the one before is settled: its drafts still fit the slots."""
    stack = make_stack("chunk", page_size=page_size, size=4096, spec=spec, speculative_eagle_topk=topk)
    alloc_len = get_alloc_reserve_per_decode(stack.server_args) // 2
    batch = stack.extended(make_req("r", data.draw(st.integers(1, 20)), max_new_tokens=1000))
    req = batch.reqs[0]
    pending = 0
    for _ in range(20):
        batch.prepare_for_decode()
        assert req.kv.kv_allocated_len >= req.kv.kv_committed_len + pending + alloc_len
        if pending:
            batch.advance([[0] * pending])
        pending = data.draw(st.integers(1, 4))
        stack.check(req)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("wrong", ["no row", "count"])
def test_a_wrong_call_takes_no_slot(page_size, wrong):
    stack = make_stack("chunk", page_size=page_size, size=2048, spec="eagle")
    batch = stack.extended(make_req("runs", 7), make_req("gone", 8))
    cur = torch.tensor([7, 8], dtype=torch.int32)
    nxt = cur + 2 * page_size
    if wrong == "no row":
        stack.finish(batch, batch.reqs[1])
    reqs = [*batch.reqs, make_req("gone", 8)][:2]
    before = stack.snapshot(*reqs)
    with pytest.raises(AssertionError, match=r"\['gone'\] hold no row|sum of nxt - cur: \d+, found 1"):
        alloc_for_spec_decode(
            stack.tree,
            stack.allocator,
            stack.pool,
            reqs=reqs,
            req_pool_indices=torch.tensor([1, 2]),
            cur_kv_lens=cur,
            cur_kv_lens_cpu=cur,
            nxt_kv_lens=nxt,
            nxt_kv_lens_cpu=nxt,
            num_needed_tokens=4 * page_size if wrong == "no row" else 1,
        )
    assert before.differences(stack.snapshot(*reqs)) == []


@pytest.mark.parametrize("spec", SPECS)
def test_an_empty_batch_takes_nothing(spec):
    stack = make_stack("chunk", page_size=4, spec=spec)
    batch = stack.batch([])
    batch.take_over()
    before = stack.snapshot()
    batch.prepare_for_decode()
    assert before.differences(stack.snapshot()) == []


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_lengths_after_a_step_leave_the_columns_of_encoders_out(spec, page_size):
    stack = make_stack("chunk", page_size=page_size, size=2048, spec=spec)
    batch = stack.extended(make_req("a", 21, encoder_len=14), make_req("b", 9, encoder_len=3))
    assert batch.seq_lens.tolist() == [7, 6]
    for _ in range(3):
        batch.prepare_for_decode()
        batch.advance([[1, 2], [1]])
        stack.check(*batch.reqs)
    assert batch.seq_lens.tolist() == batch.seq_lens_cpu.tolist() == [13, 9]
    assert [req.kv.kv_committed_len for req in batch.reqs] == [27, 12]
