"""What a cache does with a request's row, chunk by chunk and at its end; the partition of pages holds throughout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from kvcore.pools.track_buffer import TrackPolicy
from kvcore.prefix_cache import PrefixCache, maybe_cache_unfinished_req
from tests.kvcore.prefix_cache.factories import (
    Driver,
    insert_ids,
    make_chunk,
    make_mamba_radix,
    make_pure_swa_radix,
    make_radix,
    make_req,
    make_swa_chunk,
    make_swa_radix,
    match_ids,
    match_len,
)

if TYPE_CHECKING:
    from collections.abc import Callable

A = list(range(100, 140))

CACHES: list[tuple[str, Callable[[], Any]]] = [
    ("chunk", make_chunk),
    ("chunk, page 4", lambda: make_chunk(4)),
    ("swa chunk", make_swa_chunk),
    ("swa chunk, page 4", lambda: make_swa_chunk(4)),
    ("radix", make_radix),
    ("radix, page 4", lambda: make_radix(4)),
    ("radix, bigram", lambda: make_radix(is_bigram=True)),
    ("radix, bigram, page 4", lambda: make_radix(4, is_bigram=True)),
    ("radix, coarse pages", lambda: make_radix(2, tree_page_size=4)),
    ("radix, disabled", lambda: make_radix(disable=True)),
    ("radix, disabled, page 4", lambda: make_radix(4, disable=True)),
    ("swa radix", make_swa_radix),
    ("swa radix, page 4", lambda: make_swa_radix(4)),
    ("swa radix, bigram, page 4", lambda: make_swa_radix(4, is_bigram=True)),
    ("pure swa radix", make_pure_swa_radix),
    ("pure swa radix, bigram", lambda: make_pure_swa_radix(is_bigram=True)),
    ("mamba radix", make_mamba_radix),
    (
        "mamba radix, one track slot",
        lambda: make_mamba_radix(num_states=10, track=TrackPolicy(1, interval=3)),
    ),
    (
        "mamba radix, lazy track buffers",
        lambda: make_mamba_radix(num_states=10, track=TrackPolicy(2, lazy=True, interval=4)),
    ),
    (
        "mamba radix, track buffers, page 2",
        lambda: make_mamba_radix(2, num_states=14, track=TrackPolicy(2, interval=4)),
    ),
]
every_cache = pytest.mark.parametrize("make", [make for _, make in CACHES], ids=[name for name, _ in CACHES])
SHARING = [(name, make) for name, make in CACHES if "radix" in name and "disabled" not in name]
every_tree = pytest.mark.parametrize("make", [make for _, make in SHARING], ids=[name for name, _ in SHARING])


def admitted(driver: Driver, ids: list[int], fill_len: int | None = None, **kwargs: Any) -> Any:
    req = make_req(ids, **kwargs)
    assert driver.admit(req, fill_len)
    return req


@every_cache
def test_every_cache_is_a_prefix_cache(make: Callable[[], Any]) -> None:
    assert isinstance(make(), PrefixCache)


@every_cache
@pytest.mark.parametrize("skip", [False, True], ids=["inserting", "insertion skipped"])
def test_the_next_chunk_starts_where_the_last_one_ended(make: Callable[[], Any], skip: bool) -> None:
    """Also when a request opted out of insertion; else the slots of its first chunk are lost (#33996)."""
    driver = Driver(make())
    req = admitted(driver, A[:19], 7, skip_radix_cache_insert=skip)
    for end in (13, 19):
        maybe_cache_unfinished_req(req, driver.cache, chunked=True)

        assert len(req.prefix_indices) == len(req.fill_ids)
        assert req.prefix_indices.tolist() == driver.row(req)[: len(req.fill_ids)].tolist()
        assert req.prefix_indices.dtype == torch.int64
        assert driver.next_chunk(req, end)
        driver.check()

    driver.finish(req, is_insert=not skip)
    driver.check()


@every_cache
def test_the_prefix_of_the_next_chunk_is_no_view_of_the_row(make: Callable[[], Any]) -> None:
    driver = Driver(make())
    req = admitted(driver, A[:8], 8)
    maybe_cache_unfinished_req(req, driver.cache)
    before = req.prefix_indices.tolist()

    driver.row(req)[:8] = 0

    assert req.prefix_indices.tolist() == before


@every_cache
@pytest.mark.parametrize("is_insert", [True, False])
@pytest.mark.parametrize("length", [1, 3, 4, 5, 12])
def test_a_finished_request_leaves_every_page_with_one_owner(
    make: Callable[[], Any], is_insert: bool, length: int
) -> None:
    driver = Driver(make())
    req = admitted(driver, A[:length])
    for token in range(3):
        assert driver.decode(req, token)

    driver.finish(req, is_insert=is_insert)

    driver.check()
    assert driver.cache.protected_size() == 0
    if not is_insert:
        assert driver.allocator.available_size() == 64


@every_cache
@pytest.mark.parametrize("is_insert", [True, False])
@pytest.mark.parametrize("length", [4, 7, 8])
def test_a_token_whose_id_has_not_come_yet_is_freed_as_well(
    make: Callable[[], Any], is_insert: bool, length: int
) -> None:
    """Under overlap one more token has KV than there are ids (#35204)."""
    driver = Driver(make())
    req = admitted(driver, A[:length])
    assert driver.decode(req, 1)
    req.output_ids.clear()

    driver.finish(req, is_insert=is_insert)

    driver.check()


@every_tree
def test_two_requests_that_computed_the_same_share_what_the_first_inserted(make: Callable[[], Any]) -> None:
    driver = Driver(make())
    first = admitted(driver, A[:12])
    second = admitted(driver, A[:12], rid="second")
    maybe_cache_unfinished_req(first, driver.cache)
    driver.check()
    maybe_cache_unfinished_req(second, driver.cache)

    shared = second.kv.cache_protected_len
    assert shared == first.kv.cache_protected_len > 0
    assert driver.row(second)[:shared].tolist() == driver.row(first)[:shared].tolist()
    driver.check()

    for req in (first, second):
        driver.decode(req, 1)
        driver.finish(req)
        driver.check()
    assert driver.cache.protected_size() == 0


@pytest.mark.parametrize(("page_size", "chunk"), [(1, 5), (4, 8)])
def test_duplicates_begin_where_the_trees_part_ends_and_not_at_the_prefix(page_size: int, chunk: int) -> None:
    """The last token of a bigram key belongs to the request although its prefix covers it."""
    driver = Driver(make_radix(page_size, is_bigram=True))
    slow = admitted(driver, A[:20], chunk)
    maybe_cache_unfinished_req(slow, driver.cache, chunked=True)
    assert slow.kv.cache_protected_len < len(slow.prefix_indices)
    fast = admitted(driver, A[:20], rid="fast")
    driver.finish(fast)
    driver.check()

    assert driver.next_chunk(slow, 16)
    maybe_cache_unfinished_req(slow, driver.cache, chunked=True)

    driver.check()


@every_tree
def test_what_a_running_request_has_inserted_is_not_evicted(make: Callable[[], Any]) -> None:
    driver = Driver(make())
    req = admitted(driver, A[:12])
    maybe_cache_unfinished_req(req, driver.cache)
    protected = driver.cache.protected_size()
    assert protected == req.kv.cache_protected_len

    other = admitted(driver, list(range(40)), rid="other")

    assert driver.cache.protected_size() == protected
    driver.finish(other)
    driver.finish(req)
    driver.check()


@every_tree
def test_an_admission_that_fails_leaves_no_lock(make: Callable[[], Any]) -> None:
    driver = Driver(make())
    insert_ids(driver.cache, A[:12])

    assert not driver.admit(make_req(A[:12] + list(range(100))))

    assert driver.cache.protected_size() == 0
    assert driver.live == []
    driver.check()


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("make", [make_chunk, lambda page: make_radix(page, disable=True), make_swa_chunk])
def test_what_somebody_else_owns_at_the_front_of_a_row_is_not_freed(
    make: Callable[[int], Any], page_size: int
) -> None:
    """Where nothing is shared a request may still have received a prefix that it does not own (#31662)."""
    driver = Driver(make(page_size))
    owner = admitted(driver, A[:8], rid="owner")
    borrower = make_req(A[:12])
    borrower.prefix_indices = driver.row(owner)[:8].to(torch.int64)
    assert driver.admit(borrower)
    assert not driver.cache.match_prefix(driver.cache.request_key(borrower, A)).device_indices.tolist()
    driver.allocator.free_segment(driver.row(borrower)[:8])
    driver.row(borrower)[:8] = driver.row(owner)[:8]
    assert borrower.kv is not None
    borrower.kv.cache_protected_len = 8
    before = driver.allocator.available_size()

    driver.finish(borrower, is_insert=False)

    assert driver.allocator.available_size() == before + 4
    driver.check()


@every_tree
def test_requests_of_other_namespaces_do_not_share(make: Callable[[], Any]) -> None:
    driver = Driver(make())
    driver.finish(admitted(driver, A[:12], extra_key="a"))

    assert match_len(driver.cache, A[:12], "a") > 0
    assert match_len(driver.cache, A[:12], "b") == 0
    assert match_len(driver.cache, A[:12]) == 0


@every_tree
def test_stripping_the_output_below_the_protected_part_frees_nothing_of_the_tree(
    make: Callable[[], Any],
) -> None:
    driver = Driver(make())
    req = make_req(A[:5], output_ids=A[5:16])
    assert driver.admit(req)
    maybe_cache_unfinished_req(req, driver.cache)
    assert req.kv is not None
    protected = req.kv.cache_protected_len

    driver.cache.cache_finished_req(req, kv_len=5)

    assert driver.cache.protected_size() == 0
    assert driver.cache.evictable_size() == protected
    driver.allocator.free_segment(driver.row(req)[protected : req.kv.kv_allocated_len])
    driver.live.remove(req)
    driver.check()


def test_a_priority_and_a_chunk_reach_the_tree_with_the_request() -> None:
    driver = Driver(make_radix(eviction_policy="priority"))
    req = admitted(driver, A[:8], 4, priority=7)
    maybe_cache_unfinished_req(req, driver.cache, chunked=True)
    node = match_ids(driver.cache, A[:4]).last_node

    assert (node.priority, node.hit_count) == (7, 0)

    driver.finish(req)
    assert node.hit_count == 1
