"""Builds the allocation stack that a simulation drives, from its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kvcore.allocation_sizing import get_alloc_reserve_per_decode, get_req_to_token_extra_context_len
from kvcore.allocators import PagedAllocator, SWAAllocator, TokenAllocator
from kvcore.errors import ConfigurationError
from kvcore.page_math import align_down, align_up
from kvcore.pools.hybrid import HybridReqToTokenPool
from kvcore.pools.req_to_token import DecodeReqToTokenPool, ReqToTokenPool
from kvcore.pools.track_buffer import TrackPolicy
from kvcore.prefix_cache import SupportsSWA
from kvcore.schedule_batch import ScheduleBatch
from kvcore.simulate.counted_caches import (
    CountedCache,
    CountedChunkCache,
    CountedMambaRadixCache,
    CountedRadixCache,
    CountedSWARadixCache,
)

if TYPE_CHECKING:
    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.req import Req
    from kvcore.server_args import ServerArgs
    from kvcore.simulate.config import SimulationConfig

_WINDOW_POOL_SHARE = 2
"""The window pool has one slot for so many of the full pool, unless that is too little for a few requests."""
_FEW_REQUESTS = 4
_CACHED_STATES = 3
"""Recurrent states that the cache finds room for, per request that runs."""
_EVICTION_INTERVAL = 128
"""Decode tokens of a request between two looks for slots that left the window."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The parts of one stack, joined. Sizes are in slots of the full pool where nothing else is said."""

    server_args: ServerArgs
    rows: ReqToTokenPool
    allocator: TokenToKVPoolAllocator
    tree_cache: CountedCache
    window: int | None
    """Tokens that sliding-window layers see; ``None`` without such layers."""
    max_running: int
    """Requests that decode at once."""
    window_growth: int = 0
    """Window slots by which a running request may still grow; 0 without a window pool."""

    def batch(self, reqs: list[Req]) -> ScheduleBatch:
        """A batch of ``reqs`` over these pools."""
        return ScheduleBatch(
            reqs=reqs,
            req_to_token_pool=self.rows,
            allocator=self.allocator,
            tree_cache=self.tree_cache,
            server_args=self.server_args,
            sliding_window_size=self.window,
            swa_eviction_interval=_EVICTION_INTERVAL,
        )

    @property
    def decode_reserve(self) -> int:
        """Tokens that a running request holds beyond its committed length, before rounding to pages."""
        return get_alloc_reserve_per_decode(self.server_args)

    @property
    def size(self) -> int:
        """Slots that exist."""
        return self.allocator.size_full if isinstance(self.allocator, SWAAllocator) else self.allocator.size

    def slots_taken(self) -> int:
        """Slots that requests and the cache hold."""
        if isinstance(self.allocator, SWAAllocator):
            return self.size - self.allocator.full_available_size()
        return self.size - self.allocator.available_size()

    def slots_in_reach(self) -> int:
        """Slots that an allocation could get: free or evictable."""
        return self.size - self.slots_taken() + self.tree_cache.evictable_size()

    def window_slots_in_reach(self) -> int:
        """Slots of the window pool that an allocation could get; where there is none, of the only pool."""
        if not isinstance(self.allocator, SWAAllocator):
            return self.slots_in_reach()
        evictable = self.tree_cache.swa_evictable_size() if isinstance(self.tree_cache, SupportsSWA) else 0
        return self.allocator.swa_available_size() + evictable

    def free_rows(self) -> int:
        """Requests that could start as far as rows go."""
        return self.rows.available_size()

    def tombstones(self) -> int:
        """Tokens that the cache keeps without window slots, or nodes without a state; walks the tree."""
        cache = self.tree_cache
        if isinstance(cache, CountedSWARadixCache):
            return cache.owned_slots().numel() - cache.owned_window_slots().numel()
        if isinstance(cache, CountedMambaRadixCache):
            return sum(node.mamba_slot is None for node in cache.tree.nodes())
        return 0


