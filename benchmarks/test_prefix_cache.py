"""What matching and evicting cost: with the work of the call, not with the size of the tree.

Run with ``OMP_NUM_THREADS=1 pytest benchmarks/test_prefix_cache.py``. Times are of the call alone; keys and
trees are made in the setup, except where a name says otherwise.
"""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch

from kvcore.allocators.paged import PagedAllocator
from kvcore.allocators.swa import SWAAllocator
from kvcore.allocators.token import TokenAllocator
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.prefix_cache import EvictParams, RadixCache, RadixKey, SWARadixCache
from kvcore.prefix_cache.eviction_policy import POLICIES

if TYPE_CHECKING:
    from collections.abc import Callable

LEAF = 64
POOL = 1 << 21


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def make_cache(policy: str = "lru", page_size: int = 1) -> RadixCache:
    allocator = (
        TokenAllocator(POOL, device="cpu")
        if page_size == 1
        else PagedAllocator(POOL, page_size, device="cpu")
    )
    return RadixCache(ReqToTokenPool(1, 1, device="cpu"), allocator, eviction_policy=policy)


def make_swa_cache() -> SWARadixCache:
    allocator = SWAAllocator(POOL, POOL, 1, device="cpu")
    return SWARadixCache(ReqToTokenPool(1, 1, device="cpu"), allocator, sliding_window_size=1024)


def leaf_key(number: int) -> RadixKey:
    return RadixKey([1_000_000 + number, *range(LEAF - 1)])


def add_leaves(cache: Any, first: int, count: int) -> None:
    for number in range(first, first + count):
        cache.insert(leaf_key(number), cache.allocator.alloc(LEAF))


def distinct_ids(count: int) -> list[int]:
    """Ids that are no cached small integers; equal lists share no object."""
    return [1000 + index * 7 % 130_000 for index in range(count)]


def chain(make: Callable[[], Any], num_nodes: int) -> Any:
    """A cache with one path of 4,096 tokens in ``num_nodes`` nodes."""
    cache = make()
    ids = distinct_ids(4096)
    slots = cache.allocator.alloc(4096)
    step = 4096 // num_nodes
    for end in range(step, 4097, step):
        cache.insert(RadixKey(ids[:end]), slots[:end], **prev_len(cache, end - step))
    return cache


def prev_len(cache: Any, length: int) -> dict[str, int]:
    return {"prev_prefix_len": length} if isinstance(cache, SWARadixCache) else {}


MATCH_GOALS_US = {1: 15, 64: 130}
"""By the nodes that the match runs over."""


@pytest.mark.parametrize("num_nodes", [1, 64])
def test_match_4096_tokens(benchmark: Any, num_nodes: int) -> None:
    benchmark.extra_info["goal_us"] = MATCH_GOALS_US[num_nodes]
    cache = chain(make_cache, num_nodes)
    key = RadixKey(distinct_ids(4096))

    match = benchmark(cache.match_prefix, key)

    assert match.cache_protected_len == 4096


@pytest.mark.parametrize("container", [list, partial(array, "q")], ids=["list", "array"])
@pytest.mark.parametrize("num_nodes", [1, 64])
def test_match_4096_tokens_making_the_key(
    benchmark: Any, num_nodes: int, container: Callable[[list[int]], Any]
) -> None:
    """The goals of a match hold with the key where the ids are held in an array."""
    if container is not list:
        benchmark.extra_info["goal_us"] = MATCH_GOALS_US[num_nodes]
    cache = chain(make_cache, num_nodes)
    ids = container(distinct_ids(4096))

    match = benchmark(lambda: cache.match_prefix(RadixKey(ids)))

    assert match.cache_protected_len == 4096


@pytest.mark.parametrize("num_nodes", [1, 64])
def test_match_4096_tokens_with_a_window(benchmark: Any, num_nodes: int) -> None:
    cache = chain(make_swa_cache, num_nodes)
    key = RadixKey(distinct_ids(4096))

    match = benchmark(cache.match_prefix, key)

    assert match.cache_protected_len == 4096


@pytest.mark.parametrize("num_leaves", [100, 10_000, 30_000])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_evict_one_leaf_of_many(benchmark: Any, policy: str, num_leaves: int) -> None:
    """Goal: 50 us among 10,000, and no more for a larger tree."""
    benchmark.extra_info["goal_us"] = 50
    cache = make_cache(policy)
    add_leaves(cache, 0, num_leaves)
    added = iter(range(num_leaves, 10**9))

    def one_more() -> None:
        add_leaves(cache, next(added), 1)

    benchmark.pedantic(lambda: cache.evict(EvictParams(LEAF)), setup=one_more, rounds=300)

    assert cache.evictable_size() == num_leaves * LEAF


def test_evict_one_leaf_of_many_after_all_were_matched_and_locked(benchmark: Any) -> None:
    """No debt is left for the eviction: a use or a lock pays for itself."""
    benchmark.extra_info["goal_us"] = 50
    cache = make_cache()
    add_leaves(cache, 0, 10_000)
    keys = [leaf_key(number) for number in range(10_000)]
    added = iter(range(10_000, 10**9))

    def use_all() -> None:
        add_leaves(cache, next(added), 1)
        for key in keys:
            match = cache.match_prefix(key)
            cache.dec_lock_ref(cache.inc_lock_ref(match.last_node))
        # After so long without a tensor operation the first one costs 100 us more, wherever it stands.
        cache.allocator.free_segment(cache.allocator.alloc(LEAF))

    benchmark.pedantic(lambda: cache.evict(EvictParams(LEAF)), setup=use_all, rounds=10)

    assert cache.evictable_size() == 10_000 * LEAF


@pytest.mark.parametrize("page_size", [1, 64])
def test_evict_64_leaves_of_1000(benchmark: Any, page_size: int) -> None:
    """The concatenation and the free included."""
    benchmark.extra_info["goal_us"] = 700

    def full_cache() -> tuple[tuple[RadixCache], dict[str, Any]]:
        cache = make_cache(page_size=page_size)
        add_leaves(cache, 0, 1000)
        return (cache,), {}

    result = benchmark.pedantic(
        lambda cache: cache.evict(EvictParams(64 * LEAF)), setup=full_cache, rounds=30
    )

    assert result.num_tokens_evicted == 64 * LEAF


def test_evict_64_leaves_of_1000_from_both_pools(benchmark: Any) -> None:
    def full_cache() -> tuple[tuple[SWARadixCache], dict[str, Any]]:
        cache = make_swa_cache()
        add_leaves(cache, 0, 1000)
        return (cache,), {}

    benchmark.pedantic(
        lambda cache: cache.evict(EvictParams(64 * LEAF, 64 * LEAF)), setup=full_cache, rounds=20
    )


def test_lock_and_unlock_64_nodes(benchmark: Any) -> None:
    cache = chain(make_cache, 64)
    node = cache.match_prefix(RadixKey(distinct_ids(4096))).last_node

    benchmark(lambda: cache.dec_lock_ref(cache.inc_lock_ref(node)))
