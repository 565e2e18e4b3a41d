from __future__ import annotations

import pytest

from kvcore.errors import ConfigurationError, InvariantViolation
from kvcore.pools.track_buffer import TrackPolicy
from kvcore.prefix_cache import (
    EvictParams,
    MambaRadixCache,
    OwnsSlots,
    OwnsStates,
    RadixKey,
    SupportsMamba,
    maybe_cache_unfinished_req,
)
from tests.kvcore.prefix_cache.factories import (
    Driver,
    insert_ids,
    make_allocator,
    make_mamba_radix,
    make_pool,
    make_req,
    match_ids,
    match_len,
    states_of,
)

TRACKS = [None, TrackPolicy(2, interval=4), TrackPolicy(1, interval=4), TrackPolicy(2, lazy=True, interval=4)]


def state_of(cache: MambaRadixCache, ids: list[int]) -> tuple[int, ...] | None:
    """The state that a request for ``ids`` would start from."""
    slot = match_ids(cache, ids).mamba_state_slot
    return None if slot is None else states_of(cache)[slot]


def test_a_match_ends_at_the_deepest_state_not_at_the_last_cached_token() -> None:
    cache = make_mamba_radix()
    insert_ids(cache, [1, 2])
    insert_ids(cache, [1, 2, 3, 4, 5])

    match = match_ids(cache, [1, 2, 3, 4, 9])

    assert match.device_indices.shape[0] == match.cache_protected_len == 2
    assert state_of(cache, [1, 2, 3, 4, 9]) == (1, 2)
    assert match.mamba_branching_seqlen == 4
    assert match_ids(cache, [1, 2, 3, 4, 5]).mamba_branching_seqlen is None
    cache.check()


def test_a_branching_point_is_a_length_at_which_states_are_tracked() -> None:
    cache = make_mamba_radix(2, track=TrackPolicy(2, interval=4))
    insert_ids(cache, [1, 2, 3, 4, 5, 6, 7, 8])

    assert match_ids(cache, [1, 2, 3, 4, 5, 6, 9]).mamba_branching_seqlen == 4
    assert match_ids(cache, [1, 2, 9]).mamba_branching_seqlen is None


def test_a_match_that_branches_off_splits_no_node() -> None:
    cache = make_mamba_radix()
    insert_ids(cache, [1, 2, 3, 4])
    match_ids(cache, [1, 2, 9])

    assert len(list(cache.tree.nodes())) == 1


def test_the_upper_part_of_a_split_has_no_state() -> None:
    cache = make_mamba_radix()
    insert_ids(cache, [1, 2, 3, 4])
    insert_ids(cache, [1, 2, 7, 8])

    assert match_len(cache, [1, 2, 9]) == 0
    assert state_of(cache, [1, 2, 3, 4]) == (1, 2, 3, 4)
    assert state_of(cache, [1, 2, 7, 8]) == (1, 2, 7, 8)
    cache.check()


def test_a_state_that_is_there_already_is_left_to_the_inserter() -> None:
    cache = make_mamba_radix()
    insert_ids(cache, [1, 2])
    fresh = cache.state_slots.alloc(1)
    slots = cache.allocator.alloc(2)
    assert fresh is not None
    assert slots is not None

    result = cache.insert(RadixKey([1, 2]), slots, mamba_slot=fresh[0])

    assert (result.prefix_len, result.mamba_exist) == (2, True)
    assert fresh[0] not in cache.owned_states()
    cache.check()


def test_a_tombstone_takes_a_state_again() -> None:
    cache = make_mamba_radix()
    insert_ids(cache, [1, 2])
    insert_ids(cache, [1, 2, 3, 4])
    cache.evict(EvictParams(mamba_num=1))
    assert match_len(cache, [1, 2]) == 0

    insert_ids(cache, [1, 2])

    assert state_of(cache, [1, 2]) == (1, 2)
    cache.check()


