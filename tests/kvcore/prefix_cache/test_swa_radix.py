from __future__ import annotations

import pytest
import torch

from kvcore.allocators import DSV4Allocator, DSV4PoolSizes, SWAAllocator
from kvcore.errors import ConfigurationError, InvariantViolation
from kvcore.prefix_cache import (
    EvictParams,
    OwnsSlots,
    OwnsWindowSlots,
    RadixKey,
    SupportsSWA,
    SWARadixCache,
    maybe_cache_unfinished_req,
)
from tests.kvcore.prefix_cache.factories import (
    Driver,
    insert_ids,
    make_pool,
    make_pure_swa_radix,
    make_req,
    make_swa_chunk,
    make_swa_radix,
    match_ids,
    match_len,
)

A = list(range(100, 140))


def insert_evicted(cache: SWARadixCache, ids: list[int], evicted: int, floor: int = 0) -> torch.Tensor:
    """Insert ``ids`` for a request that has given back the window slots of ``[floor, evicted)``."""
    slots = cache.allocator.alloc(len(ids))
    assert slots is not None
    cache.allocator.free_swa_segment(slots[floor:evicted])
    cache.insert(RadixKey(ids), slots, swa_evicted_seqlen=evicted, swa_evict_floor=floor)
    cache.check()
    # Nothing but the live nodes leads into the window pool, freed slots least of all.
    mapped = torch.nonzero(cache.allocator.full_to_swa_index_mapping[:-1]).view(-1)
    assert mapped.tolist() == sorted(cache.owned_window_slots().tolist())
    return slots


def tombstones(cache: SWARadixCache) -> int:
    return len(cache.owned_slots()) - len(cache.owned_window_slots())


@pytest.mark.parametrize(("evicted", "matched"), [(0, 10), (4, 10), (5, 0), (9, 0)])
def test_a_match_needs_a_window_of_live_tokens_behind_a_tombstone(evicted: int, matched: int) -> None:
    cache = make_swa_radix(window=6)
    insert_evicted(cache, A[:10], evicted)

    assert tombstones(cache) == evicted
    assert match_len(cache, A[:10]) == matched


def test_a_match_may_end_before_a_tombstone_where_nothing_is_missing() -> None:
    cache = make_swa_radix(window=6)
    insert_evicted(cache, A[:10], evicted=7, floor=3)

    assert tombstones(cache) == 4
    assert match_len(cache, A[:10]) == 3
    cache.check()


def test_a_match_ends_within_a_node_only_where_the_window_is_full() -> None:
    cache = make_swa_radix(window=6)
    insert_evicted(cache, A[:12], evicted=4)

    assert match_len(cache, [*A[:10], 0]) == 10
    assert match_len(cache, [*A[:9], 0]) == 0
    cache.check()


def test_what_was_evicted_to_the_end_makes_no_node_and_frees_its_slots() -> None:
    cache = make_swa_radix()
    insert_evicted(cache, A[:8], evicted=8)

    assert cache.owned_slots().tolist() == []
    assert cache.allocator.full_available_size() == cache.allocator.swa_available_size() == 64


def test_a_frontier_beyond_the_key_is_as_one_at_its_end() -> None:
    cache = make_swa_radix()
    slots = cache.allocator.alloc(8)
    assert slots is not None
    cache.allocator.free_swa_segment(slots)

    cache.insert(RadixKey(A[:6]), slots[:6], swa_evicted_seqlen=8)
    cache.allocator.free_segment(slots[6:], swa_evicted=2)

    assert cache.owned_slots().tolist() == []
    assert cache.allocator.full_available_size() == cache.allocator.swa_available_size() == 64


@pytest.mark.parametrize("locked", [False, True])
def test_a_tombstone_is_revived_with_the_window_slots_of_the_next_insertion(locked: bool) -> None:
    """Its own full slots stay: a running request may have them in its row."""
    cache = make_swa_radix(window=4)
    first = insert_evicted(cache, A[:10], evicted=6)
    lock = cache.inc_lock_ref(match_ids(cache, A[:10]).last_node) if locked else None

    insert_evicted(cache, A[:10], evicted=0)

    assert tombstones(cache) == 0
    assert match_ids(cache, A[:10]).device_indices.tolist() == first.tolist()
    assert cache.allocator.full_available_size() == cache.allocator.swa_available_size() == 54
    if lock is not None:
        cache.dec_lock_ref(lock)
    cache.check()


