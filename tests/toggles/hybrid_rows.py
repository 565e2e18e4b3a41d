"""Rows with recurrent states, of the smallest size that shows a symptom."""

from __future__ import annotations

from kvcore.pools.hybrid import HybridReqToTokenPool
from kvcore.pools.track_buffer import TrackPolicy
from kvcore.req import Req


def make_pool(*, num_states: int, num_track_slots: int = 0) -> HybridReqToTokenPool:
    """Four rows of 16 columns; `num_track_slots` snapshots a request."""
    track = TrackPolicy(num_track_slots) if num_track_slots else TrackPolicy()
    return HybridReqToTokenPool(4, 16, num_states=num_states, device="cpu", track=track)


def make_req(rid: str) -> Req:
    """A request that holds nothing."""
    return Req(rid=rid, origin_input_ids=[1, 2, 3])