def test_the_state_lock_covers_one_node_and_the_slot_lock_its_path() -> None:
    cache = make_mamba_radix()
    insert_ids(cache, [1, 2])
    insert_ids(cache, [1, 2, 3, 4])
    lock = cache.inc_lock_ref(match_ids(cache, [1, 2, 3, 4]).last_node)
    assert (cache.protected_size(), cache.evictable_size()) == (4, 0)
    assert (cache.mamba_protected_size(), cache.mamba_evictable_size()) == (1, 1)

    result = cache.evict(EvictParams(num_tokens=64, mamba_num=8))

    assert (result.num_tokens_evicted, result.mamba_num_evicted) == (0, 1)
    assert state_of(cache, [1, 2]) is None
    assert state_of(cache, [1, 2, 3, 4]) == (1, 2, 3, 4)

    cache.dec_lock_ref(lock)
    assert (cache.mamba_protected_size(), cache.mamba_evictable_size()) == (0, 1)
    cache.check()


def test_states_only_passed_on_the_way_grow_old() -> None:
    """A match refreshes the state that it ends at, no other on its path (#31643)."""
    cache = make_mamba_radix()
    insert_ids(cache, [1, 2])
    insert_ids(cache, [8, 9])
    insert_ids(cache, [1, 2, 3, 4])
    match_ids(cache, [8, 9])
    match_ids(cache, [1, 2, 3, 4])

    cache.evict(EvictParams(mamba_num=1))

    assert state_of(cache, [1, 2]) is None
    assert state_of(cache, [8, 9]) == (8, 9)
    assert state_of(cache, [1, 2, 3, 4]) == (1, 2, 3, 4)
    cache.check()


def test_evicting_the_state_of_a_leaf_takes_its_slots_and_hollow_ancestors_along() -> None:
    cache = make_mamba_radix()
    insert_ids(cache, [1, 2])
    insert_ids(cache, [1, 2, 3, 4])
    cache.evict(EvictParams(mamba_num=1))
    assert (cache.evictable_size(), cache.mamba_evictable_size()) == (4, 1)

    result = cache.evict(EvictParams(mamba_num=1))

    assert (result.num_tokens_evicted, result.mamba_num_evicted) == (4, 1)
    assert cache.allocator.available_size() == 64
    assert cache.state_slots.available_size() == 8
    cache.check()


def test_evicting_slots_gives_back_the_states_of_the_leaves() -> None:
    cache = make_mamba_radix()
    insert_ids(cache, [1, 2])
    insert_ids(cache, [3, 4])

    result = cache.evict(EvictParams(num_tokens=1))

    assert (result.num_tokens_evicted, result.mamba_num_evicted) == (2, 1)
    assert cache.state_slots.available_size() == 7
    cache.check()


def test_a_running_request_gives_the_tree_a_copy_of_its_state() -> None:
    driver = Driver(make_mamba_radix())
    req = make_req([1, 2, 3, 4])
    assert driver.admit(req, 2)
    maybe_cache_unfinished_req(req, driver.cache, chunked=True)

    assert req.mamba_pool_idx not in driver.cache.owned_states()
    assert state_of(driver.cache, [1, 2]) == (1, 2)
    driver.check()


def test_a_second_request_with_the_same_chunk_needs_no_state_slot() -> None:
    driver = Driver(make_mamba_radix(num_states=3))
    for rid in ("first", "second"):
        assert driver.admit(make_req([1, 2, 3, 4], rid), 2)
    first, second = driver.live
    maybe_cache_unfinished_req(first, driver.cache, chunked=True)
    assert driver.cache.state_slots.available_size() == 0

    maybe_cache_unfinished_req(second, driver.cache, chunked=True)

    assert second.kv is not None
    assert second.kv.cache_protected_len == 2
    driver.check()


def test_without_a_state_slot_to_spare_a_request_goes_on_with_its_own_slots() -> None:
    driver = Driver(make_mamba_radix(num_states=1))
    req = make_req([1, 2, 3, 4])
    assert driver.admit(req, 2)
    before = driver.row(req)[:2].tolist()

    maybe_cache_unfinished_req(req, driver.cache, chunked=True)

    assert req.kv is not None
    assert req.kv.cache_protected_len == 0
    assert req.prefix_indices.tolist() == before
    assert driver.cache.evictable_size() == driver.cache.protected_size() == 0
    driver.check()


