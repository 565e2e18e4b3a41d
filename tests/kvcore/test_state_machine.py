"""Allocator, cache and batch together, in any order of operations, beside a model in plain integers.

The model knows how long every request is and what it holds; the checker compares the pools after every rule. The "deep"
profile takes a million steps, in about half an hour: ``pytest --hypothesis-profile=deep tests/kvcore/test_state_machine.py``.
"""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvcore.admission import cancel_admission, match_for_admission, set_extend_range
from kvcore.allocation_sizing import get_alloc_reserve_per_decode
from kvcore.errors import OutOfSlots
from kvcore.page_math import align_up
from kvcore.prefix_cache.base import EvictParams
from kvcore.prefix_cache.unfinished import maybe_cache_unfinished_req
from kvcore.release import release_kv_cache
from kvcore.schedule_batch import Req, advance_request
from tests.kvcore.factories import make_req, make_stack

DEEP = hypothesis.settings.default.max_examples > 1000
SIZE = 256
LONGEST = 60


@st.composite
def prompts(draw) -> list[int]:
    """Prompts of a few families, which share a prefix of any length and then differ."""
    length = draw(st.integers(1, LONGEST - 2))
    shared = draw(st.integers(0, length))
    return [draw(st.integers(0, 1))] * shared + [draw(st.integers(2, 4))] * (length - shared)


class LengthModel:
    """What one request holds, in tokens, by the rules of the life of a request."""

    def __init__(self, committed: int) -> None:
        self.committed = committed
        self.allocated = committed

    def decode(self, reserve: int | None, page_size: int) -> None:
        if reserve is None:
            self.committed += 1
            self.allocated += 1
        else:
            self.allocated = max(self.allocated, align_up(self.committed + reserve, page_size))


