"""The radix cache for hybrid models with recurrent layers: slots of tokens, and states after some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kvcore.errors import ConfigurationError
from kvcore.page_math import align_down
from kvcore.prefix_cache.base import (
    EvictParams,
    EvictResult,
    InsertResult,
    LockRef,
    MatchResult,
    RadixKey,
    StateRows,
)
from kvcore.prefix_cache.mamba_tree import MambaNode, MambaTree
from kvcore.prefix_cache.rows import advance_prefix, record_of, row_of
from kvcore.prefix_cache.tree_cache import TreeCache, require_slots

if TYPE_CHECKING:
    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.allocators.mamba import MambaSlotAllocator
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.req import Req


class MambaRadixCache(TreeCache[MambaNode]):
    """Shares whole pages up to where a recurrent state is kept; evicts both least recently used first.

    A request that starts at a state of the tree copies it on write: the match names the state's slot, the
    request's lock keeps it there, and the first forward works on a slot of the request's own.

    States come to the tree in one of two ways. With ``track_interval`` every request tracks a snapshot of its
    state at multiples of that many tokens, in a buffer of its own; it donates the last one, and only tokens
    up to there are kept. Without, the state after the very last token is copied (or handed over, at the end
    of the request), which takes page size 1. Raises ConfigurationError for anything else.
    """

    tree: MambaTree

    def __init__(
        self,
        req_to_token_pool: ReqToTokenPool,
        allocator: TokenToKVPoolAllocator,
        *,
        track_interval: int | None = None,
        page_size: int | None = None,
    ) -> None:
        states = req_to_token_pool.state_slots
        if states is None or not isinstance(req_to_token_pool, StateRows):
            raise ConfigurationError(
                f"a tree of states needs a row pool whose requests hold states, found "
                f"{type(req_to_token_pool).__name__}; use a hybrid pool"
            )
        self.track_interval = track_interval
        self.state_slots: MambaSlotAllocator = states
        self.state_rows: StateRows = req_to_token_pool
        super().__init__(
            req_to_token_pool,
            allocator,
            MambaNode,
            page_size=page_size,
            eviction_policy="lru",
            is_bigram=False,
        )
        if (track_interval or 1) % self.page_size:
            raise ConfigurationError(
                f"states are kept at page boundaries, found page_size {self.page_size} and track_interval "
                f"{track_interval}; track at a multiple of the page size, or use page size 1"
            )

    def reset(self) -> None:
        """Forget everything, without freeing a slot or a state; locks taken before are void."""
        self.tree = MambaTree(self.page_size, self.allocator.device)

    def mamba_evictable_size(self) -> int:
        """State slots that eviction could give back."""
        return self.tree.state_evictable

    def mamba_protected_size(self) -> int:
        """State slots at locked nodes."""
        return self.tree.state_protected

    def match_prefix(self, key: RadixKey) -> MatchResult:
        """Find the longest cached prefix that has a state. Refreshes access times; splits no node.

        ``mamba_branching_seqlen`` is set where more tokens are cached than can be used: a snapshot taken
        there would let later requests start there.
        """
        walk = self.tree.walk(key)
        path = list(walk.path)
        while path and path[-1].mamba_slot is None:
            path.pop()
        length = sum(node.length for node in path)
        self.tree.touch(path)
        # States that were only passed on the way may go: what a request starts from is the last one (#31643).
        used = path[-1:]
        self.tree.state_order.touch(used)
        cached_len = align_down(walk.length + walk.partial_len, self.track_interval or 1)
        return self._match_result(path, length)._replace(
            mamba_state_slot=path[-1].mamba_slot if path else None,
            mamba_branching_seqlen=cached_len if cached_len > length else None,
        )

    def insert(self, key: RadixKey, value: torch.Tensor, *, mamba_slot: int) -> InsertResult:
        """Keep ``value``, the slots of ``key`` (int64 [len(key)]), and the state after all of it.

            0            prefix_len           length = len(key), whole pages
            |-- the tree's --|-- a new leaf's --|  state

        The slots of ``[0, prefix_len)`` are duplicates, unless they came from the tree; freeing them is up to
        the caller, and so is ``mamba_slot`` when the tree had a state there (``mamba_exist``).
        """
        length = self.cached_len(key)
        assert length == len(key) > 0, (
            f"a state after {len(key)} tokens is none after {length}, which fill pages"
        )
        require_slots(value, length)
        path, prefix_len = self.tree.reach(key)
        if prefix_len < length:
            parent = path[-1] if path else self.tree.root
            path.append(self.tree.add_leaf(parent, key, prefix_len, length, value[prefix_len:length].clone()))
        node = path[-1]
        mamba_exist = node.mamba_slot is not None
        if not mamba_exist:
            self.tree.set_state(node, mamba_slot)
        self.tree.touch(path)
        self.tree.state_order.touch(path[-1:])
        return InsertResult(prefix_len, node, mamba_exist)

    def cache_unfinished_req(self, req: Req, *, chunked: bool = False) -> None:  # noqa: ARG002
        """Insert what ``req`` has computed up to its state, and let it go on with the tree's slots.

            0        protected      prefix_len        state_len       len(fill_ids)
            |-- tree's --|-- duplicates --|-- new in tree --|-- own tail --|
                         |    freed       |
            |----------- the row now holds the tree's ------|
            |------------------ prefix_indices ----------------------------|

        The tree gets the last snapshot, or a copy of the state. Without a state slot to spare, even after
        eviction, and without a snapshot beyond ``protected`` the request goes on with its own slots instead.
        """
        kv = record_of(req)
        row = row_of(req, self.req_to_token_pool)
        state_len = len(req.fill_ids) if self.track_interval is None else req.mamba_last_track_seqlen
        protected = kv.cache_protected_len
        if state_len is None or not protected < state_len <= len(req.fill_ids):
            advance_prefix(req, row)
            return
        key = self.request_key(req, req.fill_ids[:state_len])
        if not self._insert_unfinished(req, key, row):
            advance_prefix(req, row)
            return
        match = self.match_prefix(key)
        row[protected:state_len] = match.device_indices[protected:]
        kv.cache_protected_len = state_len
        self._move_lock(req, match.last_node)
        advance_prefix(req, row)

    def cache_finished_req(self, req: Req, *, kv_len: int, is_insert: bool = True) -> None:
        """Keep what a finished request computed up to its state, or free it; release its states and its lock.

            0        protected      prefix_len       state_len       kv_len
            |-- tree's --|-- duplicates --|-- new in tree --|-- freed --|      with a state to keep
                         |    freed       |
            |-- tree's --|------------------- freed --------------------|      without

        The state moves to the tree, unless that has one there already.
        """
        row = row_of(req, self.req_to_token_pool)
        protected = record_of(req).cache_protected_len
        state_len = self._finished_state_len(req, kv_len) if is_insert else 0
        keep: int | None = None
        if state_len > protected:
            key = self.request_key(req, req.token_ids[:state_len])
            slots = row[:state_len].to(torch.int64, copy=True)
            result = self.insert(key, slots, mamba_slot=self._finished_state(req))
            if not result.mamba_exist:
                keep = self._hand_over(req)
            self.allocator.free_segment(row[protected : result.prefix_len])
        self.allocator.free_segment(row[max(protected, state_len) : kv_len])
        self.state_rows.free_mamba_cache(req, keep)
        self._move_lock(req, None)

    def evict(self, params: EvictParams) -> EvictResult:
        """Give back at least what is asked of slots and of states, or all that is not locked.

        First whole leaves, until there are enough slots; then states alone, where a node has to stay.
        """
        freed: list[torch.Tensor] = []
        states: list[int] = []
        num_freed = 0
        while num_freed < params.num_tokens:
            removed = self.tree.prune_first()
            if not removed:
                break
            num_freed += self._collect(removed, freed, states)
        while len(states) < params.mamba_num:
            node = self.tree.state_order.first()
            if node is None:
                break
            if node.children or node.lock_ref > 0:
                states.append(self.tree.take_state(node))
            else:
                num_freed += self._collect(self.tree.prune(node), freed, states)
        self._give_back(freed, states)
        return EvictResult(num_freed, mamba_num_evicted=len(states))

    def inc_lock_ref(self, node: Any) -> LockRef:
        """Protect the slots up to the root, and the state at ``node`` alone."""
        self.tree.lock_path(node)
        return LockRef(node, mamba_locked=self.tree.lock_state(node))

    def dec_lock_ref(self, lock: LockRef) -> None:
        """Undo one ``inc_lock_ref``; AssertionError, with nothing changed, when the node is not locked."""
        self.tree.unlock_path(lock.node)
        if lock.mamba_locked:
            self.tree.unlock_state(lock.node)
        freed: list[torch.Tensor] = []
        self._collect(self.tree.prune_hollow(lock.node), freed, [])
        self._give_back(freed, [])

    def owned_states(self) -> list[int]:
        """Every state slot that a node holds; one held twice shows twice."""
        return [node.mamba_slot for node in self.tree.nodes() if node.mamba_slot is not None]

    def check(self) -> None:
        """Recompute both sides from the nodes; raises InvariantViolation where a counter disagrees."""
        super().check()
        self.tree.check_states()

    def _insert_unfinished(self, req: Req, key: RadixKey, row: torch.Tensor) -> bool:
        """Insert ``key`` with a state of ``req``, free duplicates; False, and no change, without a slot."""
        walk = self.tree.walk(key)
        prefix_len = walk.length
        if prefix_len < len(key) or walk.path[-1].mamba_slot is None:
            mamba_slot = self._state_for_tree(req)
            if mamba_slot is None:
                return False
            slots = row[: len(key)].to(torch.int64, copy=True)
            prefix_len = self.insert(key, slots, mamba_slot=mamba_slot).prefix_len
        self.allocator.free_segment(row[record_of(req).cache_protected_len : prefix_len])
        return True

    def _state_for_tree(self, req: Req) -> int | None:
        """A state of a running ``req`` that the tree may own; ``None`` when no state slot can be had."""
        fresh = self.state_slots.alloc(1)
        if fresh is None:
            self.evict(EvictParams(mamba_num=1))
            fresh = self.state_slots.alloc(1)
        if fresh is None:
            return None
        if self.track_interval is not None:
            return self.state_rows.donate(req, fresh[0])
        assert req.mamba_pool_idx is not None, f"request {req.rid} holds no state"
        self.state_rows.copy_states([req.mamba_pool_idx], fresh)
        return fresh[0]

    def _finished_state_len(self, req: Req, kv_len: int) -> int:
        """Tokens after which a finished request has a state to keep; 0 when it has none that fits."""
        if self.track_interval is not None:
            state_len = req.mamba_last_track_seqlen or 0
        elif req.mamba_pool_idx is None:
            state_len = 0
        else:
            state_len = record_of(req).kv_committed_len
        # A state cannot be taken back to an earlier token: stripped output, or an id that has not come yet.
        return state_len if state_len <= min(kv_len, req.seqlen) else 0

    def _finished_state(self, req: Req) -> int:
        """The state slot that a finished request leaves."""
        if self.track_interval is None:
            assert req.mamba_pool_idx is not None, f"request {req.rid} holds no state"
            return req.mamba_pool_idx
        buffer = req.mamba_ping_pong_track_buffer
        assert buffer is not None, f"request {req.rid} has no track buffer"
        return buffer[self.state_rows.keep_idx(req)]

    def _hand_over(self, req: Req) -> int | None:
        """Let go of the state that the tree has taken; returns its place when it was in the track buffer."""
        if self.track_interval is not None:
            return self.state_rows.keep_idx(req)
        req.mamba_pool_idx = None
        return None

    def _collect(self, removed: list[MambaNode], freed: list[torch.Tensor], states: list[int]) -> int:
        """Put aside what removed nodes held; returns how many slots those were."""
        freed += [node.value for node in removed]
        states += [node.mamba_slot for node in removed if node.mamba_slot is not None]
        return sum(node.length for node in removed)

    def _give_back(self, freed: list[torch.Tensor], states: list[int]) -> None:
        if freed:
            self.allocator.free_segment(torch.cat(freed))
        if states:
            self.state_slots.free(states)
