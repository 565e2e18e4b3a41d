from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvcore.errors import ConfigurationError, InvariantViolation
from kvcore.prefix_cache import EvictParams, LockRef, OwnsSlots, PrefixCache, RadixCache, RadixKey
from tests.kvcore.prefix_cache.factories import (
    insert_ids,
    make_allocator,
    make_pool,
    make_radix,
    match_ids,
    match_len,
)

page_sizes = st.sampled_from([1, 2, 4])
keys = st.lists(st.integers(0, 1), max_size=14)


def longest_common_page_prefix(
    ids: list[int], known: list[list[int]], page_size: int, *, is_bigram: bool
) -> int:
    """The law, over units: pairs of neighbours for bigram keys."""

    def units(ids: list[int]) -> list[object]:
        return list(itertools.pairwise(ids)) if is_bigram else list(ids)

    best = 0
    for other in known:
        shared = 0
        for mine, theirs in zip(units(ids), units(other), strict=False):
            if mine != theirs:
                break
            shared += 1
        # The tree holds whole pages only, so what is shared is cut by both ends.
        usable = min(
            shared, len(units(other)) // page_size * page_size, len(units(ids)) // page_size * page_size
        )
        best = max(best, usable // page_size * page_size)
    return best


@given(page_sizes, st.booleans(), st.lists(st.tuples(keys, st.sampled_from(["a", None])), max_size=8), keys)
def test_a_match_is_the_longest_common_page_prefix_of_its_namespace(
    page_size: int, is_bigram: bool, inserted: list[tuple[list[int], str | None]], asked: list[int]
) -> None:
    cache = make_radix(page_size, size=128, is_bigram=is_bigram)
    for ids, namespace in inserted:
        insert_ids(cache, ids, extra_key=namespace)
        cache.check()

    for namespace in ("a", None):
        known = [ids for ids, other in inserted if other == namespace]
        expected = longest_common_page_prefix(asked, known, page_size, is_bigram=is_bigram)
        match = match_ids(cache, asked, namespace)
        assert match.device_indices.shape[0] == match.cache_protected_len == expected
        cache.check()


@given(page_sizes, st.lists(keys, min_size=1, max_size=8))
def test_a_match_returns_the_slots_of_whoever_inserted_first(
    page_size: int, inserted: list[list[int]]
) -> None:
    cache = make_radix(page_size, size=128)
    first_slots: dict[tuple[int, ...], int] = {}
    for ids in inserted:
        slots = insert_ids(cache, ids).tolist()
        for index, slot in enumerate(slots):
            page_end = index // page_size * page_size + page_size
            first_slots.setdefault((index, *ids[:page_end]), slot)

    for ids in inserted:
        for index, slot in enumerate(match_ids(cache, ids).device_indices.tolist()):
            page_end = index // page_size * page_size + page_size
            assert slot == first_slots[(index, *ids[:page_end])]


@given(page_sizes, st.lists(keys, max_size=8), st.integers(0, 40))
def test_every_slot_is_free_or_evictable_and_eviction_gives_back_what_it_says(
    page_size: int, inserted: list[list[int]], asked: int
) -> None:
    cache = make_radix(page_size, size=128)
    for ids in inserted:
        insert_ids(cache, ids)
    before = cache.allocator.available_size()
    assert before + cache.evictable_size() == 128

    result = cache.evict(EvictParams(asked))

    assert cache.allocator.available_size() == before + result.num_tokens_evicted
    assert result.num_tokens_evicted >= min(asked, 128 - before)
    assert cache.allocator.available_size() + cache.evictable_size() == 128
    cache.check()


def test_a_locked_node_protects_its_ancestors_and_nothing_else() -> None:
    cache = make_radix()
    insert_ids(cache, [1, 2, 3, 4])
    insert_ids(cache, [1, 2, 5, 6])
    insert_ids(cache, [7, 8])
    node = match_ids(cache, [1, 2, 3, 4]).last_node
    lock = cache.inc_lock_ref(node)
    assert (cache.protected_size(), cache.evictable_size()) == (4, 4)

    result = cache.evict(EvictParams(64))

    assert result.num_tokens_evicted == 4
    assert match_len(cache, [1, 2, 3, 4]) == 4
    assert match_len(cache, [7, 8]) == 0
    cache.check()

    cache.dec_lock_ref(lock)
    assert (cache.protected_size(), cache.evictable_size()) == (0, 4)
    assert cache.evict(EvictParams(64)).num_tokens_evicted == 4
    cache.check()


def test_a_lock_covers_both_parts_when_its_node_is_split() -> None:
    cache = make_radix()
    insert_ids(cache, [1, 2, 3, 4])
    lock = cache.inc_lock_ref(match_ids(cache, [1, 2, 3, 4]).last_node)
    insert_ids(cache, [1, 2, 9])
    assert (cache.protected_size(), cache.evictable_size()) == (4, 1)
    cache.check()

    cache.dec_lock_ref(lock)

    assert (cache.protected_size(), cache.evictable_size()) == (0, 5)
    cache.check()


def test_unlocking_what_is_not_locked_is_refused_and_changes_nothing() -> None:
    cache = make_radix()
    insert_ids(cache, [1, 2])
    node = match_ids(cache, [1, 2]).last_node

    with pytest.raises(AssertionError, match="not locked"):
        cache.dec_lock_ref(LockRef(node))
    assert cache.evictable_size() == 2
    cache.check()


def test_locking_a_node_that_was_evicted_is_refused() -> None:
    cache = make_radix()
    insert_ids(cache, [1, 2])
    node = match_ids(cache, [1, 2]).last_node
    cache.evict(EvictParams(2))

    with pytest.raises(AssertionError, match="not in the tree any more"):
        cache.inc_lock_ref(node)
    assert cache.protected_size() == 0
    cache.check()


@pytest.mark.parametrize("undo", [False, True])
def test_a_path_whose_upper_part_was_evicted_is_named_with_its_counts(undo: bool) -> None:
    cache = make_radix()
    cache.insert(RadixKey([1, 2]), torch.tensor([1, 2]))
    node = cache.insert(RadixKey([1, 2, 3]), torch.tensor([1, 2, 3])).last_node
    lock = cache.inc_lock_ref(node)
    upper = node.parent
    upper.parent = None

    with pytest.raises(AssertionError, match="was evicted") as caught:
        cache.dec_lock_ref(lock) if undo else cache.inc_lock_ref(node)

    assert repr(upper) in str(caught.value)
    assert repr(node) in str(caught.value)
    assert f"lock={upper.lock_ref}," in str(caught.value)


def test_splits_leave_every_node_reachable_for_eviction() -> None:
    """After a split the lower part is known to its new parent by its own first page (#36696)."""
    cache = make_radix(2)
    insert_ids(cache, [1, 2, 3, 4, 5, 6])
    insert_ids(cache, [1, 2, 3, 4, 7, 8])
    insert_ids(cache, [1, 2, 9, 9])

    assert match_len(cache, [1, 2, 3, 4, 5, 6]) == 6
    assert cache.evict(EvictParams(64)).num_tokens_evicted == 10
    assert cache.evictable_size() == 0
    assert cache.allocator.available_size() == 64


def test_a_key_shorter_than_a_page_keeps_nothing() -> None:
    """Sizes count whole pages of the key, whatever the length of the value (#10637)."""
    cache = make_radix(4)
    slots = cache.allocator.alloc(4)
    assert slots is not None

    result = cache.insert(RadixKey([1, 2, 3]), slots[:3])

    assert (result.prefix_len, cache.evictable_size(), len(cache.owned_slots())) == (0, 0, 0)
    cache.check()


def test_a_value_is_cut_to_the_whole_pages_of_its_key() -> None:
    cache = make_radix(4)
    slots = cache.allocator.alloc(8)
    assert slots is not None

    cache.insert(RadixKey([1, 2, 3, 4, 5, 6]), slots[:6])

    assert cache.owned_slots().tolist() == slots[:4].tolist()
    assert cache.evictable_size() == 4
    cache.check()


@pytest.mark.parametrize("policy", ["lfu", "slru"])
def test_a_prefix_that_was_inserted_three_times_outlives_a_newer_one_that_came_once(policy: str) -> None:
    """Hits are insertions (#18843)."""
    cache = make_radix(eviction_policy=policy)
    for _ in range(3):
        insert_ids(cache, [1, 2])
    insert_ids(cache, [3, 4])

    cache.evict(EvictParams(2))

    assert match_len(cache, [1, 2]) == 2
    assert match_len(cache, [3, 4]) == 0


def test_matching_counts_no_hit_and_neither_does_a_chunk() -> None:
    cache = make_radix(eviction_policy="lfu")
    insert_ids(cache, [1, 2])
    for _ in range(3):
        match_ids(cache, [1, 2])
        insert_ids(cache, [1, 2], chunked=True)
    insert_ids(cache, [3, 4])
    insert_ids(cache, [3, 4])

    cache.evict(EvictParams(2))

    assert match_len(cache, [1, 2]) == 0


def test_a_path_takes_on_the_highest_priority_that_passes() -> None:
    cache = make_radix(eviction_policy="priority")
    insert_ids(cache, [1, 2], priority=1)
    insert_ids(cache, [5, 6], priority=2)
    insert_ids(cache, [1, 2, 3], priority=3)

    cache.evict(EvictParams(2))

    assert match_len(cache, [5, 6]) == 0
    assert match_len(cache, [1, 2, 3]) == 3


def test_eviction_of_many_leaves_makes_one_free() -> None:
    cache = make_radix(4)
    for first in range(8):
        insert_ids(cache, [first] * 8)
    calls: list[torch.Tensor] = []
    free_segment = cache.allocator.free_segment

    def spy(slots: torch.Tensor) -> None:
        calls.append(slots)
        free_segment(slots)

    cache.allocator.free_segment = spy  # type: ignore[method-assign]

    assert cache.evict(EvictParams(64)).num_tokens_evicted == 64
    assert [len(slots) for slots in calls] == [64]


def test_reset_forgets_the_tree_and_frees_nothing() -> None:
    cache = make_radix()
    insert_ids(cache, [1, 2, 3])
    cache.reset()

    assert match_len(cache, [1, 2, 3]) == 0
    assert (cache.evictable_size(), cache.protected_size()) == (0, 0)
    assert cache.allocator.available_size() == 61
    cache.check()


def test_the_disabled_cache_matches_nothing() -> None:
    cache = make_radix(disable=True)
    insert_ids(cache, [1, 2, 3])

    assert match_len(cache, [1, 2, 3]) == 0
    assert match_ids(cache, [1, 2, 3]).last_node is cache.tree.root


def test_the_tree_may_share_coarser_pages_than_its_allocator_but_no_finer_ones() -> None:
    coarse = RadixCache(make_pool(), make_allocator(2), page_size=4)
    insert_ids(coarse, [1, 2, 3, 4, 5, 6])
    assert match_len(coarse, [1, 2, 3, 4, 5, 6]) == 4

    with pytest.raises(ConfigurationError, match=r"page_size 3 over an allocator with page_size 2"):
        RadixCache(make_pool(), make_allocator(2), page_size=3)


def test_the_cache_has_the_capabilities_that_the_invariant_checker_asks_for() -> None:
    cache = make_radix()

    assert isinstance(cache, PrefixCache)
    assert isinstance(cache, OwnsSlots)


def test_pretty_print_shows_every_node_below_its_parent() -> None:
    cache = make_radix()
    insert_ids(cache, [1, 2, 3])
    insert_ids(cache, [1, 2, 9])
    lines = cache.pretty_print().splitlines()

    assert lines[0] == "RadixCache: page_size=1, evictable=4, protected=0 (tokens)"
    assert "ids=[1, 2]" in lines[1]
    assert sorted(line.split("ids=")[1][:3] for line in lines[2:]) == ["[3]", "[9]"]
    assert all(line.startswith("    ") for line in lines[2:])


@pytest.mark.parametrize(
    ("field", "law"), [("evictable", "evictable is counted"), ("protected", "protected is counted")]
)
def test_check_finds_a_wrong_count(field: str, law: str) -> None:
    cache = make_radix()
    insert_ids(cache, [1, 2, 3])
    setattr(cache.tree, field, 1)

    with pytest.raises(InvariantViolation, match=law):
        cache.check()


def test_check_finds_a_slot_that_two_nodes_hold() -> None:
    cache = make_radix()
    insert_ids(cache, [1, 2])
    insert_ids(cache, [3, 4])
    node = match_ids(cache, [3, 4]).last_node
    node.value = match_ids(cache, [1, 2]).device_indices

    with pytest.raises(InvariantViolation, match="twice"):
        cache.check()


@pytest.mark.parametrize("slot", [-1, 65, 1 << 40])
def test_check_finds_slots_that_the_pool_does_not_have(slot: int) -> None:
    cache = make_radix(size=64)
    insert_ids(cache, [1, 2])
    cache.check()
    match_ids(cache, [1, 2]).last_node.value[1] = slot

    with pytest.raises(InvariantViolation, match=f"{slot}.*, the pool has 65"):
        cache.check()


def test_check_finds_slots_that_are_no_pages() -> None:
    cache = make_radix(2)
    insert_ids(cache, [1, 2])
    match_ids(cache, [1, 2]).last_node.value = torch.tensor([2, 5])

    with pytest.raises(InvariantViolation, match="no whole pages"):
        cache.check()


def test_a_key_with_too_few_slots_is_refused_and_nothing_is_kept() -> None:
    cache = make_radix()
    with pytest.raises(AssertionError, match="6 tokens are inserted with 3 slots"):
        cache.insert(RadixKey([1, 2, 3, 4, 5, 6]), torch.arange(1, 4))
    assert cache.evictable_size() == 0
    assert match_len(cache, [1, 2, 3, 4, 5, 6]) == 0
