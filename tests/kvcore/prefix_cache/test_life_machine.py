"""Requests live and die around every cache, in pools that are too small; every page has one owner after every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kvcore.pools.track_buffer import TrackPolicy
from kvcore.prefix_cache import EvictParams, maybe_cache_unfinished_req
from tests.kvcore.prefix_cache.factories import (
    WINDOW,
    Driver,
    make_chunk,
    make_mamba_radix,
    make_pure_swa_radix,
    make_radix,
    make_req,
    make_swa_chunk,
    make_swa_radix,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvcore.req import Req

ids_lists = st.lists(st.integers(0, 1), min_size=1, max_size=20)


class LifeMachine(RuleBasedStateMachine):
    make: Callable[[], Any]
    has_window = False

    @initialize()
    def start(self) -> None:
        self.driver = Driver(type(self).make())
        self.cache = self.driver.cache
        self.number = 0

    def _pick(self, index: int) -> Req:
        return self.driver.live[index % len(self.driver.live)]

    def _retract(self, req: Req) -> None:
        self.driver.finish(req, is_insert=False)

    @precondition(lambda self: len(self.driver.live) < 6)
    @rule(
        ids=ids_lists,
        first=st.integers(1, 20),
        namespace=st.sampled_from([None, None, "b"]),
        skip=st.booleans(),
    )
    def admit(self, ids: list[int], first: int, namespace: str | None, skip: bool) -> None:
        self.number += 1
        req = make_req(ids, f"r{self.number}", extra_key=namespace, skip_radix_cache_insert=skip)
        before = self.cache.protected_size()
        if not self.driver.admit(req, max(1, min(first, len(ids)))):
            assert self.cache.protected_size() == before

    @precondition(lambda self: self.driver.live)
    @rule(index=st.integers(0, 99), more=st.integers(1, 12))
    def chunk(self, index: int, more: int) -> None:
        req = self._pick(index)
        if req.output_ids:
            return
        is_last = len(req.fill_ids) == len(req.origin_input_ids)
        maybe_cache_unfinished_req(req, self.cache, chunked=not is_last)
        assert len(req.prefix_indices) == len(req.fill_ids)
        if not is_last and not self.driver.next_chunk(req, len(req.fill_ids) + more):
            self._retract(req)

    @precondition(lambda self: self.driver.live)
    @rule(index=st.integers(0, 99), tokens=st.lists(st.integers(0, 1), min_size=1, max_size=10))
    def decode(self, index: int, tokens: list[int]) -> None:
        req = self._pick(index)
        if len(req.fill_ids) < len(req.origin_input_ids):
            return
        for token in tokens:
            if req.seqlen >= 100 or not self.driver.decode(req, token):
                self._retract(req)
                return
            if self.has_window:
                # Bigram keys are one unit shorter than the ids, and so is what may leave the window.
                self.driver.evict_window(req, WINDOW + int(getattr(self.cache, "is_bigram", False)))

    @precondition(lambda self: self.driver.live)
    @rule(index=st.integers(0, 99), is_insert=st.sampled_from([True, True, True, False]))
    def finish(self, index: int, is_insert: bool) -> None:
        self.driver.finish(self._pick(index), is_insert=is_insert)

    @precondition(lambda self: self.driver.live)
    @rule(index=st.integers(0, 99))
    def finish_before_the_last_id_has_come(self, index: int) -> None:
        req = self._pick(index)
        if req.output_ids:
            req.output_ids.pop()
        self.driver.finish(req)

    @rule(num_tokens=st.integers(0, 20), num_window=st.integers(0, 20), num_states=st.integers(0, 3))
    def evict(self, num_tokens: int, num_window: int, num_states: int) -> None:
        self.cache.evict(EvictParams(num_tokens, num_window if self.has_window else 0, num_states))

    @invariant()
    def every_page_has_one_owner(self) -> None:
        if hasattr(self, "driver"):
            self.driver.check()

    def teardown(self) -> None:
        """With all requests gone and all that is evictable evicted, every slot is free."""
        if not hasattr(self, "driver"):
            return
        for req in list(self.driver.live):
            self.driver.finish(req)
        assert self.cache.protected_size() == 0
        self.cache.evict(EvictParams(1000, 1000 if self.has_window else 0))
        assert self.cache.evictable_size() == 0
        allocator = self.driver.allocator
        for pool in (
            getattr(allocator, "full_attn_allocator", allocator),
            getattr(allocator, "swa_attn_allocator", allocator),
        ):
            assert pool.available_size() == pool.size


MACHINES: list[tuple[str, Callable[[], Any], bool]] = [
    ("chunk", make_chunk, False),
    ("chunk, page 4", lambda: make_chunk(4), False),
    ("swa chunk", make_swa_chunk, True),
    ("swa chunk, page 4, small window pool", lambda: make_swa_chunk(4, 64, 32), True),
    ("radix", make_radix, False),
    ("radix, page 4", lambda: make_radix(4), False),
    ("radix, bigram", lambda: make_radix(is_bigram=True), False),
    ("radix, bigram, page 2", lambda: make_radix(2, is_bigram=True), False),
    ("radix, coarse pages", lambda: make_radix(2, tree_page_size=4), False),
    ("radix, disabled", lambda: make_radix(2, disable=True), False),
    ("swa radix", make_swa_radix, True),
    ("swa radix, page 2, small window pool", lambda: make_swa_radix(2, 64, 32), True),
    ("swa radix, page 4", lambda: make_swa_radix(4), True),
    ("swa radix, window 2, page 4, small window pool", lambda: make_swa_radix(4, 64, 32, window=2), True),
    ("swa radix, bigram, page 2", lambda: make_swa_radix(2, is_bigram=True), True),
    ("pure swa radix", make_pure_swa_radix, True),
    ("pure swa radix, bigram", lambda: make_pure_swa_radix(is_bigram=True), True),
    ("mamba radix", make_mamba_radix, False),
    (
        "mamba radix, track buffers",
        lambda: make_mamba_radix(num_states=12, track=TrackPolicy(2, interval=3)),
        False,
    ),
    (
        "mamba radix, track buffers, page 2",
        lambda: make_mamba_radix(2, num_states=14, track=TrackPolicy(2, interval=4)),
        False,
    ),
]


@pytest.mark.parametrize(
    ("make", "has_window"), [row[1:] for row in MACHINES], ids=[row[0] for row in MACHINES]
)
def test_no_slot_is_lost_or_owned_twice(make: Callable[[], Any], has_window: bool) -> None:
    machine = type("CacheLifeMachine", (LifeMachine,), {"make": staticmethod(make), "has_window": has_window})
    examples = max(25, settings().max_examples // 4)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=40, deadline=None)
    )
