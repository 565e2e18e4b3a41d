"""Rows and recurrent states are granted together or not at all, and every state has one owner."""

from __future__ import annotations

import pytest
import torch

from kvcore.allocation import alloc_req_slots
from kvcore.errors import ConfigurationError, InvariantViolation, OutOfSlots
from kvcore.invariants import InvariantChecker
from kvcore.pools.hybrid import HybridReqToTokenPool
from kvcore.pools.mamba import MambaStatePool, MambaStateShape
from kvcore.pools.track_buffer import NO_SLOT, TrackPolicy
from kvcore.prefix_cache import ChunkCache
from kvcore.prefix_cache.base import EvictResult
from tests.kvcore.factories import Stack, make_allocator, make_req, make_server_args

NORMAL = TrackPolicy(num_slots=2, interval=8)
SINGLE = TrackPolicy(num_slots=1, interval=8)
LAZY = TrackPolicy(num_slots=2, lazy=True, interval=8)
SHAPE = MambaStateShape(num_layers=2, conv_shapes=((3, 2),), temporal_shape=(2, 4))


def make_pool(
    num_states: int = 8, *, size: int = 4, track: TrackPolicy | None = None, **kwargs
) -> HybridReqToTokenPool:
    return HybridReqToTokenPool(size, 16, num_states=num_states, device="cpu", track=track, **kwargs)


def owned(pool, *reqs) -> list[int]:
    """Every state slot with its owner, sorted; each of 1..size once when all is well."""
    held = [slot for req in reqs for slot in (req.mamba_ping_pong_track_buffer or []) if slot != NO_SLOT]
    held += [req.mamba_pool_idx for req in reqs if req.mamba_pool_idx is not None]
    return sorted([*held, *pool.mamba_allocator.free_slots()])


class StatesToGive:
    """A tree with states that eviction can give back, and nothing else."""

    def __init__(self, pool, num_states):
        self.slots = pool.mamba_allocator.alloc(num_states)
        self.pool = pool
        self.asked = []

    def evict(self, params):
        self.asked.append(params.mamba_num)
        given, self.slots = self.slots[: params.mamba_num], self.slots[params.mamba_num :]
        self.pool.mamba_allocator.free(given)
        return EvictResult(mamba_num_evicted=len(given))


@pytest.mark.parametrize(("track", "per_request"), [(None, 1), (SINGLE, 2), (NORMAL, 3), (LAZY, 2)])
def test_a_row_comes_with_its_states(track, per_request):
    pool = make_pool(track=track)
    a, b = make_req("a"), make_req("b")
    rows = pool.alloc([a, b])
    assert pool.mamba_allocator.available_size() == 8 - 2 * per_request
    assert owned(pool, a, b) == list(range(1, 9))
    assert pool.req_index_to_mamba_index_mapping[rows].tolist() == [a.mamba_pool_idx, b.mamba_pool_idx]
    if track is not None:
        buffers = [a.mamba_ping_pong_track_buffer, b.mamba_ping_pong_track_buffer]
        assert pool.req_index_to_track_mapping[rows].tolist() == buffers
    assert a.mamba_needs_clear


def test_tables_beside_the_rows_reach_the_last_row():
    pool = make_pool(size=4, track=NORMAL, num_states=16)
    assert len(pool.req_index_to_mamba_index_mapping) == len(pool.req_index_to_track_mapping) == 5


def test_a_state_that_a_request_brings_along_is_kept():
    pool = make_pool()
    req = make_req()
    [req.mamba_pool_idx] = pool.mamba_allocator.alloc(1)
    pool.alloc([req])
    assert pool.mamba_allocator.available_size() == 7
    assert not req.mamba_needs_clear


@pytest.mark.parametrize(("num_states", "size"), [(2, 8), (64, 2)], ids=["states", "rows"])
@pytest.mark.parametrize("tree", [None, "empty"])
def test_too_few_of_either_grant_nothing(num_states, size, tree):
    pool = make_pool(num_states, size=size, track=NORMAL)
    reqs = [make_req(str(i)) for i in range(3)]
    cache = None if tree is None else StatesToGive(pool, 0)
    before = list(pool.free_slots), pool.mamba_allocator.free_slots()
    with pytest.raises(
        OutOfSlots, match=r"rows are free, .* states are free and 9 needed .*--mamba-full-memory-ratio"
    ):
        alloc_req_slots(pool, reqs, cache)
    assert (list(pool.free_slots), pool.mamba_allocator.free_slots()) == before
    assert all(req.mamba_pool_idx is req.mamba_ping_pong_track_buffer is None for req in reqs)


def test_states_of_the_tree_are_evicted_first_and_no_more_than_missing():
    pool = make_pool(8)
    tree = StatesToGive(pool, 7)
    alloc_req_slots(pool, [make_req(str(i)) for i in range(3)], tree)
    assert tree.asked == [2]
    assert len(tree.slots) == 5


