"""Ten thousand random steps over every page size, cache and way of drafting, with all laws checked after each."""

from __future__ import annotations

import itertools
import random

import pytest

from kvcore.admission import cancel_admission, match_for_admission, set_extend_range
from kvcore.allocators import PureSWAAllocator
from kvcore.errors import OutOfSlots
from kvcore.prefix_cache.unfinished import maybe_cache_unfinished_req
from kvcore.schedule_batch import Req, advance_request
from tests.kvcore.factories import make_req, make_stack

SPECS = [(None, 1), ("eagle", 1), ("eagle", 4), ("ngram", 4), ("dflash", 1)]
NUM_STEPS = 100
CONTEXT_LEN = 100


class Life:
    """A small server: a queue, one prompt in chunks, a running batch, results that lag one step behind."""

    def __init__(self, cache: str, page_size: int, spec: str | None, topk: int) -> None:
        self.random = random.Random(f"{cache} {page_size} {spec} {topk}")
        kwargs = {} if spec is None else {"speculative_eagle_topk": topk}
        self.stack = make_stack(
            cache,
            page_size=page_size,
            size=1024,
            size_swa=768,
            rows=12,
            spec=spec,
            context_len=CONTEXT_LEN,
            need_sort=self.random.random() < 0.5,
            **kwargs,
        )
        self.page_size = page_size
        self.spec = spec
        self.batch = self.stack.batch()
        self.queue: list[Req] = []
        self.chunked: Req | None = None
        self.pending: list[tuple[Req, list[int]]] = []
        self.touched: list[Req] = []
        self.serial = 0
        self.retractions = 0

    def live(self) -> list[Req]:
        return [*self.batch.reqs, *([] if self.chunked is None else [self.chunked])]

    def check(self, operation: str, *touched: Req) -> None:
        self.stack.checker.check(self.live(), operation, touched=touched)

    def arrive(self) -> None:
        self.serial += 1
        length = self.random.randint(1, CONTEXT_LEN - 2)
        shared = self.random.randint(0, length)
        ids = [self.random.randint(0, 1)] * shared + [self.random.randint(2, 4)] * (length - shared)
        # Some requests run into the context limit.
        max_new_tokens = min(self.random.randint(1, 60), CONTEXT_LEN - length)
        req = make_req(f"r{self.serial}", origin_input_ids=ids, max_new_tokens=max_new_tokens)
        req.skip_radix_cache_insert = self.random.random() < 0.2
        match_for_admission(req, self.stack.tree)
        self.queue.append(req)

    def extend(self) -> None:
        if self.chunked is None:
            if not self.queue:
                return
            req = self.queue.pop(0)
            if self.random.random() < 0.5:
                match_for_admission(req, self.stack.tree)
        else:
            req, self.chunked = self.chunked, None
        others = self.live()
        set_extend_range(req, self.random.randint(64, 80), self.page_size)
        batch = self.stack.batch([req])
        before = self.stack.snapshot(*others)
        try:
            batch.prepare_for_extend()
        except OutOfSlots:
            assert before.differences(self.stack.snapshot(*others), evicted=True) == []
            if req.kv is None:
                self.queue.insert(0, req)
            else:
                self.chunked = req
            return
        self.stack.checker.check([req, *others], "extend", touched=[req])
        maybe_cache_unfinished_req(req, self.stack.tree, chunked=bool(req.is_chunked))
        self.stack.checker.check([req, *others], "cache", touched=[req])
        if req.is_chunked:
            self.chunked = req
        elif batch.advance([[1]]):
            self.stack.finish(batch)
        else:
            self.batch.merge(batch)

    def decode(self) -> None:
        if not self.batch.reqs:
            return
        if not self.batch.check_decode_mem():
            gone = self.batch.retract_decode()
            self.retractions += len(gone.retracted)
            self.check("retract", *gone.retracted, *gone.aborted)
            for req in gone.retracted:
                match_for_admission(req, self.stack.tree)
            self.queue += gone.retracted
            if not self.batch.reqs:
                return
        demand, free = self.batch.new_tokens_required_next_decode(), self.free_tokens()
        self.batch.prepare_for_decode()
        assert free - self.free_tokens() == demand or self.window_frees()
        self.check("decode", *self.batch.reqs)
        num_ids = 1 if self.spec is None else 4
        launched = [
            (req, [self.random.randint(0, 1) for _ in range(self.random.randint(1, num_ids))])
            for req in self.batch.reqs
        ]
        due = launched
        if self.spec is not None:
            due, self.pending = self.pending, launched
        self.settle(due)

    def settle(self, due: list[tuple[Req, list[int]]]) -> None:
        done = [
            req
            for req, ids in due
            if req in self.batch.reqs and advance_request(req, ids, verified=self.spec is not None)
        ]
        for req in due:
            assert req[0].kv is None or req[0].kv.kv_committed_len < req[0].seqlen + (self.spec is None)
        if done:
            self.stack.finish(self.batch, *done)
        self.check("finish", *done)

    def free_tokens(self) -> int:
        allocator = self.stack.allocator
        return allocator.full_available_size() if self.stack.window else allocator.available_size()

    def window_frees(self) -> bool:
        """Whether slots of the only pool come back while their request runs."""
        return isinstance(self.stack.allocator, PureSWAAllocator)

    def abort(self) -> None:
        if not self.batch.reqs:
            return
        req = self.random.choice(self.batch.reqs)
        self.stack.allocator.free_group_begin()
        self.stack.finish(self.batch, req, is_insert=self.random.random() < 0.5)
        self.stack.allocator.free_group_end()
        self.check("abort", req)

    def end(self) -> None:
        for req in self.queue:
            cancel_admission(req, self.stack.tree)
        if self.chunked is not None:
            self.stack.finish(self.stack.batch([self.chunked]), self.chunked)
        if self.batch.reqs:
            self.stack.finish(self.batch)
        self.stack.checker.check([], "the end")
        self.stack.checker.check_idle("the end")


STACKS = [
    *itertools.product(["chunk", "radix", "swa_chunk", "swa"], [1, 2, 4, 16, 64]),
    ("pure_swa", 1),
]


@pytest.mark.parametrize(("spec", "topk"), SPECS, ids=str)
@pytest.mark.parametrize(("cache", "page_size"), STACKS, ids=str)
def test_the_laws_hold_after_every_step(cache, page_size, spec, topk):
    life = Life(cache, page_size, spec, topk)
    for _ in range(NUM_STEPS):
        if len(life.queue) < 3:
            life.arrive()
        steps = [life.extend, life.decode, life.decode, life.decode, life.abort]
        life.random.choices(steps, weights=[4, 2, 2, 2, 0.3])[0]()
    life.end()
