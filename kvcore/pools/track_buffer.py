"""Snapshots of a request's recurrent state for the prefix cache, written to the slots of its buffer in turn.

    normal, 2 slots   [ being written | complete ]     the index flips at every boundary
    normal, 1 slot    [ written, then complete ]       nothing runs ahead, so one slot does
    lazy, 2 slots     [ complete | -1 ]                the second slot exists only while it is being written

A boundary is a sequence length that is a multiple of the interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kvcore.allocators.mamba import MambaSlotAllocator
    from kvcore.req import Req

NO_SLOT = -1
"""Stands in a buffer for a slot that is not there (yet)."""


class TrackPolicy(NamedTuple):
    """How requests of a pool track snapshots."""

    num_slots: int = 0
    """Places of a buffer: 0 without tracking, 1 without overlap, 2 with."""
    lazy: bool = False
    """The second slot is granted at a boundary and given back after it."""
    interval: int = 256
    """Tokens between two boundaries."""

    @property
    def num_initial(self) -> int:
        """Slots that a request is granted with its row."""
        return min(self.num_slots, 1) if self.lazy else self.num_slots


def other_idx(policy: TrackPolicy, index: int) -> int:
    """The place beside ``index``; ``index`` itself in a buffer of one."""
    return 1 - index if policy.num_slots == 2 else index


def keep_idx(policy: TrackPolicy, req: Req) -> int:
    """Place of the last complete snapshot of ``req``: beside the next one to write, in lazy mode that one."""
    if policy.lazy:
        return req.mamba_next_track_idx
    return other_idx(policy, req.mamba_next_track_idx)


def held_track_slots(req: Req, keep: int | None) -> list[int]:
    """Slots in the track buffer of ``req``, but for the one at index ``keep``."""
    buffer = req.mamba_ping_pong_track_buffer or []
    return [slot for index, slot in enumerate(buffer) if slot != NO_SLOT and index != keep]


def needs_slot(policy: TrackPolicy, req: Req, seq_len: int) -> bool:
    """Whether ``begin_boundary`` will take a state: a lazy buffer at a boundary behind the first one."""
    is_boundary = policy.num_slots > 0 and seq_len % policy.interval == 0
    return policy.lazy and is_boundary and req.mamba_last_track_seqlen is not None


def begin_boundary(policy: TrackPolicy, req: Req, seq_len: int, states: MambaSlotAllocator) -> bool:
    """Before the step that reaches ``seq_len`` tokens: whether it writes a snapshot, and room for it.

    A lazy buffer grows its second slot here; without a free state the snapshot is skipped, the one before
    stays. Evict states first to have one.
    """
    if policy.num_slots == 0 or seq_len % policy.interval:
        return False
    buffer = req.mamba_ping_pong_track_buffer
    assert buffer is not None, f"request {req.rid} tracks without a buffer"
    if needs_slot(policy, req, seq_len):
        place = other_idx(policy, req.mamba_next_track_idx)
        if buffer[place] == NO_SLOT:
            granted = states.alloc(1)
            if granted is None:
                return False
            buffer[place] = granted[0]
        req.mamba_next_track_idx = place
    return True


def end_boundary(policy: TrackPolicy, req: Req, seq_len: int, states: MambaSlotAllocator) -> None:
    """After the step that wrote the snapshot of ``seq_len`` tokens: it is the last one now.

    A lazy buffer gives the slot of the snapshot before back.
    """
    buffer = req.mamba_ping_pong_track_buffer
    assert buffer is not None, f"request {req.rid} tracks without a buffer"
    req.mamba_last_track_seqlen = seq_len
    beside = other_idx(policy, req.mamba_next_track_idx)
    if not policy.lazy:
        req.mamba_next_track_idx = beside
    elif beside != req.mamba_next_track_idx and buffer[beside] != NO_SLOT:
        states.free([buffer[beside]])
        buffer[beside] = NO_SLOT
