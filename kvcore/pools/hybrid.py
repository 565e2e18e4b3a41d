"""Rows for models that mix attention and recurrent layers: every row comes with a recurrent state.

row  ->  main state       read and written by every step
     ->  track buffer     snapshots for the prefix cache, written in turn (see kvcore.pools.track_buffer)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from kvcore.allocators.mamba import MambaSlotAllocator
from kvcore.kernels.addressing import upload
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.pools.track_buffer import (
    NO_SLOT,
    TrackPolicy,
    begin_boundary,
    end_boundary,
    held_track_slots,
    keep_idx,
    needs_slot,
)
from kvcore.prefix_cache.base import EvictParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.pools.mamba import MambaStatePool
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.req import Req


class _Grant(NamedTuple):
    """What one ``alloc`` gave a request, beyond its row."""

    req: Req
    main: int | None
    track: list[int] | None


class HybridReqToTokenPool(ReqToTokenPool):
    """Grants a row and a state together, and a track buffer where ``track`` asks for one; or nothing.

    A request may bring a state along (one that the cache gave it, or that it kept); it is not granted
    another. ``state_pool`` holds the states' contents; without one the pool only keeps the books.
    ``num_states`` counts the states of requests, of track buffers and of the tree together. ``alloc`` gives
    ``None``, with nothing granted, when rows or states are too few.
    """

    def __init__(
        self,
        size: int,
        max_context_len: int,
        *,
        num_states: int,
        device: torch.device | str,
        track: TrackPolicy | None = None,
        state_pool: MambaStatePool | None = None,
    ) -> None:
        self.mamba_allocator = MambaSlotAllocator(num_states, device=device)
        self._grants: list[_Grant] = []
        super().__init__(size, max_context_len, device=device)
        self.track = TrackPolicy() if track is None else track
        self.state_pool = state_pool
        self.req_index_to_mamba_index_mapping = torch.zeros(
            self.num_rows, dtype=torch.int32, device=self.device
        )
        """int32 [num_rows], main state of each row."""
        track_shape = (self.num_rows, self.track.num_slots)
        self.req_index_to_track_mapping = torch.zeros(track_shape, dtype=torch.int64, device=self.device)
        """int64 [num_rows, num_slots], track buffer of each row; -1 where a slot is still to come."""

    @property
    def state_slots(self) -> MambaSlotAllocator:
        """Hands out the recurrent states of requests."""
        return self.mamba_allocator

    def alloc(self, reqs: Sequence[Req]) -> list[int] | None:
        """Rows of ``reqs`` and the states they lack; ``None``, with nothing changed, when either is short.

        Sets the state fields of the requests; their records are up to whoever allocates their slots.
        """
        if self._num_states_needed(reqs) > self.mamba_allocator.single_available_size():
            return None
        rows = super().alloc(reqs)
        if rows is None:
            return None
        self._grants = [self._grant_states(req) for req in reqs]
        self._write_mappings(rows, reqs)
        return rows

    def undo_alloc(self) -> None:
        """Take back rows, states and track buffers of the latest ``alloc``; not twice."""
        super().undo_alloc()
        grants, self._grants = self._grants, []
        taken: list[int] = []
        for req, main, track in grants:
            if main is not None:
                taken.append(main)
                req.mamba_pool_idx = None
                req.mamba_needs_clear = False
            if track is not None:
                taken += [slot for slot in track if slot != NO_SLOT]
                req.mamba_ping_pong_track_buffer = None
        self.mamba_allocator.undo_alloc(taken)

    def num_missing_states(self, reqs: Sequence[Req]) -> int:
        """States that must be evicted before ``alloc(reqs)`` can grant them."""
        return max(0, self._num_states_needed(reqs) - self.mamba_allocator.single_available_size())

    def available_str(self, reqs: Sequence[Req]) -> str:
        """Rows and states that can be granted, and the states that ``reqs`` need."""
        return (
            f"{super().available_str(reqs)}, {self.mamba_allocator.single_available_size()} of "
            f"{self.mamba_allocator.size} states are free and {self._num_states_needed(reqs)} needed "
            "(--mamba-full-memory-ratio makes room for more)"
        )

    def start_states(self, reqs: Sequence[Req]) -> None:
        """Zero new states, or copy them from the cache's for requests that continue a cached prefix."""
        copies = [req for req in reqs if req.mamba_cow_src is not None]
        fresh = [req for req in reqs if req.mamba_needs_clear and req.mamba_cow_src is None]
        if self.state_pool is not None:
            if fresh:
                self.state_pool.clear_slots([_main_state(req) for req in fresh])
            if copies:
                sources = [req.mamba_cow_src for req in copies if req.mamba_cow_src is not None]
                self.state_pool.copy_from(sources, [_main_state(req) for req in copies])
        for req in (*fresh, *copies):
            req.mamba_needs_clear = False
            req.mamba_cow_src = None

    def free_mamba_cache(self, req: Req, keep: int | None = None) -> None:
        """Take back the states of ``req``: its main one, and its track buffer but for place ``keep``.

        The request forgets all of them, the kept one too: whoever keeps it owns it now, and a reference left
        behind would give the state two owners (sgl-project/sglang#26941). A request without a state is left
        alone.
        """
        if req.mamba_pool_idx is not None:
            self.mamba_allocator.free([req.mamba_pool_idx])
        self.mamba_allocator.free(held_track_slots(req, keep))
        req.mamba_pool_idx = None
        req.mamba_ping_pong_track_buffer = None
        req.mamba_next_track_idx = 0
        req.mamba_needs_clear = False

    def copy_states(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        """Copy the states in ``sources[i]`` to ``targets[i]``; all reads come before any write."""
        if self.state_pool is not None and sources:
            self.state_pool.copy_from(sources, targets)

    def keep_idx(self, req: Req) -> int:
        """Place in the track buffer of ``req`` of its last complete snapshot."""
        return keep_idx(self.track, req)

    def donate(self, req: Req, replacement: int) -> int:
        """Take the last complete snapshot of ``req`` out of its buffer; ``replacement`` comes in its place.

        Returns the slot, which the caller owns now.
        """
        buffer = req.mamba_ping_pong_track_buffer
        place = keep_idx(self.track, req)
        assert buffer is not None, f"request {req.rid} has no track buffer to donate from"
        assert buffer[place] != NO_SLOT, f"request {req.rid} has no snapshot at place {place} of {buffer}"
        slot, buffer[place] = buffer[place], replacement
        if req.kv is not None:
            self._write_track([req.kv.req_pool_idx], [req])
        return slot

    def begin_boundary(self, req: Req, seq_len: int, tree_cache: PrefixCache | None) -> bool:
        """Whether the step that reaches ``seq_len`` tokens writes a snapshot; lazily makes room for it."""
        is_short = self.mamba_allocator.single_available_size() == 0
        if is_short and needs_slot(self.track, req, seq_len) and tree_cache is not None:
            tree_cache.evict(EvictParams(mamba_num=1))
        tracked = begin_boundary(self.track, req, seq_len, self.mamba_allocator)
        if tracked and self.track.lazy and req.kv is not None:
            self._write_track([req.kv.req_pool_idx], [req])
        return tracked

    def end_boundary(self, req: Req, seq_len: int) -> None:
        """Count the snapshot of ``seq_len`` tokens as complete, after the step that wrote it."""
        end_boundary(self.track, req, seq_len, self.mamba_allocator)
        if self.track.lazy and req.kv is not None:
            self._write_track([req.kv.req_pool_idx], [req])

    def clear(self) -> None:
        """Take every row and every state back; what the mappings hold means nothing until the next grant."""
        super().clear()
        self._grants = []
        self.mamba_allocator.clear()

    def _num_states_needed(self, reqs: Sequence[Req]) -> int:
        num_main = sum(1 for req in reqs if req.mamba_pool_idx is None)
        num_untracked = sum(1 for req in reqs if req.mamba_ping_pong_track_buffer is None)
        return num_main + num_untracked * self.track.num_initial

    def _grant_states(self, req: Req) -> _Grant:
        """Give ``req`` what it lacks; there is enough."""
        main: int | None = None
        if req.mamba_pool_idx is None:
            main = self._take_state()
            req.mamba_pool_idx = main
            req.mamba_needs_clear = True
        track: list[int] | None = None
        if req.mamba_ping_pong_track_buffer is None and self.track.num_slots:
            missing = self.track.num_slots - self.track.num_initial
            track = [*(self._take_state() for _ in range(self.track.num_initial)), *[NO_SLOT] * missing]
            req.mamba_ping_pong_track_buffer = track
            req.mamba_next_track_idx = 0
        return _Grant(req, main, track)

    def _take_state(self) -> int:
        """One state at a time: so what an alloc group took in advance is used up first."""
        states = self.mamba_allocator.alloc(1)
        assert states is not None, "no state is free, though they were counted"
        return states[0]

    def _write_mappings(self, rows: Sequence[int], reqs: Sequence[Req]) -> None:
        host = np.array([rows, [_main_state(req) for req in reqs]], dtype=np.int64)
        index, states = upload(host, self.device).unbind(0)
        self.req_index_to_mamba_index_mapping.index_copy_(0, index, states.to(torch.int32))
        if self.track.num_slots:
            self._write_track(rows, reqs)

    def _write_track(self, rows: Sequence[int], reqs: Sequence[Req]) -> None:
        index = upload(np.array(rows, dtype=np.int64), self.device)
        buffers = np.array([req.mamba_ping_pong_track_buffer for req in reqs], dtype=np.int64)
        self.req_index_to_track_mapping.index_copy_(0, index, upload(buffers, self.device))


def _main_state(req: Req) -> int:
    assert req.mamba_pool_idx is not None, f"request {req.rid} holds no state"
    return req.mamba_pool_idx