def test_undo_takes_states_and_rows_back():
    pool = make_pool(track=NORMAL)
    keeps = make_req("keeps")
    pool.alloc([keeps])
    main, buffer = keeps.mamba_pool_idx, list(keeps.mamba_ping_pong_track_buffer)
    pool.undo_alloc()
    assert owned(pool) == list(range(1, 9))
    assert keeps.mamba_pool_idx is keeps.mamba_ping_pong_track_buffer is None
    assert not keeps.mamba_needs_clear
    pool.undo_alloc()
    assert owned(pool) == list(range(1, 9))
    assert {main, *buffer} <= set(range(1, 9))


@pytest.mark.parametrize("track", [None, SINGLE, NORMAL, LAZY])
def test_a_request_forgets_the_states_that_it_gave_back(track):
    """A slot that is still referenced would get a second owner with the next grant."""
    pool = make_pool(track=track)
    first, second = make_req("first"), make_req("second")
    pool.alloc([first])
    pool.free_mamba_cache(first)
    pool.alloc([second])
    assert owned(pool, first, second) == list(range(1, 9))
    assert first.mamba_pool_idx is first.mamba_ping_pong_track_buffer is None


def test_a_kept_snapshot_is_neither_freed_nor_remembered():
    pool = make_pool(track=NORMAL)
    req = make_req()
    pool.alloc([req])
    kept = req.mamba_ping_pong_track_buffer[1]
    pool.free_mamba_cache(req, keep=1)
    assert kept not in pool.mamba_allocator.free_slots()
    assert owned(pool, req) == sorted(set(range(1, 9)) - {kept})


def test_freeing_twice_is_a_no_op():
    pool = make_pool(track=NORMAL)
    req = make_req()
    pool.alloc([req])
    pool.free_mamba_cache(req)
    before = pool.mamba_allocator.free_slots()
    pool.free_mamba_cache(req)
    assert pool.mamba_allocator.free_slots() == before


def test_a_foreign_state_is_refused():
    pool = make_pool()
    req = make_req()
    req.mamba_pool_idx = 99
    with pytest.raises(InvariantViolation, match=r"state slots \[99\] one is free already, foreign"):
        pool.free_mamba_cache(req)
    assert owned(pool) == list(range(1, 9))


def test_snapshots_alternate_between_two_slots():
    pool = make_pool(track=NORMAL)
    req = make_req()
    pool.alloc([req])
    assert not pool.begin_boundary(req, 7, None)
    written = []
    for seq_len in (8, 16, 24):
        assert pool.begin_boundary(req, seq_len, None)
        written.append(req.mamba_next_track_idx)
        pool.end_boundary(req, seq_len)
        assert pool.keep_idx(req) == written[-1]
        assert req.mamba_last_track_seqlen == seq_len
    assert written == [0, 1, 0]


def test_one_slot_is_written_over():
    pool = make_pool(track=SINGLE)
    req = make_req()
    pool.alloc([req])
    for seq_len in (8, 16):
        assert pool.begin_boundary(req, seq_len, None)
        pool.end_boundary(req, seq_len)
        assert pool.keep_idx(req) == 0


def test_a_lazy_buffer_holds_two_slots_only_at_a_boundary():
    pool = make_pool(track=LAZY)
    req = make_req()
    pool.alloc([req])
    assert req.mamba_ping_pong_track_buffer[1] == NO_SLOT
    for seq_len in (8, 16, 24):
        assert pool.begin_boundary(req, seq_len, None)
        assert owned(pool, req) == list(range(1, 9))
        pool.end_boundary(req, seq_len)
        assert req.mamba_ping_pong_track_buffer.count(NO_SLOT) == 1
        assert req.mamba_ping_pong_track_buffer[pool.keep_idx(req)] != NO_SLOT
        assert owned(pool, req) == list(range(1, 9))


def test_a_lazy_snapshot_is_skipped_where_no_state_is_free():
    pool = make_pool(2, track=LAZY)
    req = make_req()
    pool.alloc([req])
    assert pool.begin_boundary(req, 8, None)
    pool.end_boundary(req, 8)
    before = list(req.mamba_ping_pong_track_buffer), req.mamba_next_track_idx
    assert not pool.begin_boundary(req, 16, None)
    assert (list(req.mamba_ping_pong_track_buffer), req.mamba_next_track_idx) == before
    assert req.mamba_last_track_seqlen == 8


def test_a_lazy_snapshot_evicts_a_state_of_the_tree():
    pool = make_pool(3, track=LAZY)
    req = make_req()
    pool.alloc([req])
    tree = StatesToGive(pool, 1)
    assert pool.begin_boundary(req, 8, tree)
    pool.end_boundary(req, 8)
    assert not pool.begin_boundary(req, 15, tree)
    assert tree.asked == []
    assert pool.begin_boundary(req, 16, tree)
    assert tree.asked == [1]
    assert tree.slots == []


def test_a_donated_snapshot_changes_its_owner():
    pool = make_pool(track=NORMAL)
    req = make_req()
    pool.alloc([req])
    pool.begin_boundary(req, 8, None)
    pool.end_boundary(req, 8)
    snapshot = req.mamba_ping_pong_track_buffer[0]
    [replacement] = pool.mamba_allocator.alloc(1)
    assert pool.donate(req, replacement) == snapshot
    assert req.mamba_ping_pong_track_buffer[0] == replacement


