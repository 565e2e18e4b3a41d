"""The radix cache for models in which every layer has a sliding window, over their one pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kvcore.prefix_cache.base import EvictParams, EvictResult
from kvcore.prefix_cache.radix import RadixCache
from kvcore.prefix_cache.rows import advance_prefix, record_of, row_of
from kvcore.prefix_cache.window import free_run, hole_of

if TYPE_CHECKING:
    from kvcore.allocators.pure_swa import PureSWAAllocator
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.req import Req


class PureSWARadixCache(RadixCache):
    """A radix cache (page size 1) whose requests may have given back slots of their own for good."""

    allocator: PureSWAAllocator

    def __init__(
        self,
        req_to_token_pool: ReqToTokenPool,
        allocator: PureSWAAllocator,
        *,
        sliding_window_size: int,
        eviction_policy: str = "lru",
        is_bigram: bool = False,
    ) -> None:
        super().__init__(req_to_token_pool, allocator, eviction_policy=eviction_policy, is_bigram=is_bigram)
        self.sliding_window_size = sliding_window_size

    def cache_unfinished_req(self, req: Req, *, chunked: bool = False) -> None:
        """As in a radix cache; a request that has given slots back inserts nothing and keeps the rest."""
        if hole_of(record_of(req), self.page_size).is_empty():
            super().cache_unfinished_req(req, chunked=chunked)
        else:
            advance_prefix(req, row_of(req, self.req_to_token_pool))

    def cache_finished_req(self, req: Req, *, kv_len: int, is_insert: bool = True) -> None:
        """Keep what lies before the hole, free what lies behind it, and release the lock.

            0        protected      prefix_len    key_len == hole start     hole end      kv_len
            |-- tree's --|-- duplicates --|-- new in tree --|-- free already --|-- freed --|
                         |    freed       |

        Without a hole ``key_len`` comes from ``kv_len``. The tree must never get slots that are free: another
        request may have them by now.
        """
        kv = record_of(req)
        row = row_of(req, self.req_to_token_pool)
        hole = hole_of(kv, self.page_size)
        insert_len = kv_len if hole.is_empty() else hole.start
        key = self.request_key(req, req.token_ids[: min(insert_len, kv_len)])
        key_len = self.cached_len(key)
        freed_len = key_len
        if is_insert:
            slots = row[:key_len].to(torch.int64, copy=True)
            freed_len = self.insert(key, slots, priority=req.priority).prefix_len
        free_run(self.allocator, row, kv.cache_protected_len, freed_len, hole)
        free_run(self.allocator, row, max(kv.cache_protected_len, key_len), kv_len, hole)
        self._move_lock(req, None)

    def evict(self, params: EvictParams) -> EvictResult:
        """Give back slots of the one pool, whichever of its roles they are asked for in."""
        result = super().evict(EvictParams(max(params.num_tokens, params.swa_num_tokens)))
        return EvictResult(result.num_tokens_evicted, result.num_tokens_evicted)

    def swa_evictable_size(self) -> int:
        """The same as ``evictable_size``: there is one pool."""
        return self.evictable_size()

    def swa_protected_size(self) -> int:
        """The same as ``protected_size``: there is one pool."""
        return self.protected_size()
