"""The radix tree against a model of plain dictionaries: same operations, same answers, same order of eviction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

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

from kvcore.prefix_cache import EvictParams, LockRef, RadixKey
from kvcore.prefix_cache.eviction_policy import POLICIES, get_eviction_policy
from tests.kvcore.prefix_cache.factories import make_radix

Path = tuple[int, ...]
SIZE = 48


@dataclass(frozen=True)
class Page:
    """What the model knows of one page: its slots, and the fields that policies read."""

    slots: tuple[int, ...]
    creation: int
    last_access: int
    hit_count: int
    priority: int


class Model:
    """A flat set of pages, each named by all tokens up to its end; ``cuts`` are the paths at which nodes end."""

    def __init__(self, page_size: int, policy: str) -> None:
        self.page_size = page_size
        self.policy = get_eviction_policy(policy)
        self.pages: dict[Path, Page] = {}
        self.cuts: set[Path] = set()
        self.locks: list[Path] = []
        self.now = 0

    def prefixes(self, ids: list[int]) -> list[Path]:
        ends = range(self.page_size, len(ids) + 1, self.page_size)
        return [tuple(ids[:end]) for end in ends]

    def matched(self, ids: list[int]) -> list[Path]:
        return [path for path in self.prefixes(ids) if path in self.pages]

    def match(self, ids: list[int]) -> list[int]:
        paths = self.matched(ids)
        self._use(paths)
        return [slot for path in paths for slot in self.pages[path].slots]

    def insert(self, ids: list[int], slots: list[int], *, chunked: bool, priority: int) -> int:
        known = self.matched(ids)
        if known:
            self.cuts.add(known[-1])
        self.now += 1
        for path in self.prefixes(ids)[len(known) :]:
            run = tuple(slots[len(path) - self.page_size : len(path)])
            self.pages[path] = Page(run, self.now, self.now, 0, 0)
        paths = self.prefixes(ids)
        for path in paths:
            page = self.pages[path]
            hits = page.hit_count + (0 if chunked else 1)
            self.pages[path] = replace(page, hit_count=hits, priority=max(page.priority, priority))
        self._use(paths)
        return len(known) * self.page_size

    def is_locked(self, path: Path) -> bool:
        return any(lock[: len(path)] == path for lock in self.locks)

    def children(self, path: Path) -> list[Path]:
        length = len(path) + self.page_size
        return [other for other in self.pages if len(other) == length and other[: len(path)] == path]

    def evict(self, num_tokens: int) -> list[int]:
        freed: list[int] = []
        while len(freed) < num_tokens:
            leaves = [path for path in self.pages if not self.children(path) and not self.is_locked(path)]
            if not leaves:
                break
            # No two leaves have equal keys, since every use has its own time.
            path = min(leaves, key=lambda path: self.policy(self.pages[path]))  # type: ignore[arg-type]
            freed += self._remove_node(path)
        return freed

    def _remove_node(self, path: Path) -> list[int]:
        """Remove pages from the end of a leaf up to where its node begins: a cut, a branch, or the root."""
        freed: list[int] = []
        while path:
            freed += self.pages.pop(path).slots
            self.cuts.discard(path)
            path = path[: -self.page_size]
            if path in self.cuts or self.children(path):
                break
        return freed

    def _use(self, paths: list[Path]) -> None:
        self.now += 1
        if paths:
            self.cuts.add(paths[-1])
        for path in paths:
            self.pages[path] = replace(self.pages[path], last_access=self.now)


class RadixMachine(RuleBasedStateMachine):
    policy = "lru"

    @initialize(page_size=st.sampled_from([1, 2, 4]))
    def start(self, page_size: int) -> None:
        self.cache = make_radix(page_size, SIZE, eviction_policy=self.policy)
        self.model = Model(page_size, self.policy)
        self.locks: list[tuple[LockRef, Path]] = []

    def _take(self, length: int) -> Any:
        """Fresh slots, evicting from both sides for them as an allocation would."""
        missing = length - self.cache.allocator.available_size()
        if missing > 0:
            self._evict(missing)
        return self.cache.allocator.alloc(length)

    def _evict(self, num_tokens: int) -> None:
        before = set(self.cache.owned_slots().tolist())
        result = self.cache.evict(EvictParams(num_tokens))
        expected = self.model.evict(num_tokens)

        assert before - set(self.cache.owned_slots().tolist()) == set(expected)
        assert result.num_tokens_evicted == len(expected)

    @rule(ids=st.lists(st.integers(0, 2), max_size=12), chunked=st.booleans(), priority=st.integers(0, 3))
    def insert(self, ids: list[int], chunked: bool, priority: int) -> None:
        slots = self._take(self.cache.cached_len(RadixKey(ids)))
        if slots is None:
            return
        result = self.cache.insert(RadixKey(ids), slots, chunked=chunked, priority=priority)
        expected = self.model.insert(ids, slots.tolist(), chunked=chunked, priority=priority)

        assert result.prefix_len == expected
        self.cache.allocator.free_segment(slots[:expected])

    @rule(ids=st.lists(st.integers(0, 2), max_size=12))
    def match(self, ids: list[int]) -> None:
        assert self.cache.match_prefix(RadixKey(ids)).device_indices.tolist() == self.model.match(ids)

    @rule(ids=st.lists(st.integers(0, 2), max_size=12))
    def lock(self, ids: list[int]) -> None:
        match = self.cache.match_prefix(RadixKey(ids))
        path = tuple(ids[: len(self.model.match(ids))])
        self.locks.append((self.cache.inc_lock_ref(match.last_node), path))
        self.model.locks.append(path)

    @precondition(lambda self: self.locks)
    @rule(index=st.integers(0, 99))
    def unlock(self, index: int) -> None:
        lock, path = self.locks.pop(index % len(self.locks))
        self.cache.dec_lock_ref(lock)
        self.model.locks.remove(path)

    @rule(num_tokens=st.integers(1, SIZE))
    def evict(self, num_tokens: int) -> None:
        self._evict(num_tokens)

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        if not hasattr(self, "cache"):
            return
        self.cache.check()
        locked = [path for path in self.model.pages if self.model.is_locked(path)]
        page_size = self.cache.page_size
        assert self.cache.protected_size() == len(locked) * page_size
        assert self.cache.evictable_size() == (len(self.model.pages) - len(locked)) * page_size
        held = self.cache.evictable_size() + self.cache.protected_size()
        assert self.cache.allocator.available_size() + held == SIZE


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_the_tree_answers_and_evicts_as_the_model_does(policy: str) -> None:
    machine = type(f"{policy.title()}Machine", (RadixMachine,), {"policy": policy})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=25, stateful_step_count=30, deadline=None)
    )