def test_a_tracking_request_donates_its_last_snapshot() -> None:
    driver = Driver(make_mamba_radix(2, track=TrackPolicy(2, interval=4)))
    req = make_req(list(range(11)))
    assert driver.admit(req, 7)
    assert req.mamba_ping_pong_track_buffer is not None
    snapshot = req.mamba_ping_pong_track_buffer[driver.cache.state_rows.keep_idx(req)]

    maybe_cache_unfinished_req(req, driver.cache, chunked=True)

    assert driver.cache.owned_states() == [snapshot]
    assert snapshot not in req.mamba_ping_pong_track_buffer
    assert req.kv is not None
    assert (req.kv.cache_protected_len, len(req.prefix_indices)) == (4, 7)
    driver.check()


@pytest.mark.parametrize("track", TRACKS)
def test_a_finished_request_leaves_its_state_and_nothing_else(track: TrackPolicy | None) -> None:
    driver = Driver(make_mamba_radix(track=track))
    req = make_req(list(range(6)))
    assert driver.admit(req)
    driver.finish(req)

    kept = 6 if track is None else 4
    assert driver.cache.evictable_size() == kept
    assert state_of(driver.cache, list(range(6))) == tuple(range(kept))
    assert driver.cache.state_slots.available_size() == 7
    driver.check()


@pytest.mark.parametrize("track", TRACKS)
def test_a_finished_state_that_the_tree_has_already_is_freed(track: TrackPolicy | None) -> None:
    driver = Driver(make_mamba_radix(track=track))
    for rid in ("first", "second"):
        assert driver.admit(make_req(list(range(4)), rid))
    for req in list(driver.live):
        driver.finish(req)
        driver.check()

    assert driver.cache.evictable_size() == 4
    assert driver.cache.state_slots.available_size() == 7


def test_a_state_beyond_the_known_tokens_is_not_kept_for_them() -> None:
    """A state cannot go back a token: under overlap it may stand after one that has no id yet."""
    driver = Driver(make_mamba_radix())
    req = make_req([1, 2, 3])
    assert driver.admit(req)
    assert driver.decode(req, 4)
    req.output_ids.clear()

    driver.finish(req)

    assert driver.cache.owned_states() == []
    assert driver.allocator.available_size() == 64
    driver.check()


@pytest.mark.parametrize(("page_size", "track_interval"), [(2, None), (4, 6)])
def test_states_that_would_not_stand_at_page_boundaries_are_refused(
    page_size: int, track_interval: int | None
) -> None:
    with pytest.raises(
        ConfigurationError, match=f"page_size {page_size} and track_interval {track_interval}"
    ):
        make_mamba_radix(
            page_size, track=None if track_interval is None else TrackPolicy(2, interval=track_interval)
        )


def test_a_pool_without_states_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="found ReqToTokenPool; use a hybrid pool"):
        MambaRadixCache(make_pool(), make_allocator())


def test_a_state_for_a_part_of_a_page_is_refused() -> None:
    cache = make_mamba_radix(2, track=TrackPolicy(2, interval=4))
    slots = cache.allocator.alloc(4)
    assert slots is not None

    with pytest.raises(AssertionError, match="a state after 3 tokens"):
        cache.insert(RadixKey([1, 2, 3]), slots, mamba_slot=1)
    assert cache.owned_states() == []
    cache.check()


def test_the_cache_has_the_capabilities_of_a_tree_of_states() -> None:
    cache = make_mamba_radix()

    assert isinstance(cache, SupportsMamba)
    assert isinstance(cache, OwnsSlots)
    assert isinstance(cache, OwnsStates)


def test_check_finds_a_state_that_two_nodes_hold() -> None:
    cache = make_mamba_radix()
    insert_ids(cache, [1, 2])
    insert_ids(cache, [3, 4])
    match_ids(cache, [3, 4]).last_node.mamba_slot = match_ids(cache, [1, 2]).mamba_state_slot

    with pytest.raises(InvariantViolation, match="state slot is in the tree twice"):
        cache.check()
