"""What a step costs follows its own work: not the requests that came before, nor, in tensor operations, its batch."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from kvcore.req import Req
from tests.kvcore.factories import make_req, make_stack
from tests.kvcore.operations import CountOperations

CACHES = ["chunk", "radix", "swa_chunk", "swa"]
SPECS = [None, "eagle", "dflash", "ngram"]


def operations_of_steps(cache: str, page_size: int, spec: str | None, batch_size: int, prefix: int) -> Any:
    """Operations of an extend, and of the two decode steps after it."""
    stack = make_stack(cache, page_size=page_size, size=8192, rows=64, spec=spec)
    if prefix:
        stack.finish(stack.cached(make_req("before", prefix, max_new_tokens=1)))
    reqs = [make_req(f"r{i}", 80) for i in range(batch_size)]
    batch = stack.batch(stack.queued(*reqs))
    batch.swa_eviction_interval = 1
    steps = []
    for prepare in (batch.prepare_for_extend, batch.prepare_for_decode, batch.prepare_for_decode):
        with CountOperations() as operations:
            prepare()
        steps.append(operations.counts)
        batch.advance([[1]] * batch_size)
    stack.check(*reqs)
    if stack.window is not None:
        assert all(req.kv.swa_evicted_seqlen for req in reqs), "nothing left the window"
    return steps


@pytest.mark.parametrize("prefix", [0, 32])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("page_size", [1, 4, 16])
@pytest.mark.parametrize("cache", CACHES)
def test_a_larger_batch_takes_no_more_tensor_operations(cache, page_size, spec, prefix):
    few = operations_of_steps(cache, page_size, spec, 3, prefix)
    many = operations_of_steps(cache, page_size, spec, 24, prefix)

    assert few == many
    assert sum(many[0].values()) > 0


@pytest.mark.parametrize("spec", [None, "eagle", "dflash"])
@pytest.mark.parametrize("cache", [*CACHES, "pure_swa"])
def test_finished_requests_leave_nothing_behind(cache, spec):
    """So the ten millionth step finds the books as short as the first."""
    stack = make_stack(cache, page_size=1 if cache == "pure_swa" else 4, size=512, spec=spec)

    def live() -> None:
        batch = stack.extended(*(make_req(rid, 30, max_new_tokens=30) for rid in "ab"))
        while batch.reqs:
            batch.prepare_for_decode()
            finished = batch.advance([[1]] * len(batch.reqs))
            if finished:
                stack.finish(batch, *finished)

    def objects_after(rounds: int) -> int:
        for _ in range(rounds):
            live()
        gc.collect()
        objects = gc.get_objects()
        assert not [one for one in objects if type(one) is Req]
        return len(objects)

    first = objects_after(3)
    later = objects_after(10)

    assert later <= first + 5  # one object a request would be 20 more
    assert len(stack.pool.free_slots) == stack.pool.size
    stack.check()
