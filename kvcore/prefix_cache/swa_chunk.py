"""The cache that shares nothing, for models with a sliding window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.prefix_cache.chunk import ChunkCache
from kvcore.prefix_cache.rows import record_of, row_of
from kvcore.prefix_cache.window import free_run, hole_of

if TYPE_CHECKING:
    from kvcore.allocators.pure_swa import PureSWAAllocator
    from kvcore.allocators.swa import SWAAllocator
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.req import Req


class SWAChunkCache(ChunkCache):
    """Frees a finished request around the hole that out-of-window eviction left in its row.

    Serves both kinds of window allocators: one gives back the full slots of the hole here, the other has done
    so.
    """

    allocator: SWAAllocator | PureSWAAllocator

    def __init__(
        self,
        req_to_token_pool: ReqToTokenPool,
        allocator: SWAAllocator | PureSWAAllocator,
        *,
        sliding_window_size: int,
    ) -> None:
        super().__init__(req_to_token_pool, allocator)
        self.sliding_window_size = sliding_window_size

    def cache_finished_req(self, req: Req, *, kv_len: int, is_insert: bool = True) -> None:  # noqa: ARG002
        """Free ``row[protected:kv_len)``, window slots only where they are still there."""
        kv = record_of(req)
        hole = hole_of(kv, self.page_size)
        row = row_of(req, self.req_to_token_pool)
        free_run(self.allocator, row, kv.cache_protected_len, kv_len, hole)
        req.last_lock = None

    def swa_evictable_size(self) -> int:
        """0."""
        return 0

    def swa_protected_size(self) -> int:
        """0."""
        return 0
