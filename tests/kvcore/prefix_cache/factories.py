"""Small stacks for cache tests: pools, a cache, and the life of a request around it.

The drivers do what the entry points of the package do, in the plainest way, so that a test of a cache stands alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kvcore.allocators.paged import PagedAllocator
from kvcore.allocators.pure_swa import PureSWAAllocator
from kvcore.allocators.swa import SWAAllocator
from kvcore.allocators.token import TokenAllocator
from kvcore.page_math import align_down, align_up, ceil_div
from kvcore.pools.hybrid import HybridReqToTokenPool
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.pools.track_buffer import NO_SLOT, TrackPolicy
from kvcore.prefix_cache import (
    ChunkCache,
    EvictParams,
    MambaRadixCache,
    PureSWARadixCache,
    RadixCache,
    RadixKey,
    SWAChunkCache,
    SWARadixCache,
)
from kvcore.prefix_cache.key import unpack_ids
from kvcore.req import Req, ReqKvInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW = 6


def make_allocator(page_size: int = 1, size: int = 64) -> TokenAllocator | PagedAllocator:
    if page_size == 1:
        return TokenAllocator(size, device="cpu")
    return PagedAllocator(size, page_size, device="cpu")


def make_pool(rows: int = 8, width: int = 128) -> ReqToTokenPool:
    return ReqToTokenPool(rows, width, device="cpu")


def make_radix(
    page_size: int = 1, size: int = 64, *, tree_page_size: int | None = None, **kwargs: Any
) -> RadixCache:
    return RadixCache(make_pool(), make_allocator(page_size, size), page_size=tree_page_size, **kwargs)


def make_swa_radix(
    page_size: int = 1, size: int = 64, size_swa: int = 64, window: int = WINDOW, **kwargs: Any
) -> SWARadixCache:
    allocator = SWAAllocator(size, size_swa, page_size, device="cpu")
    return SWARadixCache(make_pool(), allocator, sliding_window_size=window, **kwargs)


def make_pure_swa_radix(size: int = 64, window: int = WINDOW, **kwargs: Any) -> PureSWARadixCache:
    return PureSWARadixCache(
        make_pool(), PureSWAAllocator(size, device="cpu"), sliding_window_size=window, **kwargs
    )


def make_chunk(page_size: int = 1, size: int = 64) -> ChunkCache:
    return ChunkCache(make_pool(), make_allocator(page_size, size))


def make_swa_chunk(page_size: int = 1, size: int = 64, size_swa: int = 64) -> SWAChunkCache:
    allocator = SWAAllocator(size, size_swa, page_size, device="cpu")
    return SWAChunkCache(make_pool(), allocator, sliding_window_size=WINDOW)


def make_req(ids: list[int], rid: str = "r", **kwargs: Any) -> Req:
    return Req(rid, list(ids), **kwargs)


def insert_ids(cache: Any, ids: list[int], *, extra_key: str | None = None, **kwargs: Any) -> torch.Tensor:
    """Insert ``ids`` with fresh slots, free what turns out to be a duplicate, return the slots offered."""
    key = RadixKey(ids, extra_key, cache.is_bigram)
    length = cache.cached_len(key)
    slots: torch.Tensor | None = cache.allocator.alloc(length)
    assert slots is not None
    if isinstance(cache, MambaRadixCache):
        kwargs["mamba_slot"] = state_after(cache, ids)
    result = cache.insert(key, slots, **kwargs)
    if result.mamba_exist:
        cache.state_slots.free([kwargs["mamba_slot"]])
    if not isinstance(cache, SWARadixCache):
        cache.allocator.free_segment(slots[: result.prefix_len])
    return slots


def state_after(cache: MambaRadixCache, ids: list[int]) -> int:
    """A fresh state slot that holds the state after ``ids``."""
    fresh = cache.state_slots.alloc(1)
    assert fresh is not None
    states_of(cache)[fresh[0]] = tuple(ids)
    return fresh[0]


def match_ids(cache: Any, ids: list[int], extra_key: str | None = None) -> Any:
    return cache.match_prefix(RadixKey(ids, extra_key, cache.is_bigram))


def match_len(cache: Any, ids: list[int], extra_key: str | None = None) -> int:
    return int(match_ids(cache, ids, extra_key).device_indices.shape[0])


class TokenStates:
    """Stands for the pool of states; a state is the tuple of tokens that it stands after."""

    def __init__(self) -> None:
        self.states: dict[int, tuple[int, ...]] = {}

    def clear_slots(self, slots: Sequence[int]) -> None:
        self.states.update((slot, ()) for slot in slots)

    def copy_from(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        read = [self.states[source] for source in sources]
        self.states.update(zip(targets, read, strict=True))


def make_mamba_radix(
    page_size: int = 1, size: int = 64, num_states: int = 8, *, track: TrackPolicy | None = None
) -> MambaRadixCache:
    """A tree whose states come from requests that track as ``track`` says, or not at all."""
    states: Any = TokenStates()
    rows = HybridReqToTokenPool(8, 128, num_states=num_states, device="cpu", track=track, state_pool=states)
    interval = None if track is None else track.interval
    return MambaRadixCache(rows, make_allocator(page_size, size), track_interval=interval)


def states_of(cache: MambaRadixCache) -> dict[int, tuple[int, ...]]:
    """What every state slot stands after."""
    states: Any = cache.req_to_token_pool
    contents: dict[int, tuple[int, ...]] = states.state_pool.states
    return contents


class Driver:
    """Takes requests through a cache: admit, extend by chunks, decode, evict out of the window, finish."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self.allocator = cache.allocator
        self.pool = cache.req_to_token_pool
        self.page_size = cache.allocator.page_size
        self.live: list[Req] = []
        self.next_token: list[int] = []

    def admit(self, req: Req, fill_len: int | None = None) -> bool:
        """Match, lock, take a row and slots; False, with all of it undone, when there are too few."""
        req.fill_ids = req.token_ids[:fill_len]
        key = RadixKey(req.fill_ids[:-1], req.extra_key, getattr(self.cache, "is_bigram", False))
        match = self.cache.match_prefix(key)
        req.prefix_indices = match.device_indices
        req.matched_protected_len = match.cache_protected_len
        req.mamba_cow_src = match.mamba_state_slot
        req.last_lock = self.cache.inc_lock_ref(match.last_node)
        self.cache.evict(EvictParams(mamba_num=self.pool.num_missing_states([req])))
        rows = self.pool.alloc([req])
        if rows is not None:
            req.kv = ReqKvInfo(rows[0], cache_protected_len=req.matched_protected_len)
            self.pool.start_states([req])
            if self._grow(req, len(req.prefix_indices), len(req.fill_ids), req.prefix_indices):
                self.live.append(req)
                return True
            req.kv = None
            self.pool.undo_alloc()
        self.cache.dec_lock_ref(req.last_lock)
        req.last_lock = None
        return False

    def next_chunk(self, req: Req, fill_len: int | None = None) -> bool:
        """Extend a request from its prefix to ``fill_len`` tokens; False when there are too few slots."""
        fill_ids = req.token_ids[:fill_len]
        if not self._grow(req, len(req.prefix_indices), len(fill_ids), req.prefix_indices):
            return False
        req.fill_ids = fill_ids
        return True

    def decode(self, req: Req, token: int) -> bool:
        """Take one more token; False when there is no slot."""
        assert req.kv is not None
        self.next_token = [token]
        grown = self._grow(req, req.kv.kv_committed_len, req.kv.kv_committed_len + 1, None)
        self.next_token = []
        if not grown:
            return False
        req.output_ids.append(token)
        return True

    def evict_window(self, req: Req, window: int) -> None:
        """Give back the window slots that ``req`` needs no more."""
        kv = req.kv
        assert kv is not None
        evicted = max(
            kv.swa_evicted_seqlen, kv.cache_protected_len, align_up(kv.swa_evict_floor, self.page_size)
        )
        frontier = align_down(
            max(evicted, kv.kv_committed_len - align_up(max(window, self.page_size), self.page_size)),
            self.page_size,
        )
        if frontier > evicted:
            self.allocator.free_swa_segment(self.row(req)[evicted:frontier])
            kv.swa_evicted_seqlen = frontier

    def finish(self, req: Req, *, is_insert: bool = True, kv_len: int | None = None) -> None:
        """Hand the request to the cache, free what was allocated beyond, give the row back."""
        kv = req.kv
        assert kv is not None
        committed = kv.kv_committed_len if kv_len is None else kv_len
        self.cache.cache_finished_req(req, kv_len=committed, is_insert=is_insert)
        self.allocator.free_segment(self.row(req)[align_up(committed, self.page_size) : kv.kv_allocated_len])
        self.pool.free_mamba_cache(req)
        self.pool.free(kv.req_pool_idx)
        req.kv = None
        self.live.remove(req)

    def row(self, req: Req) -> torch.Tensor:
        assert req.kv is not None
        row: torch.Tensor = self.pool.req_to_token[req.kv.req_pool_idx]
        return row

    def check(self) -> None:
        """Every page of every pool has exactly one owner: the free list, the tree, or one live row."""
        if hasattr(self.cache, "check"):
            self.cache.check()
        owned = self.cache.owned_slots().tolist() if hasattr(self.cache, "owned_slots") else []
        spans = [(req, req.kv) for req in self.live if req.kv is not None]
        rows = [self.row(req)[kv.cache_protected_len : kv.kv_allocated_len].tolist() for req, kv in spans]
        if isinstance(self.allocator, PureSWAAllocator):
            rows = [self._around_hole(req) for req, _ in spans]
        self._check_pages(getattr(self.allocator, "full_attn_allocator", self.allocator), owned, rows)
        for req, kv in spans:
            assert 0 <= kv.cache_protected_len <= kv.kv_committed_len <= kv.kv_allocated_len
            in_tree = set(self.row(req)[: kv.cache_protected_len].tolist())
            assert in_tree <= set(owned), (
                f"row {req.rid} shows {in_tree - set(owned)}, which the tree does not hold"
            )
        if isinstance(self.allocator, SWAAllocator):
            self._check_window(spans)
        if isinstance(self.pool, HybridReqToTokenPool):
            self._check_states()

    def _check_window(self, spans: list[tuple[Req, ReqKvInfo]]) -> None:
        translate = self.allocator.translate_loc_from_full_to_swa
        owned: list[int] = []
        if hasattr(self.cache, "owned_window_slots"):
            owned = translate(self.cache.owned_window_slots()).tolist()
        rows = [
            translate(torch.tensor(self._around_hole(req), dtype=torch.int64)).tolist() for req, _ in spans
        ]
        self._check_pages(self.allocator.swa_attn_allocator, owned, rows)
        mapped = int((self.allocator.full_to_swa_index_mapping[:-1] > 0).sum())
        assert mapped == len(owned) + sum(map(len, rows))

    def _around_hole(self, req: Req) -> list[int]:
        kv = req.kv
        assert kv is not None
        start = max(kv.cache_protected_len, align_up(kv.swa_evict_floor, self.page_size))
        row = self.row(req).tolist()
        if kv.swa_evicted_seqlen <= start:
            return row[kv.cache_protected_len : kv.kv_allocated_len]
        return row[kv.cache_protected_len : start] + row[kv.swa_evicted_seqlen : kv.kv_allocated_len]

    def _check_pages(self, allocator: Any, owned: list[int], rows: list[list[int]]) -> None:
        free = allocator.free_page_ids().tolist()
        pages = list(free)
        for slots in (owned, *rows):
            pages += {slot // self.page_size for slot in slots}
        everything = list(range(1, allocator.num_pages + 1))
        assert sorted(pages) == everything, f"free {free}, tree {owned}, rows {rows}"

    def _grow(self, req: Req, start: int, end: int, prefix: torch.Tensor | None) -> bool:
        kv = req.kv
        assert kv is not None
        slots = self._alloc(self.row(req), prefix, start, end)
        if slots is None:
            return False
        if prefix is not None:
            self.row(req)[:start] = prefix
        self.row(req)[start:end] = slots
        kv.kv_allocated_len = kv.kv_committed_len = end
        self._run(req, start, end)
        return True

    def _run(self, req: Req, start: int, end: int) -> None:
        """Let the state of ``req`` see tokens ``[start, end)``, with a snapshot wherever one is due."""
        if not isinstance(self.pool, HybridReqToTokenPool):
            return
        states = states_of(self.cache)
        main = req.mamba_pool_idx
        assert main is not None
        assert len(states[main]) == start, (
            f"{req.rid} extends from {start}, its state stands after {states[main]}"
        )
        # A decoded token is appended to the ids after its slot is taken.
        ids = [*req.token_ids, *self.next_token]
        for length in range(start + 1, end + 1):
            tracked = self.pool.begin_boundary(req, length, self.cache)
            states[main] = tuple(ids[:length])
            if tracked:
                buffer = req.mamba_ping_pong_track_buffer
                assert buffer is not None
                states[buffer[req.mamba_next_track_idx]] = states[main]
                self.pool.end_boundary(req, length)

    def _check_states(self) -> None:
        """Every state has one owner, and those of the tree stand after the tokens of their nodes."""
        states = self.pool.state_slots
        owned = [*states.free_slots(), *self.cache.owned_states()]
        for req in self.live:
            assert req.mamba_pool_idx is not None
            track = req.mamba_ping_pong_track_buffer or []
            owned += [req.mamba_pool_idx, *(slot for slot in track if slot != NO_SLOT)]
        assert sorted(owned) == list(range(1, states.size + 1))
        for node in self.cache.tree.nodes():
            if node.mamba_slot is not None:
                ids: list[int] = []
                above = node
                while above.parent is not None:
                    ids[:0] = unpack_ids(above.data)
                    above = above.parent
                assert states_of(self.cache)[node.mamba_slot] == tuple(ids)

    def _alloc(
        self, row: torch.Tensor, prefix: torch.Tensor | None, start: int, end: int
    ) -> torch.Tensor | None:
        num_pages = ceil_div(end, self.page_size) - ceil_div(start, self.page_size)
        missing = self.allocator.shortfall(num_pages * self.page_size)
        if any(missing):
            self.cache.evict(EvictParams(*missing))
        if any(self.allocator.shortfall(num_pages * self.page_size)):
            return None
        last = -1
        if start:
            last = int(row[start - 1] if prefix is None else prefix[start - 1])
        lens = torch.tensor([start]), torch.tensor([end])
        slots: torch.Tensor | None = self.allocator.alloc_extend(
            lens[0], lens[0], lens[1], lens[1], torch.tensor([last]), end - start
        )
        return slots
