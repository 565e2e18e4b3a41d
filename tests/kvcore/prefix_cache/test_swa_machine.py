"""The sliding-window tree against its model: same matches, same slots given back, both pools conserved."""

from __future__ import annotations

from typing import Any

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
from tests.kvcore.prefix_cache.factories import make_swa_radix
from tests.kvcore.prefix_cache.swa_model import Lock, SWAModel

SIZE = 48
ids_lists = st.lists(st.integers(0, 1), max_size=14)
holes = st.tuples(st.integers(0, 7), st.integers(0, 7))


class Held:
    """A lock of both sides, and the slots that a request which holds it has at the front of its row."""

    def __init__(self, lock: LockRef, model: Lock, slots: list[int]) -> None:
        self.lock = lock
        self.model = model
        self.slots = slots


class SWAMachine(RuleBasedStateMachine):
    @initialize(
        page_size=st.sampled_from([1, 2]), window=st.integers(1, 5), size_swa=st.sampled_from([24, 48])
    )
    def start(self, page_size: int, window: int, size_swa: int) -> None:
        self.size_swa = size_swa
        self.cache = make_swa_radix(page_size, SIZE, size_swa, window)
        self.allocator: Any = self.cache.allocator
        self.model = SWAModel(page_size, window)
        self.held: list[Held] = []

    def _evict(self, num_full: int, num_window: int) -> None:
        full, window = set(self.cache.owned_slots().tolist()), set(self.cache.owned_window_slots().tolist())
        result = self.cache.evict(EvictParams(num_full, num_window))
        expected_full, expected_window = self.model.evict(num_full, num_window)

        assert full - set(self.cache.owned_slots().tolist()) == set(expected_full)
        assert window - set(self.cache.owned_window_slots().tolist()) == set(expected_window)
        assert result[:2] == (len(expected_full), len(expected_window))

    def _insert(self, ids: list[int], front: list[int], hole: tuple[int, int]) -> None:
        """Insert ``ids`` for a request whose row begins with the tree's slots ``front``."""
        page_size = self.cache.page_size
        length = self.cache.cached_len(RadixKey(ids))
        fresh_len = length - len(front)
        missing = self.allocator.shortfall(fresh_len)
        if any(missing):
            self._evict(*missing)
        fresh = self.allocator.alloc(fresh_len)
        if fresh is None:
            return
        value = self.cache.tree.root.value.new_tensor([*front, *fresh.tolist()])
        start = max(len(front), min(hole) * page_size)
        end = min(max(hole) * page_size, length)
        if start < end:
            self.allocator.free_swa_segment(value[start:end])
        known_len = len(self.model.known(ids)) * page_size
        result = self.cache.insert(
            RadixKey(ids),
            value,
            prev_prefix_len=len(front),
            swa_evicted_seqlen=end,
            swa_evict_floor=min(hole) * page_size,
        )
        self.model.insert(ids[:length], value.tolist(), len(front), (min(hole) * page_size, end))

        assert result.prefix_len == known_len

    @rule(ids=ids_lists, hole=holes)
    def insert(self, ids: list[int], hole: tuple[int, int]) -> None:
        self._insert(ids, [], hole)

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0, 99), more=ids_lists, hole=holes)
    def insert_behind_a_lock(self, index: int, more: list[int], hole: tuple[int, int]) -> None:
        held = self.held[index % len(self.held)]
        self._insert([*held.model.path, *more], held.slots, hole)

    @rule(ids=ids_lists)
    def match(self, ids: list[int]) -> None:
        assert self.cache.match_prefix(RadixKey(ids)).device_indices.tolist() == self.model.match(ids)

    @precondition(lambda self: len(self.held) < 4)
    @rule(ids=ids_lists)
    def lock(self, ids: list[int]) -> None:
        match = self.cache.match_prefix(RadixKey(ids))
        slots = self.model.match(ids)
        lock = self.cache.inc_lock_ref(match.last_node)
        self.held.append(Held(lock, self.model.lock(tuple(ids[: len(slots)])), slots))

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0, 99))
    def release_the_window(self, index: int) -> None:
        held = self.held[index % len(self.held)]
        held.lock = self.cache.dec_swa_lock_only(held.lock)
        self.model.unlock_window(held.model)

    @precondition(lambda self: self.held)
    @rule(index=st.integers(0, 99))
    def unlock(self, index: int) -> None:
        held = self.held.pop(index % len(self.held))
        self.cache.dec_lock_ref(held.lock)
        self.model.unlock(held.model)

    @rule(num_full=st.integers(0, 20), num_window=st.integers(0, 20))
    def evict(self, num_full: int, num_window: int) -> None:
        self._evict(num_full, num_window)

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        if not hasattr(self, "cache"):
            return
        self.cache.check()
        pages = self.model.pages.items()
        locked = [path for path, _ in pages if self.model.is_locked(path)]
        live = [page for _, page in pages if page.live]
        window_locked = [page for page in live if page.window_locks]
        page_size = self.cache.page_size
        assert self.cache.protected_size() == len(locked) * page_size
        assert self.cache.evictable_size() == (len(pages) - len(locked)) * page_size
        assert self.cache.swa_protected_size() == len(window_locked) * page_size
        assert self.cache.swa_evictable_size() == (len(live) - len(window_locked)) * page_size
        assert self.allocator.full_available_size() + len(pages) * page_size == SIZE
        assert self.allocator.swa_available_size() + len(live) * page_size == self.size_swa
        mapped = int((self.allocator.full_to_swa_index_mapping[:-1] > 0).sum())
        assert mapped == len(live) * page_size


def test_the_tree_answers_and_evicts_as_the_model_does() -> None:
    examples = max(60, settings().max_examples)
    run_state_machine_as_test(
        SWAMachine, settings=settings(max_examples=examples, stateful_step_count=40, deadline=None)
    )
