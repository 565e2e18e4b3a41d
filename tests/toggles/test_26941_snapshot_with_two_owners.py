"""Guard of 26941: a snapshot slot has one owner."""

from __future__ import annotations

from tests.toggles.hybrid_rows import make_pool, make_req


def test_slots_given_back_are_not_referenced_any_more() -> None:
    pool = make_pool(num_states=6, num_track_slots=2)
    first, second = make_req("first"), make_req("second")
    assert pool.alloc([first]) is not None
    pool.free_mamba_cache(first)
    assert pool.alloc([second]) is not None
    # The first request comes back from the queue and brings what it believes to hold.
    assert pool.alloc([first]) is not None
    held = [*(first.mamba_ping_pong_track_buffer or ()), *(second.mamba_ping_pong_track_buffer or ())]
    assert len(held) == 4
    assert len(set(held)) == 4, f"snapshot slots {held} have two owners"
    assert not set(held) & set(pool.mamba_allocator.free_slots())