def test_a_tombstone_is_revived_from_the_frontier_of_the_next_insertion_on() -> None:
    cache = make_swa_radix(window=4)
    insert_evicted(cache, A[:10], evicted=6)
    insert_evicted(cache, A[:10], evicted=3)

    assert tombstones(cache) == 3
    assert match_len(cache, A[:7]) == 7
    assert match_len(cache, A[:6]) == 0
    assert cache.allocator.full_available_size() == 54
    assert cache.allocator.swa_available_size() == 57
    cache.check()


def test_window_slots_go_first_from_the_front_of_what_was_used_least_recently() -> None:
    cache = make_swa_radix(window=4)
    insert_ids(cache, A[:4])
    insert_ids(cache, A[:8])
    insert_ids(cache, [1, 2, 3, 4])

    result = cache.evict(EvictParams(swa_num_tokens=1))

    assert (result.num_tokens_evicted, result.swa_num_tokens_evicted) == (0, 4)
    assert match_len(cache, A[:4]) == 0
    assert match_len(cache, A[:8]) == 8
    cache.check()


def test_a_leaf_is_removed_from_both_pools_with_the_tombstones_above_it() -> None:
    cache = make_swa_radix(window=4)
    insert_ids(cache, A[:4])
    insert_ids(cache, A[:8])
    cache.evict(EvictParams(swa_num_tokens=4))
    assert tombstones(cache) == 4

    result = cache.evict(EvictParams(swa_num_tokens=1))

    assert result[:2] == (8, 4)
    assert cache.allocator.full_available_size() == cache.allocator.swa_available_size() == 64
    cache.check()


def test_the_window_lock_reaches_back_one_window_and_the_full_lock_to_the_root() -> None:
    cache = make_swa_radix(window=4)
    insert_ids(cache, A[:3])
    insert_ids(cache, A[:6])
    insert_ids(cache, A[:9])
    lock = cache.inc_lock_ref(match_ids(cache, A[:9]).last_node)
    assert (cache.protected_size(), cache.swa_protected_size()) == (9, 6)

    result = cache.evict(EvictParams(64, 64))

    assert result[:2] == (0, 3)
    assert tombstones(cache) == 3
    assert match_len(cache, A[:9]) == 9
    cache.dec_lock_ref(lock)
    assert (cache.protected_size(), cache.swa_protected_size()) == (0, 0)
    cache.check()


def test_a_window_lock_is_released_only_as_far_as_it_was_taken() -> None:
    """The mark in the lock says where it ended (#27038)."""
    cache = make_swa_radix(window=3)
    insert_ids(cache, A[:3])
    insert_ids(cache, A[:6])
    upper = cache.inc_lock_ref(match_ids(cache, A[:3]).last_node)
    lower = cache.inc_lock_ref(match_ids(cache, A[:6]).last_node)
    assert cache.swa_protected_size() == 6

    cache.dec_lock_ref(lower)

    assert cache.swa_protected_size() == 3
    cache.check()
    cache.dec_lock_ref(upper)
    assert cache.swa_protected_size() == 0
    cache.check()


def test_a_window_lock_ends_at_the_upper_part_when_the_node_it_ended_at_is_split() -> None:
    cache = make_swa_radix(window=3)
    insert_ids(cache, A[:2])
    insert_ids(cache, A[:6])
    insert_ids(cache, A[:8])
    lock = cache.inc_lock_ref(match_ids(cache, A[:8]).last_node)
    assert lock.swa_uuid is not None
    insert_ids(cache, [*A[:4], 1])
    assert cache.swa_protected_size() == 6

    cache.dec_lock_ref(lock)

    assert cache.swa_protected_size() == 0
    cache.check()


def test_a_window_that_is_given_up_early_can_be_evicted_under_a_running_request() -> None:
    cache = make_swa_radix(window=4)
    insert_ids(cache, A[:8])
    lock = cache.dec_swa_lock_only(cache.inc_lock_ref(match_ids(cache, A[:8]).last_node))
    assert cache.dec_swa_lock_only(lock) == lock

    assert cache.evict(EvictParams(64, 64))[:2] == (0, 8)
    assert tombstones(cache) == 8

    cache.dec_lock_ref(lock)
    assert cache.owned_slots().tolist() == []
    assert cache.allocator.full_available_size() == 64
    cache.check()


def test_locking_across_a_tombstone_within_the_window_is_refused_and_changes_nothing() -> None:
    cache = make_swa_radix(window=6)
    insert_evicted(cache, A[:10], evicted=7)
    leaf = next(node for node in cache.tree.nodes() if not node.children)

    with pytest.raises(AssertionError, match="tombstone"):
        cache.inc_lock_ref(leaf)
    assert (cache.protected_size(), cache.swa_protected_size()) == (0, 0)
    cache.check()