def build_stack(config: SimulationConfig) -> Stack:
    """Rows, allocator and cache of the sizes and kinds that ``config`` names."""
    args = config.server_args()
    _require_device(config.device)
    rows = _rows(config, args.context_len + get_req_to_token_extra_context_len(args))
    # What EAGLE's draft model keeps for a token depends on the next one, so prefixes are keyed by pairs.
    is_bigram = config.spec == "eagle"
    if config.cache == "swa":
        window = config.window_len
        growth = align_up(_EVICTION_INTERVAL + get_alloc_reserve_per_decode(args), config.page_size)
        window_allocator = _window_allocator(config, growth)
        swa_cache = CountedSWARadixCache(
            rows, window_allocator, sliding_window_size=window, is_bigram=is_bigram
        )
        return Stack(args, rows, window_allocator, swa_cache, window, config.max_requests, growth)
    allocator = _allocator(config)
    tree_cache: CountedCache = CountedChunkCache(rows, allocator)
    if config.cache == "radix":
        policy = "lru" if config.policy is None else config.policy
        tree_cache = CountedRadixCache(rows, allocator, eviction_policy=policy, is_bigram=is_bigram)
    elif config.cache == "mamba":
        tree_cache = CountedMambaRadixCache(rows, allocator, track_interval=config.track_interval)
    return Stack(args, rows, allocator, tree_cache, None, config.max_requests)


def _rows(config: SimulationConfig, width: int) -> ReqToTokenPool:
    if config.cache == "mamba":
        track = TrackPolicy(
            num_slots=0 if config.track_interval is None else 2, interval=config.track_interval or 1
        )
        num_states = config.max_requests * (1 + track.num_slots + _CACHED_STATES)
        return HybridReqToTokenPool(
            config.max_requests, width, num_states=num_states, device=config.device, track=track
        )
    if config.disaggregation:
        return DecodeReqToTokenPool(
            config.max_requests, width, pre_alloc_size=config.max_requests, device=config.device
        )
    return ReqToTokenPool(config.max_requests, width, device=config.device)


def _require_device(device: str) -> None:
    try:
        torch.zeros(1, device=device).tolist()
    except (RuntimeError, AssertionError) as error:
        # A build of torch without CUDA answers with an assertion.
        first_line = str(error).splitlines()[0]
        raise ConfigurationError(f"--device {device} cannot hold a tensor here: {first_line}") from error


def _allocator(config: SimulationConfig) -> TokenToKVPoolAllocator:
    size, device, need_sort = config.pool_tokens, config.device, config.disaggregation
    if config.page_size == 1:
        return TokenAllocator(size, device=device, need_sort=need_sort)
    return PagedAllocator(size, config.page_size, device=device, need_sort=need_sort)


def _window_allocator(config: SimulationConfig, growth: int) -> SWAAllocator:
    """A full pool, and a window pool for one chunk of a prompt and at least a few requests that decode.

    ``growth`` is what a request takes beyond its window between two looks for slots that left it.
    """
    live_len = max(config.window_len, config.page_size) + growth + 2 * config.page_size
    # No request is longer than a context, a page that it ends in, and what it drafts.
    live_len = min(live_len, align_up(config.context_len + growth - _EVICTION_INTERVAL, config.page_size))
    least = align_up(config.chunk_size + _FEW_REQUESTS * live_len, config.page_size)
    if least > config.pool_tokens:
        raise ConfigurationError(
            f"--pool-size {config.pool_tokens} is too small for --window {config.window_len}: a chunk and "
            f"{_FEW_REQUESTS} decoding requests take {least} window slots; give more, or smaller chunks"
        )
    swa_tokens = max(least, align_down(config.pool_tokens // _WINDOW_POOL_SHARE, config.page_size))
    return SWAAllocator(
        config.pool_tokens,
        swa_tokens,
        config.page_size,
        device=config.device,
        need_sort=config.disaggregation,
    )
