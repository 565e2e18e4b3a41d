"""Models with compressed attention: states come with the slots of a step, and go with the row."""

from __future__ import annotations

import pytest

from kvcore.admission import match_for_admission, set_extend_range
from kvcore.allocation import _compute_dsv4_state_lens, alloc_for_decode
from kvcore.allocation_sizing import get_alloc_reserve_per_decode, page_aligned_decode_alloc_lens
from kvcore.allocators.dsv4 import DSV4Allocator
from kvcore.allocators.dsv4_lens import state_pool_size
from kvcore.allocators.dsv4_values import DSV4PoolSizes
from kvcore.disaggregation.decode import alloc_for_decode_prealloc
from kvcore.errors import ConfigurationError, InvariantViolation, KvReuseError, OutOfSlots
from kvcore.invariants import InvariantChecker
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.prefix_cache import SWAChunkCache
from kvcore.prefix_cache.unfinished import maybe_cache_unfinished_req
from kvcore.req import ReqKvInfo
from tests.kvcore.allocators.factories import extend_args
from tests.kvcore.factories import Stack, make_req, make_server_args, make_stack

P = 128


def make_compressed(*, spec=None, full=32 * P, states=16 * P) -> Stack:
    args = make_server_args(spec, page_size=P, context_len=1024)
    pool = ReqToTokenPool(8, 2048, device="cpu")
    allocator = DSV4Allocator(
        DSV4PoolSizes(full, full, full // 4, full // 128, states, states),
        P,
        num_rows=pool.num_rows,
        device="cpu",
    )
    tree = SWAChunkCache(pool, allocator, sliding_window_size=128)
    return Stack(args, pool, allocator, tree, InvariantChecker(pool, allocator, tree))


def free_states(stack) -> list[int]:
    return [pool.allocator.available_size() for pool in stack.allocator.states]


@pytest.mark.parametrize("spec", [None, "eagle"])
def test_states_live_as_long_as_their_request(spec):
    stack = make_compressed(spec=spec)
    full, states = stack.allocator.full_available_size(), free_states(stack)
    batch = stack.extended(make_req("a", 200, max_new_tokens=200), make_req("b", 130, max_new_tokens=200))
    assert batch.out_cache_loc_dsv4.full.tolist() == batch.out_cache_loc.tolist()
    assert len(batch.out_cache_loc_dsv4.c4) == 200 // 4 + 130 // 4
    assert len(batch.out_cache_loc_dsv4.c128) == 2
    for _ in range(20):
        batch.prepare_for_decode()
        batch.advance([[1, 2] if spec else [1]] * 2)
        stack.check(*batch.reqs)
    assert free_states(stack) < states
    stack.finish(batch)
    assert stack.allocator.full_available_size() == full
    assert free_states(stack) == states
    assert all(pages.available_tokens() == 32 * P for pages in stack.allocator.compressed)


def test_a_decode_step_has_one_state_per_request():
    stack = make_compressed()
    batch = stack.extended(make_req("a", 127, max_new_tokens=9), make_req("b", 20, max_new_tokens=9))
    batch.prepare_for_decode()
    bundle = batch.out_cache_loc_dsv4
    assert len(bundle.c4_state) == len(bundle.c128_state) == 2
    # The 128th token completes an entry of both ratios.
    assert len(bundle.c128) == 1
    assert len(bundle.c4) == 1


@pytest.mark.parametrize("step", ["extend", "decode"])
def test_states_that_run_out_leave_everything_as_it_was(step):
    stack = make_compressed(states=2 * P)
    batch = stack.extended(make_req("a", 120, max_new_tokens=99), make_req("b", 128 + 127, max_new_tokens=99))
    late = make_req("late", 100)
    queued = stack.batch(stack.queued(late))
    before, states = stack.snapshot(late, *batch.reqs), free_states(stack)
    assert states[0] == 0
    if step == "decode":
        # The last page of states still has room for one step of every request.
        batch.prepare_for_decode()
        before, states = stack.snapshot(late, *batch.reqs), free_states(stack)
    with pytest.raises(OutOfSlots, match="c4 state pool exhausted"):
        (queued.prepare_for_extend if step == "extend" else batch.prepare_for_decode)()
    assert before.differences(stack.snapshot(late, *batch.reqs)) == []
    assert free_states(stack) == states


@pytest.mark.parametrize("spec", [None, "eagle"])
def test_a_step_whose_states_are_missing_does_not_fit_and_the_youngest_makes_room(spec):
    # One page of states per request and ratio; each prompt leaves them nearly full.
    stack = make_compressed(spec=spec, states=2 * P)
    batch = stack.extended(*(make_req(rid, 128 + 120, max_new_tokens=99) for rid in "ab"))
    first, last = batch.reqs
    while batch.check_decode_mem():
        batch.prepare_for_decode()
        batch.advance([[1, 2, 3], [1]] if spec else [[1], [1]])
    first.output_ids.append(1)  # `last` has produced less, so it goes
    states, slots = free_states(stack), stack.allocator.available_size()

    assert states == [0, 0]
    assert slots >= batch.new_tokens_required_next_decode() > 0
    before = stack.snapshot(first, last)
    with pytest.raises(OutOfSlots, match="c4 state pool exhausted"):
        batch.prepare_for_decode()
    assert before.differences(stack.snapshot(first, last)) == []
    assert (free_states(stack), stack.allocator.available_size()) == (states, slots)
    retraction = batch.retract_decode()

    assert (retraction.retracted, retraction.aborted, batch.reqs) == ([last], [], [first])
    batch.prepare_for_decode()
    stack.check(first)


def test_a_request_whose_states_do_not_fit_alone_is_aborted_and_the_reason_names_them():
    stack = make_compressed(states=P)
    batch = stack.extended(make_req("a", 120, max_new_tokens=99))
    while batch.check_decode_mem():
        batch.prepare_for_decode()
        batch.advance([[1]])

    (req,) = batch.retract_decode().aborted

    assert "Available c4 states: 0\nAvailable c128 states: 0" in req.finished_reason
    assert (batch.reqs, free_states(stack)) == ([], [P, P])
    stack.check()


def test_full_pages_that_run_out_leave_everything_as_it_was():
    stack = make_compressed(full=4 * P)
    batch = stack.extended(make_req("a", 3 * P))
    late = make_req("late", 2 * P)
    queued = stack.batch(stack.queued(late))
    before, states = stack.snapshot(late, *batch.reqs), free_states(stack)
    with pytest.raises(OutOfSlots, match=r"^Prefill out of memory"):
        queued.prepare_for_extend()
    assert before.differences(stack.snapshot(late, *batch.reqs)) == []
    assert free_states(stack) == states


def test_models_without_states_have_no_state_lens():
    stack = make_stack("chunk", page_size=4)
    batch = stack.extended(make_req("a", 8))
    lens = batch.extend_lens
    args = (batch.req_pool_indices_cpu.tolist(), lens.prefix_lens_cpu, lens.seq_lens_cpu, "extend")
    assert _compute_dsv4_state_lens(stack.allocator, *args) is None
    compressed = make_compressed()
    state_lens = _compute_dsv4_state_lens(compressed.allocator, *args)
    assert state_lens.c4.after == [8]


def test_several_tokens_per_request_take_a_state_each():
    stack = make_compressed()
    batch = stack.extended(make_req("a", 126, max_new_tokens=9), make_req("b", 20, max_new_tokens=9))
    before = [pool.positions([1, 2]) for pool in stack.allocator.states]
    slots = alloc_for_decode(batch, token_per_req=3)
    bundle = batch.out_cache_loc_dsv4
    assert bundle.full.tolist() == slots.tolist()
    assert len(bundle.c4_state) == len(bundle.c128_state) == 6
    assert len(bundle.c128) == 1
    after = [pool.positions([1, 2]) for pool in stack.allocator.states]
    assert after == [[taken + 3 for taken in positions] for positions in before]
    stack.check(*batch.reqs)


def test_a_diffusion_block_cannot_go_on_with_compressed_attention():
    """Its states would be taken once more each time, and those of the round before be lost."""
    stack = make_compressed()
    batch = stack.extended(make_req("a", 64))
    [req] = batch.reqs
    req.dllm_incomplete_ids = [1] * 32
    req.fill_ids, req.prefix_indices, req.extend_len = req.token_ids, batch.out_cache_loc[:32], 32
    before, states = stack.snapshot(req), free_states(stack)
    with pytest.raises(KvReuseError, match="release the block and extend again"):
        stack.batch([req]).prepare_for_extend()
    assert before.differences(stack.snapshot(req)) == []
    assert free_states(stack) == states


def test_compressed_attention_has_no_pre_allocation():
    stack = make_compressed()
    req = make_req("a", 200, output_ids=[1])
    before, states = stack.snapshot(req), free_states(stack)
    with pytest.raises(ConfigurationError, match="compute its prefill there"):
        alloc_for_decode_prealloc(
            req,
            fill_len=200,
            tree_cache=stack.tree,
            allocator=stack.allocator,
            req_to_token_pool=stack.pool,
        )
    assert before.differences(stack.snapshot(req)) == []
    assert free_states(stack) == states


@pytest.mark.parametrize("page_size", [128, 256, 512])
@pytest.mark.parametrize("reserve", [2, 100, 256, 300, 512, 700])
def test_the_rings_hold_what_a_planned_step_takes(page_size, reserve):
    """A plan rounds the watermark up to a page: up to a page less one more than the reserve."""
    num = 80 * page_size
    allocator = DSV4Allocator(
        DSV4PoolSizes(num, num, num // 4, num // 128, num, num),
        page_size,
        num_rows=3,
        device="cpu",
        max_reserve_len=reserve,
    )
    kv = ReqKvInfo(1, 0, kv_committed_len=page_size - 1, kv_allocated_len=page_size - 1)
    cur, nxt, last = 0, page_size - 1, -1
    for step in range(24):
        if nxt > cur:
            phase = "reserve" if step else "extend"
            state_lens = allocator.compute_dsv4_state_lens([1], [cur], [nxt], phase)
            slots = allocator.alloc_extend_bundle(
                *extend_args([cur], [nxt], [last]), rows=[1], state_lens=state_lens
            )
            last = int(slots.full[-1])
            kv.kv_allocated_len = nxt
        kv.kv_committed_len = min(kv.kv_allocated_len, kv.kv_committed_len + 1 + reserve // (1 + step % 3))
        [cur], [nxt], _ = page_aligned_decode_alloc_lens([kv], reserve, page_size)
    assert kv.kv_allocated_len >= kv.kv_committed_len > page_size


@pytest.mark.parametrize("page_size", [128, 256, 512])
@pytest.mark.parametrize("spec", [None, "eagle"])
@pytest.mark.parametrize(("chunk_pages", "tail"), [(1, 0), (1, 127), (2, 3), (3, 1)])
def test_states_for_one_request_carry_it_alone_whatever_its_length(page_size, spec, chunk_pages, tail):
    args = make_server_args(spec, page_size=page_size, context_len=8192)
    reserve = 0 if spec is None else get_alloc_reserve_per_decode(args)
    pool, full = ReqToTokenPool(2, 12_000, device="cpu"), 40 * page_size
    c4, c128 = (state_pool_size(ratio, page_size, 1, max_reserve_len=reserve) for ratio in (4, 128))
    allocator = DSV4Allocator(
        DSV4PoolSizes(full, full, full // 4, full // 128, c4, c128),
        page_size,
        num_rows=pool.num_rows,
        device="cpu",
        max_reserve_len=reserve,
    )
    tree = SWAChunkCache(pool, allocator, sliding_window_size=128)
    stack = Stack(args, pool, allocator, tree, InvariantChecker(pool, allocator, tree))
    req = make_req("alone", 4 * chunk_pages * page_size + tail, max_new_tokens=999)
    match_for_admission(req, tree)
    while set_extend_range(req, chunk_pages * page_size, page_size):
        batch = stack.batch([req])
        batch.prepare_for_extend()
        if not req.is_chunked:
            break
        maybe_cache_unfinished_req(req, tree, chunked=True)
    batch.advance([[7]])
    for _ in range(2 * page_size + 5):
        assert batch.retract_decode() == ([], [])
        batch.prepare_for_decode()
        batch.advance([[1]])
    stack.check(req)


def test_a_snapshot_sees_the_pools_of_compressed_attention():
    stack = make_compressed()
    before = stack.snapshot()
    batch = stack.extended(make_req("a", 200))
    names = before.differences(stack.snapshot())
    assert {"c4 pool", "c128 pool", "c4 pages", "c128 pages", "c4 states", "c128 states"} <= set(names)
    stack.finish(batch)


def free_states_in_use(allocator):
    """As if a step had forgotten that its row still needs them."""
    states = allocator.states[0]
    states.allocator.free_page_list(states.pages_of(1))


@pytest.mark.parametrize(
    ("corrupt", "message"),
    [
        (
            lambda allocator: allocator.compressed[0].allocator.take_pages(2),
            "c4 pages are lost, held by nobody",
        ),
        (lambda allocator: allocator.states[1].allocator.take_pages(1), "c128 state pages are lost"),
        (free_states_in_use, "c4 state pages are held more than once"),
        (lambda allocator: allocator.compressed[1].page_of.zero_(), "in use, but bound to c128 page 0"),
        (lambda allocator: allocator.compressed[0].page_of.fill_(1), "free, but bound to c4 page 1"),
    ],
    ids=["entries", "states", "freed states", "unbound", "bound"],
)
def test_the_checker_sees_every_pool_of_compressed_attention(corrupt, message):
    stack = make_compressed()
    batch = stack.extended(make_req("a", 200), make_req("b", 300))
    stack.check(*batch.reqs)
    corrupt(stack.allocator)
    with pytest.raises(InvariantViolation, match=message):
        stack.check(*batch.reqs)