def test_a_request_whose_window_would_not_match_keeps_its_own_slots() -> None:
    driver = Driver(make_swa_radix(window=6))
    req = make_req(A[:12])
    assert driver.admit(req)
    assert req.kv is not None
    driver.allocator.free_swa_segment(driver.row(req)[:8])
    req.kv.swa_evicted_seqlen = 8

    maybe_cache_unfinished_req(req, driver.cache)

    assert req.kv.cache_protected_len == 0
    assert len(req.prefix_indices) == 12
    assert driver.cache.owned_slots().tolist() == []
    driver.check()


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("is_insert", [True, False])
def test_a_long_decode_leaves_a_matchable_tail_and_both_pools_whole(page_size: int, is_insert: bool) -> None:
    driver = Driver(make_swa_radix(page_size, window=6))
    req = make_req(A[:8])
    assert driver.admit(req)
    maybe_cache_unfinished_req(req, driver.cache)
    for token in range(20):
        assert driver.decode(req, token)
        driver.evict_window(req, 6)
        driver.check()
    ids = req.token_ids
    driver.finish(req, is_insert=is_insert)

    driver.check()
    assert match_len(driver.cache, ids) == (28 if is_insert else 8)


@pytest.mark.parametrize("floor", [0, 8])
def test_a_floor_keeps_the_front_of_a_finished_request_live(floor: int) -> None:
    driver = Driver(make_swa_radix(4, window=6))
    req = make_req(A[:8], skip_radix_cache_insert=True)
    assert driver.admit(req)
    assert req.kv is not None
    req.kv.swa_evict_floor = floor
    for token in range(20):
        assert driver.decode(req, token)
        driver.evict_window(req, 6)
        driver.check()
    driver.finish(req)

    assert match_len(driver.cache, A[:8]) == floor
    driver.check()


@pytest.mark.parametrize("floor", [0, 5])
def test_a_window_only_tree_never_takes_slots_that_are_free(floor: int) -> None:
    """A finished request keeps what lies before its hole (#31486)."""
    driver = Driver(make_pure_swa_radix(window=6))
    req = make_req(A[:5], skip_radix_cache_insert=True)
    assert driver.admit(req)
    assert req.kv is not None
    req.kv.swa_evict_floor = floor
    for token in range(10):
        assert driver.decode(req, token)
        driver.evict_window(req, 6)
    assert req.kv.swa_evicted_seqlen == 9
    driver.check()

    driver.finish(req)

    assert driver.cache.evictable_size() == floor
    driver.check()


def test_the_caches_say_that_they_know_a_window() -> None:
    for cache in (make_swa_radix(), make_pure_swa_radix(), make_swa_chunk()):
        assert isinstance(cache, SupportsSWA)
        assert (cache.swa_evictable_size(), cache.swa_protected_size()) == (0, 0)
    assert isinstance(make_swa_radix(), OwnsSlots)
    assert isinstance(make_swa_radix(), OwnsWindowSlots)


def test_eviction_of_many_nodes_makes_one_free_a_pool() -> None:
    cache = make_swa_radix(4, window=4)
    for first in range(6):
        insert_ids(cache, [first] * 8)
    calls: list[tuple[int, int]] = []
    free_segment = cache.allocator.free_segment

    def spy(slots: torch.Tensor, *, swa_evicted: int = 0) -> None:
        calls.append((len(slots), swa_evicted))
        free_segment(slots, swa_evicted=swa_evicted)

    cache.allocator.free_segment = spy  # type: ignore[method-assign]
    cache.evict(EvictParams(64, 64))

    assert calls == [(48, 0)]
    assert cache.allocator.swa_available_size() == 64


def test_check_finds_a_live_node_without_window_slots() -> None:
    cache = make_swa_radix()
    slots = insert_ids(cache, A[:4])
    cache.allocator.free_swa_segment(slots)

    with pytest.raises(InvariantViolation, match="live and leads"):
        cache.check()


@pytest.mark.parametrize("page_size", [4, 16])
def test_a_tree_page_that_is_not_the_allocators_is_refused(page_size: int) -> None:
    """Nodes are cut at the window's frontier, which lies at the allocator's pages."""
    with pytest.raises(ConfigurationError, match=f"found page_size {page_size} over a SWAAllocator"):
        SWARadixCache(
            make_pool(), SWAAllocator(64, 64, 8, device="cpu"), sliding_window_size=8, page_size=page_size
        )


def test_an_allocator_of_another_kind_is_refused() -> None:
    allocator = DSV4Allocator(DSV4PoolSizes(256, 256, 64, 2, 256, 256), 128, num_rows=3, device="cpu")
    with pytest.raises(ConfigurationError, match="over a DSV4Allocator; leave the page size out"):
        SWARadixCache(make_pool(), allocator, sliding_window_size=128)
