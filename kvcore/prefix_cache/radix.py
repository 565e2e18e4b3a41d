"""The radix cache: requests with a common prefix share its slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kvcore.prefix_cache.base import EvictParams, EvictResult, InsertResult, LockRef, MatchResult, RadixKey
from kvcore.prefix_cache.node import TreeNode
from kvcore.prefix_cache.rows import advance_prefix, free_computed, record_of, row_of
from kvcore.prefix_cache.tree_cache import TreeCache, require_slots

if TYPE_CHECKING:
    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.req import Req


class RadixCache(TreeCache[TreeNode]):
    """Shares whole pages between requests of one namespace; evicts by one of seven policies.

    With ``disable`` nothing is shared, and requests still get from chunk to chunk.
    """

    def __init__(
        self,
        req_to_token_pool: ReqToTokenPool,
        allocator: TokenToKVPoolAllocator,
        *,
        page_size: int | None = None,
        eviction_policy: str = "lru",
        is_bigram: bool = False,
        disable: bool = False,
    ) -> None:
        super().__init__(
            req_to_token_pool,
            allocator,
            TreeNode,
            page_size=page_size,
            eviction_policy=eviction_policy,
            is_bigram=is_bigram,
        )
        self.disable = disable

    def match_prefix(self, key: RadixKey) -> MatchResult:
        """Find the longest cached prefix, in whole pages. May split a node and refreshes access times."""
        if self.disable:
            return self._match_result([], 0)
        path, length = self.tree.reach(key)
        self.tree.touch(path)
        return self._match_result(path, length)

    def insert(
        self, key: RadixKey, value: torch.Tensor, *, chunked: bool = False, priority: int = 0
    ) -> InsertResult:
        """Keep ``value``, the slots of ``key`` (int64 [>= len(key)]), beyond what the tree holds already.

            0            prefix_len            length = len(key) floored to pages
            |-- the tree's --|-- a new leaf's --|-- not kept --|

        The tree copies the slots it keeps and owns them from now on. Those of ``[0, prefix_len)`` are
        duplicates, unless they came from the tree; freeing them is up to the caller. A chunk in the middle of
        a prompt counts no hit.
        """
        length = self.cached_len(key)
        if length == 0:
            return InsertResult(0, self.tree.root)
        require_slots(value, length)
        value = value[:length]
        path, prefix_len = self.tree.reach(key)
        rest = value[prefix_len:]
        if rest.shape[0] > 0:
            parent = path[-1] if path else self.tree.root
            path.append(self.tree.add_leaf(parent, key, prefix_len, length, rest.clone()))
        for node in path:
            node.priority = max(node.priority, priority)
            if not chunked:
                node.hit_count += 1
        self.tree.touch(path)
        return InsertResult(prefix_len, path[-1])

    def cache_unfinished_req(self, req: Req, *, chunked: bool = False) -> None:
        """Insert what ``req`` has computed and let it go on with the tree's slots.

            0        protected      prefix_len          key_len      len(fill_ids)
            |-- tree's --|-- duplicates --|-- new in tree --|-- own tail --|
                         |    freed       |
            |----------- the row now holds the tree's ------|
            |------------------ prefix_indices ----------------------------|

        ``key_len`` is the length of the key floored to pages; it becomes ``cache_protected_len``. The tail is
        what does not fill a page, and the last token of a bigram key.
        """
        row = row_of(req, self.req_to_token_pool)
        if self.disable:
            advance_prefix(req, row)
            return
        kv = record_of(req)
        key = self.request_key(req, req.fill_ids)
        slots = row[: len(key)].to(torch.int64, copy=True)
        prefix_len = self.insert(key, slots, chunked=chunked, priority=req.priority).prefix_len
        # Not len(prefix_indices): that covers the own tail of the last chunk, which the tree does not hold.
        protected = kv.cache_protected_len
        duplicates_start = protected
        self.allocator.free_segment(row[duplicates_start:prefix_len])
        match = self.match_prefix(key)
        row[protected : match.cache_protected_len] = match.device_indices[protected:]
        kv.cache_protected_len = match.cache_protected_len
        self._move_lock(req, match.last_node)
        advance_prefix(req, row)

    def cache_finished_req(self, req: Req, *, kv_len: int, is_insert: bool = True) -> None:
        """Keep what a finished request computed, or free it, and release its lock.

            0        protected      prefix_len        key_len        kv_len
            |-- tree's --|-- duplicates --|-- new in tree --|-- tail --|      with insertion
                         |    freed       |                 |  freed   |
            |-- tree's --|------------- freed --------------|  freed   |      without

        ``key_len`` is floored to pages from the ids that are known of the ``kv_len`` tokens: under overlap
        scheduling the KV of one more token may stand in the row than there are ids, so no end comes from the
        number of ids.
        """
        row = row_of(req, self.req_to_token_pool)
        if self.disable:
            free_computed(req, row, kv_len=kv_len, allocator=self.allocator)
            req.last_lock = None
            return
        protected = record_of(req).cache_protected_len
        key = self.request_key(req, req.token_ids[:kv_len])
        key_len = self.cached_len(key)
        freed_len = key_len
        if is_insert:
            slots = row[:key_len].to(torch.int64, copy=True)
            freed_len = self.insert(key, slots, priority=req.priority).prefix_len
        tail_end = kv_len
        self.allocator.free_segment(row[protected:freed_len])
        self.allocator.free_segment(row[max(protected, key_len) : tail_end])
        self._move_lock(req, None)

    def evict(self, params: EvictParams) -> EvictResult:
        """Give back at least ``params.num_tokens`` slots, or all that is not locked, in one free."""
        freed: list[torch.Tensor] = []
        num_freed = 0
        while num_freed < params.num_tokens:
            removed = self.tree.prune_first()
            if not removed:
                break
            freed += [node.value for node in removed]
            num_freed += sum(node.length for node in removed)
        if freed:
            self.allocator.free_segment(torch.cat(freed) if len(freed) > 1 else freed[0])
        return EvictResult(num_freed)

    def inc_lock_ref(self, node: Any) -> LockRef:
        """Protect ``node`` and its ancestors from eviction."""
        self.tree.lock_path(node)
        return LockRef(node)

    def dec_lock_ref(self, lock: LockRef) -> None:
        """Undo one ``inc_lock_ref``; AssertionError, with nothing changed, when the node is not locked."""
        self.tree.unlock_path(lock.node)