class StackMachine(RuleBasedStateMachine):
    num_steps = 0
    """Steps of all runs: rules, and within a decode rule its steps. After each one all laws are checked."""

    @initialize(
        cache=st.sampled_from(["chunk", "radix", "swa_chunk", "swa"]),
        page_size=st.sampled_from([1, 2, 4, 16]),
        spec=st.sampled_from([None, "eagle", "dflash", "ngram"]),
        topk=st.sampled_from([1, 3]),
        need_sort=st.booleans(),
        size_swa=st.sampled_from([96, SIZE]),
    )
    def build(self, cache, page_size, spec, topk, need_sort, size_swa):
        kwargs = {} if spec is None else {"speculative_eagle_topk": topk if spec != "dflash" else 1}
        self.stack = make_stack(
            cache,
            page_size=page_size,
            size=SIZE,
            size_swa=size_swa,
            rows=6,
            spec=spec,
            need_sort=need_sort,
            context_len=LONGEST,
            **kwargs,
        )
        self.page_size = page_size
        self.spec = spec
        self.reserve = None if spec is None else get_alloc_reserve_per_decode(self.stack.server_args)
        self.batch = self.stack.batch()
        self.waiting: list[Req] = []
        self.chunked: Req | None = None
        self.pending: list[tuple[Req, list[int]]] = []
        self.models: dict[str, LengthModel] = {}
        self.serial = 0
        self.touched: list[Req] = []
        self.last_rule = "build"

    def live(self) -> list[Req]:
        return [*self.batch.reqs, *([] if self.chunked is None else [self.chunked])]

    @precondition(lambda self: len(self.waiting) < 3)
    @rule(ids=prompts(), max_new_tokens=st.integers(1, 30), opts_out=st.booleans())
    def queue(self, ids, max_new_tokens, opts_out):
        self.serial += 1
        req = make_req(
            f"r{self.serial}",
            origin_input_ids=ids,
            max_new_tokens=min(max_new_tokens, LONGEST - len(ids)),
            skip_radix_cache_insert=opts_out,
        )
        match_for_admission(req, self.stack.tree)
        self.waiting.append(req)
        self.note("match")

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def match_again(self, data):
        match_for_admission(data.draw(st.sampled_from(self.waiting)), self.stack.tree)
        self.note("match again")

    @precondition(lambda self: len(self.waiting) == 3)
    @rule()
    def leave(self):
        cancel_admission(self.waiting.pop(), self.stack.tree)
        self.note("leave the queue")

    @precondition(lambda self: self.chunked is None and self.waiting)
    @rule(budget=st.integers(16, 40))
    def admit(self, budget):
        req = self.waiting.pop(0)
        if not self.extend(req, budget):
            self.waiting.append(req)

    @precondition(lambda self: self.chunked is not None)
    @rule(budget=st.integers(16, 40))
    def next_chunk(self, budget):
        req, self.chunked = self.chunked, None
        if not self.extend(req, budget):
            self.chunked = req

    def extend(self, req: Req, budget: int) -> bool:
        """One chunk; False, with nothing but the tree changed, when the pools are short."""
        others = self.live()
        set_extend_range(req, budget, self.page_size)
        batch = self.stack.batch([req])
        before = self.stack.snapshot(req, *others)
        try:
            batch.prepare_for_extend()
        except OutOfSlots:
            assert before.differences(self.stack.snapshot(req, *others), evicted=True) in ([], ["records"])
            self.note("extend without room", req)
            return False
        self.models[req.rid] = LengthModel(len(req.fill_ids))
        self.note("extend", req)
        self.stack.checker.check([req, *others], "extend", touched=[req])
        maybe_cache_unfinished_req(req, self.stack.tree, chunked=bool(req.is_chunked))
        if req.is_chunked:
            self.chunked = req
            return True
        if batch.advance([[1]]):
            self.release(req, is_insert=True)
        else:
            self.batch.merge(batch)
        return True

    @precondition(lambda self: self.batch.reqs)
    @rule(data=st.data(), num_steps=st.integers(1, 8))
    def decode(self, data, num_steps):
        for _ in range(num_steps):
            if self.batch.reqs:
                self.decode_once(data)
                self.laws_hold()

    def decode_once(self, data):
        """Prepare a step; a speculative one is settled after the next has been prepared."""
        if not self.batch.check_decode_mem():
            gone = self.batch.retract_decode()
            self.note("retract", *gone.retracted, *gone.aborted)
            assert not gone.aborted or not self.batch.reqs
            if not self.batch.reqs:
                return
            self.stack.checker.check(self.live(), "retract", touched=self.touched)
        demand = self.batch.new_tokens_required_next_decode()
        free = self.free_tokens()
        self.batch.prepare_for_decode()
        assert free - self.free_tokens() == demand
        for req in self.batch.reqs:
            self.models[req.rid].decode(self.reserve, self.page_size)
        self.note("decode", *self.batch.reqs)
        launched = [
            (
                req,
                [
                    data.draw(st.integers(0, 1))
                    for _ in range(1 if self.spec is None else data.draw(st.integers(1, 4)))
                ],
            )
            for req in self.batch.reqs
        ]
        if self.spec is None:
            self.settle(launched)
        else:
            late, self.pending = self.pending, launched
            self.settle(late)

    def free_tokens(self) -> int:
        allocator = self.stack.allocator
        return allocator.full_available_size() if self.stack.window else allocator.available_size()

    def settle(self, launched: list[tuple[Req, list[int]]]) -> None:
        for req, ids in launched:
            if req not in self.batch.reqs:
                continue
            before = len(req.output_ids)
            finished = advance_request(req, ids, verified=self.spec is not None)
            if self.spec is not None:
                self.models[req.rid].committed += len(req.output_ids) - before
            assert req.kv.kv_committed_len == self.models[req.rid].committed <= req.seqlen
            if finished:
                self.release(req, is_insert=True)

    def release(self, req: Req, *, is_insert: bool) -> None:
        release_kv_cache(req, self.stack.tree, is_insert=is_insert)
        self.batch.filter([i for i, one in enumerate(self.batch.reqs) if one.kv is not None])
        if self.chunked is req:
            self.chunked = None
        self.note("release", req)

    @precondition(lambda self: len(self.live()) > 2)
    @rule(data=st.data(), is_insert=st.booleans(), in_group=st.booleans())
    def abort(self, data, is_insert, in_group):
        req = data.draw(st.sampled_from(self.live()))
        if in_group:
            self.stack.allocator.free_group_begin()
        self.release(req, is_insert=is_insert)
        self.stack.allocator.free_group_end()
        # The second release of a request does nothing.
        release_kv_cache(req, self.stack.tree)

    @precondition(lambda self: self.stack.tree.evictable_size())
    @rule(num=st.integers(1, 64))
    def evict(self, num):
        before = self.stack.allocator.available_size()
        evictable = self.stack.tree.evictable_size()
        result = self.stack.tree.evict(EvictParams(num_tokens=num))
        assert result.num_tokens_evicted >= min(num, evictable)
        assert self.stack.allocator.available_size() >= before
        self.note("evict")

    def note(self, operation: str, *touched: Req) -> None:
        self.last_rule = operation
        self.touched += touched

    @invariant()
    def laws_hold(self):
        if not hasattr(self, "stack"):
            return
        self.stack.checker.check(self.live(), self.last_rule, touched=self.touched)
        StackMachine.num_steps += 1
        self.touched = []
        for req in self.live():
            model = self.models[req.rid]
            assert (req.kv.kv_committed_len, req.kv.kv_allocated_len) == (model.committed, model.allocated)
        if self.batch.reqs:
            assert self.batch.req_pool_indices.tolist() == [req.kv.req_pool_idx for req in self.batch.reqs]

    def teardown(self):
        if not hasattr(self, "stack"):
            return
        for req in self.live():
            release_kv_cache(req, self.stack.tree)
        for req in self.waiting:
            cancel_admission(req, self.stack.tree)
        self.stack.checker.check_idle("the end")


TestStackMachine = StackMachine.TestCase
TestStackMachine.settings = hypothesis.settings(
    # Deep: about 210 steps an example, more than a million in all.
    max_examples=6000 if DEEP else hypothesis.settings.default.max_examples,
    stateful_step_count=200 if DEEP else 30,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)


def test_the_profile_takes_the_steps_that_it_promises():
    """Runs after the machine. An example may end early, when its random bytes are used up: so they are counted."""
    if StackMachine.num_steps == 0:
        pytest.skip("the machine did not run in this process")
    assert StackMachine.num_steps >= (1_000_000 if DEEP else 500)
