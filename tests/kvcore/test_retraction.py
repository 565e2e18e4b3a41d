"""When the next step does not fit, requests go back to the queue; one that does not fit alone is aborted."""

from __future__ import annotations

import pytest

from kvcore.errors import FreeGroupError
from tests.kvcore.factories import make_req, make_stack

CACHES = ["chunk", "radix", "swa_chunk", "swa"]


def run_until_short(stack, batch):
    while batch.check_decode_mem():
        batch.prepare_for_decode()
        batch.advance([[1]] * len(batch.reqs))
        stack.check(*batch.reqs)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_the_rest_of_the_batch_goes_on(cache, page_size):
    stack = make_stack(cache, page_size=page_size, size=128)
    reqs = [make_req(str(i), origin_input_ids=[i] * 17, max_new_tokens=100) for i in range(3)]
    batch = stack.cached(*reqs)
    run_until_short(stack, batch)
    gone = batch.retract_decode()
    assert gone.retracted
    assert not gone.aborted
    assert sorted([*gone.retracted, *batch.reqs], key=lambda req: req.rid) == reqs
    assert batch.req_pool_indices.tolist() == [req.kv.req_pool_idx for req in batch.reqs]
    stack.check(*batch.reqs)
    batch.prepare_for_decode()
    stack.check(*batch.reqs)


def test_a_retracted_request_holds_nothing_and_keeps_its_output():
    stack = make_stack("radix", page_size=4, size=64)
    batch = stack.cached(make_req("a", origin_input_ids=[1] * 20), make_req("b", origin_input_ids=[2] * 20))
    run_until_short(stack, batch)
    [req] = batch.retract_decode().retracted
    assert req.kv is None
    assert req.last_lock is None
    assert req.prefix_indices.numel() == 0
    assert req.output_ids
    assert req.decode_batch_idx == 0
    assert req.finished_reason is None
    again = stack.queued(req)[0]
    assert again.fill_ids == again.token_ids


def test_those_go_first_that_have_produced_least_and_ask_most():
    stack = make_stack("chunk", size=96, page_size=1)
    lots = make_req("lots", 10, output_ids=[1] * 5, max_new_tokens=99)
    long_prompt, short_prompt = make_req("long", 50), make_req("short", 20)
    batch = stack.extended(lots, long_prompt, short_prompt)
    taken = stack.allocator.alloc(stack.allocator.available_size())
    assert [req.rid for req in batch.retract_decode().retracted] == ["long"]
    stack.allocator.free(taken)


@pytest.mark.parametrize("spec", [None, "eagle"])
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_a_request_that_does_not_fit_alone_is_aborted(cache, page_size, spec):
    stack = make_stack(cache, page_size=page_size, size=64, spec=spec)
    batch = stack.cached(make_req("alone", 50, max_new_tokens=100))
    run_until_short(stack, batch)
    gone = batch.retract_decode()
    assert [req.rid for req in gone.aborted] == ["alone"]
    assert not gone.retracted
    assert gone.aborted[0].finished_reason.startswith("abort: out of memory, alone it needs ")
    assert batch.reqs == []
    stack.check()
    stack.checker.check_idle("abort")


def test_nobody_goes_while_the_step_fits():
    stack = make_stack("radix")
    batch = stack.cached(make_req("a"), make_req("b"))
    before = stack.snapshot(*batch.reqs)
    assert batch.retract_decode() == ([], [])
    assert before.differences(stack.snapshot(*batch.reqs)) == []


@pytest.mark.parametrize("cache", CACHES)
def test_within_a_free_group_nobody_is_retracted(cache):
    """What is released there does not count before its end: everybody would go, and the last be aborted."""
    stack = make_stack(cache, page_size=4, size=128)
    batch = stack.cached(*[make_req(str(i), origin_input_ids=[i] * 17, max_new_tokens=100) for i in range(3)])
    run_until_short(stack, batch)
    stack.allocator.free_group_begin()
    before, reqs = stack.snapshot(*batch.reqs), list(batch.reqs)
    with pytest.raises(FreeGroupError, match="end the group first"):
        batch.retract_decode()
    assert before.differences(stack.snapshot(*batch.reqs)) == []
    assert batch.reqs == reqs
    stack.allocator.free_group_end()
    assert len(batch.retract_decode().retracted) == 1
