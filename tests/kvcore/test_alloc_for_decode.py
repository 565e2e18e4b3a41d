"""A decode step takes one slot per request, writes it behind the row's end, and moves both lengths."""

from __future__ import annotations

import pytest
import torch

from kvcore.allocation import alloc_for_decode
from kvcore.errors import OutOfSlots, RowOverflow
from kvcore.release import release_kv_cache
from tests.kvcore.factories import make_req, make_stack

PAGE_SIZES = [1, 2, 4, 16]
CACHES = ["chunk", "radix", "swa_chunk", "swa"]


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_every_row_grows_by_one_slot(cache, page_size):
    stack = make_stack(cache, page_size=page_size)
    batch = stack.cached(*[make_req(str(i), 3 + i, max_new_tokens=40) for i in range(5)])
    for step in range(20):
        before = [stack.row(req) for req in batch.reqs]
        batch.prepare_for_decode()
        for req, row, slot in zip(batch.reqs, before, batch.out_cache_loc.tolist(), strict=True):
            assert stack.row(req) == [*row, slot]
            assert req.kv.kv_committed_len == req.kv.kv_allocated_len == len(row) + 1
        assert batch.seq_lens.tolist() == [req.kv.kv_committed_len for req in batch.reqs]
        assert batch.seq_lens_cpu.tolist() == batch.seq_lens.tolist()
        batch.advance([[step]] * 5)
        stack.check(*batch.reqs)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_demand_before_the_step_is_what_the_step_takes(page_size):
    stack = make_stack("chunk", page_size=page_size)
    batch = stack.extended(*[make_req(str(i), 7 + 3 * i, max_new_tokens=50) for i in range(4)])
    for _ in range(2 * page_size):
        demand, before = batch.new_tokens_required_next_decode(), stack.allocator.available_size()
        batch.prepare_for_decode()
        assert before - stack.allocator.available_size() == demand


def test_check_decode_mem_counts_pages():
    """Two requests at a page boundary need two pages: one free page is too little, although it has 16 slots."""
    stack = make_stack("chunk", page_size=16, size=48)
    batch = stack.extended(make_req("a", 16), make_req("b", 16))
    assert stack.allocator.available_size() == 16
    assert batch.new_tokens_required_next_decode() == 32
    assert not batch.check_decode_mem()
    with pytest.raises(OutOfSlots, match="Try to allocate 2 tokens"):
        batch.prepare_for_decode()


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_out_of_slots_leaves_requests_and_pools_as_they_were(cache, page_size):
    stack = make_stack(cache, page_size=page_size, size=2 * 16)
    batch = stack.cached(make_req("a", 16), make_req("b", 16, origin_input_ids=[9] * 16))
    lens = batch.seq_lens.clone()
    before = stack.snapshot(*batch.reqs)
    with pytest.raises(OutOfSlots, match=r"^Decode out of memory\. Try to lower your batch size\."):
        batch.prepare_for_decode()
    assert before.differences(stack.snapshot(*batch.reqs)) == []
    assert torch.equal(batch.seq_lens, lens)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_full_row_is_refused_by_name(page_size):
    stack = make_stack("chunk", page_size=page_size, width=16)
    batch = stack.extended(make_req("short", 4), make_req("full", 16))
    before = stack.snapshot(*batch.reqs)
    with pytest.raises(RowOverflow, match="request full would fill 17 columns of its row, which has 16"):
        batch.prepare_for_decode()
    assert before.differences(stack.snapshot(*batch.reqs)) == []


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_several_tokens_per_request_are_taken_at_once(page_size):
    stack = make_stack("chunk", page_size=page_size)
    batch = stack.extended(make_req("a", 5), make_req("b", 8))
    slots = alloc_for_decode(batch, token_per_req=3).tolist()
    assert stack.row(batch.reqs[0])[5:] == slots[:3]
    assert stack.row(batch.reqs[1])[8:] == slots[3:]
    assert [req.kv.kv_committed_len for req in batch.reqs] == [8, 11]
    stack.check(*batch.reqs)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_the_row_of_an_encoder_decoder_request_grows_behind_both_parts(page_size):
    """A slot that the row holds already would be written twice, and its page shared by two tokens."""
    stack = make_stack("chunk", page_size=page_size)
    batch = stack.extended(make_req("a", 21, encoder_len=14), make_req("b", 9, encoder_len=3))
    assert batch.seq_lens.tolist() == [7, 6]
    for _ in range(5):
        rows = [stack.row(req) for req in batch.reqs]
        batch.prepare_for_decode()
        for req, row, slot in zip(batch.reqs, rows, batch.out_cache_loc.tolist(), strict=True):
            assert slot not in row
            assert stack.row(req) == [*row, slot]
        stack.check(*batch.reqs)
    assert batch.seq_lens.tolist() == [12, 11]
    assert [req.kv.kv_committed_len for req in batch.reqs] == [26, 14]


def test_batches_with_encoders_are_filtered_and_merged():
    stack = make_stack("chunk", page_size=4)
    left = stack.extended(make_req("a", 9, encoder_len=2), make_req("b", 7, encoder_len=3))
    right = stack.extended(make_req("c", 5, encoder_len=1))
    stack.finish(left, left.reqs[0])
    left.merge(right)
    assert [req.rid for req in left.reqs] == ["b", "c"]
    assert left.encoder_lens.tolist() == left.encoder_lens_cpu.tolist() == [3, 1]
    assert left.seq_lens.tolist() == left.seq_lens_cpu.tolist() == [4, 4]
    assert left.req_pool_indices.tolist() == [req.kv.req_pool_idx for req in left.reqs]
    left.prepare_for_decode()
    stack.check(*left.reqs)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_request_that_holds_no_row_is_refused_by_name(cache, page_size):
    """One that was finished and not filtered out: no slot is taken for it, and nobody else moves on."""
    stack = make_stack(cache, page_size=page_size)
    batch = stack.cached(make_req("runs", 7), make_req("gone", 8, origin_input_ids=[9] * 8))
    release_kv_cache(batch.reqs[1], stack.tree)
    before = stack.snapshot(*batch.reqs)
    with pytest.raises(AssertionError, match=r"requests \['gone'\] hold no row .*filter the batch"):
        batch.prepare_for_decode()
    assert before.differences(stack.snapshot(*batch.reqs)) == []
