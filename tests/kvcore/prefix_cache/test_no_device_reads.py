"""The caches keep their books on the host: whatever they do, they never wait for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from kvcore.allocators.paged import PagedAllocator
from kvcore.allocators.pure_swa import PureSWAAllocator
from kvcore.allocators.swa import SWAAllocator
from kvcore.allocators.token import TokenAllocator
from kvcore.pools.hybrid import HybridReqToTokenPool
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.pools.track_buffer import TrackPolicy
from kvcore.prefix_cache import (
    ChunkCache,
    EvictParams,
    MambaRadixCache,
    PureSWARadixCache,
    RadixCache,
    SWAChunkCache,
    SWARadixCache,
    maybe_cache_unfinished_req,
)
from kvcore.req import Req, ReqKvInfo
from tests.kvcore.unreadable_device import UNREADABLE, no_device_reads

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 256


def rows(device: torch.device) -> ReqToTokenPool:
    return ReqToTokenPool(8, 128, device=device)


def hybrid_rows(device: torch.device, track: TrackPolicy | None = None) -> HybridReqToTokenPool:
    return HybridReqToTokenPool(8, 128, num_states=16, device=device, track=track)


def token(device: torch.device) -> TokenAllocator:
    return TokenAllocator(SIZE, device=device)


def paged(device: torch.device) -> PagedAllocator:
    return PagedAllocator(SIZE, 4, device=device)


def swa(device: torch.device, page_size: int) -> SWAAllocator:
    return SWAAllocator(SIZE, SIZE, page_size, device=device)


CACHES: dict[str, Callable[[torch.device], Any]] = {
    "chunk": lambda on: ChunkCache(rows(on), token(on)),
    "chunk, page 4": lambda on: ChunkCache(rows(on), paged(on)),
    "swa chunk, page 4": lambda on: SWAChunkCache(rows(on), swa(on, 4), sliding_window_size=8),
    "radix": lambda on: RadixCache(rows(on), token(on)),
    "radix, page 4": lambda on: RadixCache(rows(on), paged(on)),
    "radix, disabled": lambda on: RadixCache(rows(on), paged(on), disable=True),
    "swa radix": lambda on: SWARadixCache(rows(on), swa(on, 1), sliding_window_size=8),
    "swa radix, page 4": lambda on: SWARadixCache(rows(on), swa(on, 4), sliding_window_size=8),
    "pure swa radix": lambda on: PureSWARadixCache(
        rows(on), PureSWAAllocator(SIZE, device=on), sliding_window_size=8
    ),
    "mamba radix": lambda on: MambaRadixCache(hybrid_rows(on), token(on)),
    "mamba radix, track buffers": lambda on: MambaRadixCache(
        hybrid_rows(on, TrackPolicy(2, interval=8)), paged(on), track_interval=8
    ),
}


def admit(cache: Any, req: Req, length: int) -> None:
    """Match, lock, and fill the row up to ``length`` tokens (whole pages)."""
    req.fill_ids = req.token_ids[:length]
    match = cache.match_prefix(cache.request_key(req, req.fill_ids[:-1]))
    req.prefix_indices = match.device_indices
    req.last_lock = cache.inc_lock_ref(match.last_node)
    (row,) = cache.req_to_token_pool.alloc([req])
    req.kv = ReqKvInfo(row, cache_protected_len=match.cache_protected_len)
    fill(cache, req, match.cache_protected_len, length)


def fill(cache: Any, req: Req, start: int, end: int) -> None:
    assert req.kv is not None
    row = cache.req_to_token_pool.req_to_token[req.kv.req_pool_idx]
    row[:start] = req.prefix_indices[:start]
    row[start:end] = cache.allocator.alloc(end - start)
    req.kv.kv_committed_len = req.kv.kv_allocated_len = end
    req.mamba_last_track_seqlen = end


def live(cache: Any, *, is_insert: bool, gives_back_its_window: bool) -> None:
    """Two requests that share a prefix, from admission to eviction."""
    ids = list(range(64))
    first, second = Req("first", ids), Req("second", [*ids[:24], *range(100, 140)])
    for req in (first, second):
        admit(cache, req, 16)
    for req in (first, second):
        maybe_cache_unfinished_req(req, cache, chunked=True)
        fill(cache, req, 16, 32)
        req.fill_ids = req.token_ids[:32]
        maybe_cache_unfinished_req(req, cache)
        fill(cache, req, 32, 64)
    for req in (first, second):
        assert req.kv is not None
        if gives_back_its_window and isinstance(cache, (SWAChunkCache, SWARadixCache, PureSWARadixCache)):
            start = req.kv.cache_protected_len
            row = cache.req_to_token_pool.req_to_token[req.kv.req_pool_idx]
            cache.allocator.free_swa_segment(row[start:56])
            req.kv.swa_evicted_seqlen = 56
        cache.cache_finished_req(req, kv_len=64, is_insert=is_insert)
        cache.req_to_token_pool.free_mamba_cache(req)
        cache.req_to_token_pool.free(req.kv.req_pool_idx)
    cache.evict(EvictParams(8, 16, 1))
    cache.evict(EvictParams(SIZE, SIZE, 16))
    assert cache.evictable_size() == cache.protected_size() == 0
    assert cache.allocator.available_size() == SIZE


every_cache = pytest.mark.parametrize("make", CACHES.values(), ids=CACHES)
every_ending = pytest.mark.parametrize("is_insert", [True, False])
every_window = pytest.mark.parametrize("gives_back_its_window", [True, False])


@every_cache
@every_ending
@every_window
def test_the_life_of_requests_reads_nothing_of_the_device(
    make: Callable[[torch.device], Any], is_insert: bool, gives_back_its_window: bool
) -> None:
    cache = make(UNREADABLE)
    with no_device_reads():
        live(cache, is_insert=is_insert, gives_back_its_window=gives_back_its_window)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_cache
@every_ending
@every_window
def test_the_life_of_requests_does_not_synchronise_cuda(
    make: Callable[[torch.device], Any], is_insert: bool, gives_back_its_window: bool
) -> None:
    cache = make(torch.device("cuda"))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        live(cache, is_insert=is_insert, gives_back_its_window=gives_back_its_window)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_reviving_tombstones_never_waits() -> None:
    cache = SWARadixCache(rows(UNREADABLE), swa(UNREADABLE, 4), sliding_window_size=8)
    ids = list(range(32))
    with no_device_reads():
        for hole in (16, 8, 0):
            key = cache.request_key(Req("r", ids), ids)
            slots = cache.allocator.alloc(32)
            assert slots is not None
            cache.allocator.free_swa_segment(slots[:hole])
            cache.insert(key, slots, swa_evicted_seqlen=hole)

    assert cache.swa_evictable_size() == cache.evictable_size() == 32
    assert cache.allocator.available_size() == SIZE - 32
