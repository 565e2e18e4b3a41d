"""Caches that share nothing: they only carry a request from one chunk of its prompt to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kvcore.prefix_cache.base import EvictParams, EvictResult, LockRef, MatchResult, PrefixCache, RadixKey
from kvcore.prefix_cache.rows import advance_prefix, free_computed, row_of

if TYPE_CHECKING:
    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.req import Req


class ChunkCache(PrefixCache):
    """No tree: nothing matches, nothing is kept, nothing can be evicted.

    Goes with any allocator without a window; ``page_size`` is the allocator's, in tokens.
    """

    def __init__(self, req_to_token_pool: ReqToTokenPool, allocator: TokenToKVPoolAllocator) -> None:
        self.req_to_token_pool = req_to_token_pool
        self.allocator = allocator
        self.page_size = allocator.page_size
        self._nothing = torch.empty(0, dtype=torch.int64, device=allocator.device)

    def match_prefix(self, key: RadixKey) -> MatchResult:  # noqa: ARG002  (nothing is ever there)
        """Match nothing."""
        return MatchResult(self._nothing, None, 0)

    def cache_finished_req(self, req: Req, *, kv_len: int, is_insert: bool = True) -> None:  # noqa: ARG002
        """Free ``row[protected:kv_len)``."""
        free_computed(req, row_of(req, self.req_to_token_pool), kv_len=kv_len, allocator=self.allocator)
        req.last_lock = None

    def cache_unfinished_req(self, req: Req, *, chunked: bool = False) -> None:  # noqa: ARG002
        """Advance the prefix of ``req`` to all of ``req.fill_ids``; the request still owns every slot."""
        advance_prefix(req, row_of(req, self.req_to_token_pool))

    def evict(self, params: EvictParams) -> EvictResult:  # noqa: ARG002
        """Give back nothing: nothing is kept."""
        return EvictResult()

    def inc_lock_ref(self, node: Any) -> LockRef:
        """Lock nothing."""
        return LockRef(node)

    def dec_lock_ref(self, lock: LockRef) -> None:
        """Unlock nothing."""

    def evictable_size(self) -> int:
        """0."""
        return 0

    def protected_size(self) -> int:
        """0."""
        return 0

    def reset(self) -> None:
        """Forget nothing."""

    def pretty_print(self) -> str:
        """One line."""
        return f"{type(self).__name__}: keeps nothing between requests"
