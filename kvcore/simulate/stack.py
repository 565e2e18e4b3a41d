"""Builds the allocation stack that a simulation drives, from its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvcore.allocation_sizing import get_alloc_reserve_per_decode, get_req_to_token_extra_context_len
from kvcore.allocators import PagedAllocator, TokenAllocator
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.prefix_cache import ChunkCache, RadixCache
from kvcore.schedule_batch import ScheduleBatch

if TYPE_CHECKING:
    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.req import Req
    from kvcore.server_args import ServerArgs
    from kvcore.simulate.config import SimulationConfig


@dataclass(frozen=True, slots=True)
class Stack:
    """The parts of one stack, joined."""

    server_args: ServerArgs
    rows: ReqToTokenPool
    allocator: TokenToKVPoolAllocator
    tree_cache: PrefixCache

    def batch(self, reqs: list[Req]) -> ScheduleBatch:
        """A batch of ``reqs`` over these pools."""
        return ScheduleBatch(
            reqs=reqs,
            req_to_token_pool=self.rows,
            allocator=self.allocator,
            tree_cache=self.tree_cache,
            server_args=self.server_args,
        )

    @property
    def decode_reserve(self) -> int:
        """Tokens that a running request holds beyond its committed length, before rounding to pages."""
        return get_alloc_reserve_per_decode(self.server_args)

    def slots_in_reach(self) -> int:
        """Slots that an allocation could get: free or evictable."""
        return self.allocator.available_size() + self.tree_cache.evictable_size()

    def slots_taken(self) -> int:
        """Slots that requests and the cache hold."""
        return self.allocator.size - self.allocator.available_size()

    def free_rows(self) -> int:
        """Requests that could start as far as rows go."""
        return self.rows.available_size()


def build_stack(config: SimulationConfig) -> Stack:
    """Rows, allocator and cache of the sizes and kinds that ``config`` names."""
    args = config.server_args()
    width = args.context_len + get_req_to_token_extra_context_len(args)
    rows = ReqToTokenPool(config.max_requests, width, device=config.device)
    allocator = _allocator(config)
    return Stack(args, rows, allocator, _cache(config, rows, allocator))


def _allocator(config: SimulationConfig) -> TokenToKVPoolAllocator:
    if config.page_size == 1:
        return TokenAllocator(config.pool_tokens, device=config.device)
    return PagedAllocator(config.pool_tokens, config.page_size, device=config.device)


def _cache(config: SimulationConfig, rows: ReqToTokenPool, allocator: TokenToKVPoolAllocator) -> PrefixCache:
    is_bigram = config.spec == "eagle"  # What EAGLE's draft model keeps for a token depends on the next one
    if config.cache == "radix":
        return RadixCache(rows, allocator, eviction_policy=config.policy, is_bigram=is_bigram)
    return ChunkCache(rows, allocator)