def test_new_states_start_empty_and_continued_ones_as_copies():
    states = MambaStatePool(8, SHAPE, device="cpu")
    pool = make_pool(state_pool=states)
    for buffer in (*states.conv, states.temporal):
        buffer.fill_(5)
    states.temporal[:, 8] = 7
    fresh, continues = make_req("fresh"), make_req("continues", mamba_cow_src=8)
    pool.alloc([fresh, continues])
    pool.start_states([fresh, continues])
    assert (states.temporal[:, fresh.mamba_pool_idx] == 0).all()
    assert (states.conv[0][:, fresh.mamba_pool_idx] == 0).all()
    assert (states.temporal[:, continues.mamba_pool_idx] == 7).all()
    assert not fresh.mamba_needs_clear
    assert continues.mamba_cow_src is None
    # Once only: the state that is being computed is not overwritten by the next chunk.
    states.temporal.fill_(9)
    pool.start_states([fresh, continues])
    assert (states.temporal == 9).all()


def test_overlapping_copies_read_before_they_write():
    states = MambaStatePool(4, SHAPE, device="cpu")
    for slot in range(5):
        states.temporal[:, slot] = slot
    states.copy_from([1, 2, 3], [2, 3, 4])
    assert states.temporal[0, :, 0, 0].tolist() == [0, 1, 1, 2, 3]


def test_the_state_after_the_accepted_drafts_becomes_the_requests():
    states = MambaStatePool(4, SHAPE, device="cpu", max_running_requests=3, num_draft_tokens=4)
    for draft in range(4):
        states.intermediate_temporal[:, :, draft] = draft + 1
    states.commit_drafts([3, 1], [0, 2], [2, 4])
    assert states.temporal[0, :, 0, 0].tolist() == [0, 4, 0, 2, 0]


def test_bytes_of_a_state():
    assert SHAPE.bytes_per_slot == 2 * (6 * 2 + 8 * 4)
    states = MambaStatePool(3, SHAPE, device="cpu")
    total = sum(buffer.numel() * buffer.element_size() for buffer in (*states.conv, states.temporal))
    assert total == 4 * SHAPE.bytes_per_slot


def test_a_pool_without_states_is_refused():
    with pytest.raises(ConfigurationError, match="at least one slot, found 0"):
        MambaStatePool(0, SHAPE, device="cpu")


def test_mappings_are_int32_and_int64():
    pool = make_pool(track=NORMAL)
    assert pool.req_index_to_mamba_index_mapping.dtype == torch.int32
    assert pool.req_index_to_track_mapping.dtype == torch.int64


@pytest.mark.parametrize("track", [None, NORMAL, LAZY])
@pytest.mark.parametrize("page_size", [1, 4])
def test_slots_that_run_out_give_rows_and_states_back(page_size, track):
    pool = HybridReqToTokenPool(4, 64, num_states=16, device="cpu", track=track)
    allocator = make_allocator(page_size, 32)
    tree = ChunkCache(pool, allocator)
    stack = Stack(
        make_server_args(page_size=page_size), pool, allocator, tree, InvariantChecker(pool, allocator, tree)
    )
    running = stack.extended(make_req("runs", 12))
    late = [make_req("a", 8), make_req("b", 20)]
    queued = stack.batch(stack.queued(*late))
    before = stack.snapshot(*running.reqs, *late)
    with pytest.raises(OutOfSlots, match="Prefill out of memory"):
        queued.prepare_for_extend()
    assert before.differences(stack.snapshot(*running.reqs, *late)) == []
    stack.check(*running.reqs, *late)
    stack.finish(running)
    stack.check()
    assert pool.mamba_allocator.available_size() == 16


@pytest.mark.parametrize("track", [None, NORMAL, LAZY])
@pytest.mark.parametrize("reserve", [0, 1, 3])
def test_undo_leaves_no_trace_in_the_order_of_states_nor_in_a_group(track, reserve):
    pool = make_pool(track=track)
    states = pool.mamba_allocator
    taken = states.alloc(3)
    states.free(taken[1:])
    assert states.alloc_group_begin(reserve)
    before, free = states.free_slots(), states.available_size()
    req = make_req("a")
    pool.alloc([req])
    assert states.free_slots() != before
    pool.undo_alloc()
    assert (states.free_slots(), states.available_size()) == (before, free)
    states.alloc_group_end()
    assert sorted(states.free_slots()) == sorted(before)


@pytest.mark.parametrize("track", [None, NORMAL])
def test_states_that_a_group_took_in_advance_can_be_granted(track):
    pool = make_pool(3, track=track)
    assert pool.mamba_allocator.alloc_group_begin(3)
    req = make_req("a")
    assert pool.num_missing_states([req]) == 0
    assert pool.alloc([req]) is not None
    pool.mamba_allocator.alloc_group_end()
    assert owned(pool, req) == [1, 2, 3]
