"""The radix cache for hybrid sliding-window models: one tree, two pools."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from kvcore.prefix_cache.base import EvictParams, EvictResult, InsertResult, LockRef, MatchResult, RadixKey
from kvcore.prefix_cache.rows import advance_prefix, record_of, row_of
from kvcore.prefix_cache.swa_check import check_window, require_own_pages
from kvcore.prefix_cache.swa_merge import SlotLedger
from kvcore.prefix_cache.swa_tree import SWANode, SWATree
from kvcore.prefix_cache.tree_cache import TreeCache, require_slots
from kvcore.prefix_cache.window import Hole, free_run, hole_of

if TYPE_CHECKING:
    from kvcore.allocators.swa import SWAAllocator
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.prefix_cache.tree import Walk
    from kvcore.req import Req


class SWARadixCache(TreeCache[SWANode]):
    """Shares whole pages, and gives back the window slots of shared tokens before their full slots.

    A prefix can be reused where its last ``sliding_window_size`` tokens, or all of them, still have window
    slots. Both sides are evicted least recently used first. ConfigurationError for pages not the allocator's.
    """

    allocator: SWAAllocator
    tree: SWATree

    def __init__(
        self,
        req_to_token_pool: ReqToTokenPool,
        allocator: SWAAllocator,
        *,
        sliding_window_size: int,
        page_size: int | None = None,
        is_bigram: bool = False,
    ) -> None:
        require_own_pages(allocator, page_size)
        self.sliding_window_size = sliding_window_size
        super().__init__(
            req_to_token_pool,
            allocator,
            SWANode,
            page_size=page_size,
            eviction_policy="lru",
            is_bigram=is_bigram,
        )

    def reset(self) -> None:
        """Forget everything, without freeing a slot; locks taken before are void."""
        self.tree = SWATree(self.page_size, self.sliding_window_size, self.allocator.device)

    def swa_evictable_size(self) -> int:
        """Slots of the window pool that eviction could give back."""
        return self.tree.window_evictable

    def swa_protected_size(self) -> int:
        """Slots of the window pool that window locks hold."""
        return self.tree.window_protected

    def match_prefix(self, key: RadixKey) -> MatchResult:
        """Find the longest reusable prefix, in whole pages. May split a node and refreshes access times."""
        walk = self.tree.walk(key)
        path, length = self._reusable(walk)
        self.tree.touch(path)
        return self._match_result(path, length)

    def insert(
        self,
        key: RadixKey,
        value: torch.Tensor,
        *,
        prev_prefix_len: int = 0,
        swa_evicted_seqlen: int = 0,
        swa_evict_floor: int = 0,
    ) -> InsertResult:
        """Take over ``value``, the slots of ``key`` (int64 [>= len(key)]), from ``prev_prefix_len`` on.

            0       prev_prefix_len               prefix_len                length = len(key) floored to pages
            |-- the tree's --|-- duplicates, or window --|-- new nodes --|
                             |   slots for tombstones    |

        Unlike a plain radix cache this frees the duplicates itself, because some of them give their window
        slots to tombstones first. Tokens ``[max(prev_prefix_len, swa_evict_floor), swa_evicted_seqlen)`` come
        without window slots (both bounds page aligned): they make tombstones. When nothing with a window slot
        would follow, their full slots are freed and no node is made.
        """
        hole = Hole(max(prev_prefix_len, swa_evict_floor), swa_evicted_seqlen)
        length = self.cached_len(key)
        require_slots(value, length)
        value = value[:length]
        ledger = SlotLedger()
        path, prefix_len = self.tree.reach(key)
        path = self._merge(path, value, prev_prefix_len, hole, ledger)
        runs = hole.cuts(prefix_len, length)
        if runs and not runs[-1][2]:
            start, end, _ = runs.pop()
            ledger.free(value[start:end], mapped=False)
        for start, end, mapped in runs:
            parent = path[-1] if path else self.tree.root
            node = self.tree.add_leaf(parent, key, start, end, value[start:end].clone())
            if not mapped:
                self.tree.bury(node)
            path.append(node)
        self.tree.touch(path)
        ledger.settle(self.allocator)
        return InsertResult(prefix_len, path[-1] if path else self.tree.root)

    def cache_unfinished_req(self, req: Req, *, chunked: bool = False) -> None:  # noqa: ARG002
        """Insert what ``req`` has computed and let it go on with the tree's slots.

            0        protected                     key_len      len(fill_ids)
            |-- tree's --|-- given to the tree, by insert --|-- own tail --|
            |----------- the row now holds the tree's ------|
            |------------------ prefix_indices ----------------------------|

        Where the tree would refuse to match what it was given, since less than a window of it still has
        window slots, the request keeps its own slots instead.
        """
        kv = record_of(req)
        row = row_of(req, self.req_to_token_pool)
        key = self.request_key(req, req.fill_ids)
        hole = hole_of(kv, self.page_size)
        if not self._would_match(req, self.cached_len(key), hole):
            advance_prefix(req, row)
            return
        slots = row[: len(key)].to(torch.int64, copy=True)
        self.insert(
            key,
            slots,
            prev_prefix_len=kv.cache_protected_len,
            swa_evicted_seqlen=hole.end,
            swa_evict_floor=hole.start,
        )
        match = self.match_prefix(key)
        assert match.cache_protected_len == self.cached_len(key), (
            f"{match.cache_protected_len} of {self.cached_len(key)} tokens match after their insertion"
        )
        protected = kv.cache_protected_len
        row[protected : match.cache_protected_len] = match.device_indices[protected:]
        kv.cache_protected_len = match.cache_protected_len
        self._move_lock(req, match.last_node)
        advance_prefix(req, row)

    def cache_finished_req(self, req: Req, *, kv_len: int, is_insert: bool = True) -> None:
        """Keep what a finished request computed, or free it, and release its lock.

            0        protected                      key_len        kv_len
            |-- tree's --|-- given to the tree, by insert --|-- tail --|      with insertion
                         |                                  |  freed   |
            |-- tree's --|------------- freed --------------|  freed   |      without

        Window slots are freed only where out-of-window eviction has not done so.
        """
        kv = record_of(req)
        row = row_of(req, self.req_to_token_pool)
        hole = hole_of(kv, self.page_size)
        key = self.request_key(req, req.token_ids[:kv_len])
        key_len = self.cached_len(key)
        if is_insert:
            self.insert(
                key,
                row[:key_len].to(torch.int64, copy=True),
                prev_prefix_len=kv.cache_protected_len,
                swa_evicted_seqlen=hole.end,
                swa_evict_floor=hole.start,
            )
        else:
            free_run(self.allocator, row, kv.cache_protected_len, key_len, hole)
        free_run(self.allocator, row, max(kv.cache_protected_len, key_len), kv_len, hole)
        self._move_lock(req, None)

    def evict(self, params: EvictParams) -> EvictResult:
        """Give back at least what is asked in either pool, or all that is not locked.

        First whole leaves, until the full pool has enough; then window slots alone, where a node has to stay.
        """
        ledger = SlotLedger()
        num_full, num_window = 0, 0
        while num_full < params.num_tokens:
            removed = self.tree.prune_first()
            if not removed:
                break
            num_full += sum(node.length for node in removed)
            num_window += self._free_nodes(removed, ledger)
        while num_window < params.swa_num_tokens:
            node = self.tree.window_order.first()
            if node is None:
                break
            if node.children or node.lock_ref > 0:
                self.tree.bury(node)
                ledger.free_window(node.value)
                num_window += node.length
            else:
                removed = self.tree.prune(node)
                num_full += sum(gone.length for gone in removed)
                num_window += self._free_nodes(removed, ledger)
        ledger.settle(self.allocator)
        return EvictResult(num_full, num_window)

    def inc_lock_ref(self, node: Any) -> LockRef:
        """Protect the full slots up to the root, and the window slots of the last window."""
        uuid = self.tree.lock_window(node)
        self.tree.lock_path(node)
        return LockRef(node, swa_uuid=uuid)

    def dec_lock_ref(self, lock: LockRef) -> None:
        """Undo one ``inc_lock_ref``, the window side only as far as it went."""
        uuid = lock.swa_uuid
        if not lock.swa_released:
            self.tree.unlock_window(lock.node, uuid)
        self.tree.unlock_path(lock.node)
        ledger = SlotLedger()
        self._free_nodes(self.tree.prune_hollow(lock.node), ledger)
        ledger.settle(self.allocator)

    def dec_swa_lock_only(self, lock: LockRef) -> LockRef:
        """Give up the window side of a lock early; hold what this returns instead of ``lock``."""
        if lock.swa_released:
            return lock
        self.tree.unlock_window(lock.node, lock.swa_uuid)
        return lock._replace(swa_released=True)

    def owned_window_slots(self) -> torch.Tensor:
        """int64, those of ``owned_slots`` that the tree expects to have a slot in the window pool."""
        live = [node.value for node in self.tree.nodes() if not node.swa_tombstone]
        return torch.cat([self.tree.root.value, *live])

    def check(self) -> None:
        """Recompute both sides from the nodes; raises InvariantViolation where a counter disagrees."""
        super().check()
        check_window(self.tree, self.allocator)

    def _reusable(self, walk: Walk[SWANode]) -> tuple[list[SWANode], int]:
        """The longest part of a walk that ends with a full window or has no tombstone, and its length."""
        live: float = math.inf
        length, num_nodes, best_len = 0, 0, 0
        for index, node in enumerate(walk.path, 1):
            length += node.length
            live = 0 if node.swa_tombstone else live + node.length
            if live >= self.sliding_window_size:
                num_nodes, best_len = index, length
        partial = walk.partial
        if partial is not None and not partial.swa_tombstone:
            live += walk.partial_len
            if live >= self.sliding_window_size:
                return [*walk.path, self.tree.split(partial, walk.partial_len)], length + walk.partial_len
        return walk.path[:num_nodes], best_len

    def _merge(
        self, path: list[SWANode], value: torch.Tensor, prev_prefix_len: int, hole: Hole, ledger: SlotLedger
    ) -> list[SWANode]:
        """Settle ``value`` against nodes that are there; returns the path, with cut tombstones in parts."""
        merged: list[SWANode] = []
        start = 0
        for node in path:
            end = start + node.length
            if start < prev_prefix_len:
                merged.append(node)
            elif node.swa_tombstone:
                merged += self._revive(node, value, hole.cuts(start, end), ledger)
            else:
                for run_start, run_end, mapped in hole.cuts(start, end):
                    ledger.free(value[run_start:run_end], mapped=mapped)
                merged.append(node)
            start = end
        return merged

    def _revive(
        self, node: SWANode, value: torch.Tensor, runs: list[tuple[int, int, bool]], ledger: SlotLedger
    ) -> list[SWANode]:
        """Cut a tombstone into ``runs`` and revive those for which ``value`` brings window slots."""
        parts: list[SWANode] = []
        for index, (start, end, mapped) in enumerate(runs, 1):
            part = node if index == len(runs) else self.tree.split(node, end - start)
            parts.append(part)
            if mapped:
                ledger.hand_over(donors=value[start:end], adopters=part.value)
                self.tree.revive(part)
            else:
                ledger.free(value[start:end], mapped=False)
        return parts

    def _would_match(self, req: Req, key_len: int, hole: Hole) -> bool:
        """Whether the tree would match all of what ``req`` may insert."""
        live_from = 0 if hole.is_empty() else hole.end
        if req.last_lock is not None and req.last_lock.swa_released:
            live_from = max(live_from, record_of(req).cache_protected_len)
        return live_from == 0 or key_len - live_from >= self.sliding_window_size

    def _free_nodes(self, removed: list[SWANode], ledger: SlotLedger) -> int:
        """Free what removed nodes held; returns how many window slots those were."""
        num_window = 0
        for node in removed:
            ledger.free(node.value, mapped=not node.swa_tombstone)
            num_window += 0 if node.swa_tombstone else node.length
        return num_window
