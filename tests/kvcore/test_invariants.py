"""The checker finds each kind of broken law, names the request, the operation and the toggles."""

from __future__ import annotations

import pytest

from kvcore.errors import InvariantViolation
from kvcore.invariants import InvariantChecker
from tests.kvcore.factories import make_req, make_stack


@pytest.fixture
def stack():
    return make_stack("radix", page_size=4, size=128)


@pytest.fixture
def batch(stack):
    stack.finish(stack.cached(make_req("old", origin_input_ids=[9] * 16, max_new_tokens=1)))
    batch = stack.cached(make_req("a", 18), make_req("b", origin_input_ids=[5] * 21))
    stack.check(*batch.reqs)
    return batch


def violated(stack, batch, law, match, **kwargs):
    with pytest.raises(InvariantViolation, match=f"(?s)^{law} after decode: .*{match}"):
        stack.checker.check(batch.reqs, "decode", **kwargs)


def test_lost_page(stack, batch):
    stack.allocator.alloc(4)
    violated(stack, batch, "I1-I3", "1 of 32 pages are lost, held by nobody: page")


def test_page_freed_twice(stack, batch):
    page = int(stack.allocator.free_page_ids()[0])
    stack.allocator.alloc(4)
    stack.allocator.free_page_list([page, page])
    violated(stack, batch, "I1-I3", rf"held more than once: page {page} \(free x2\)")


def test_page_free_and_owned(stack, batch):
    held = stack.row(batch.reqs[1])[20]
    stack.allocator.free_page_list([held // 4])
    violated(stack, batch, "I1-I3", rf"held more than once: page {held // 4} \(free \+ request b\)")


def test_page_of_two_requests(stack, batch):
    a, b = batch.reqs
    stack.pool.req_to_token[a.kv.req_pool_idx, 16:18] = stack.pool.req_to_token[
        b.kv.req_pool_idx, 20
    ] + stack.pool.req_to_token.new_tensor([0, 1])
    violated(stack, batch, "I1-I3", r"\(request a \+ request b\)")


def test_page_of_the_tree_and_a_request(stack, batch):
    a, b = batch.reqs
    stack.pool.req_to_token[a.kv.req_pool_idx, 16:18] = stack.pool.req_to_token[b.kv.req_pool_idx, 0:2]
    violated(stack, batch, "I1-I3", r"\(tree \+ request a\)")


def test_reserved_page_in_use(stack, batch):
    stack.pool.req_to_token[batch.reqs[0].kv.req_pool_idx, 16:18] = stack.pool.req_to_token.new_tensor([0, 1])
    violated(stack, batch, "I1-I3", "reserved, but in use: page 0")


def test_row_granted_twice(stack, batch):
    stack.pool.free_slots.append(batch.reqs[0].kv.req_pool_idx)
    violated(
        stack,
        batch,
        "I1-I3",
        r"rows are held more than once: row 2 \(free \+ request a\)|row 1 \(free \+ request a\)",
    )


@pytest.mark.parametrize(
    ("field", "value"), [("kv_committed_len", 99), ("cache_protected_len", 19), ("kv_allocated_len", 10)]
)
def test_broken_ladder(stack, batch, field, value):
    setattr(batch.reqs[0].kv, field, value)
    violated(stack, batch, "I5", "request a: protected .* is broken")


def test_row_that_is_not_page_regular(stack, batch):
    stack.pool.req_to_token[batch.reqs[0].kv.req_pool_idx, 17] += 1
    violated(stack, batch, "I5", "request a: column 17 of row")


def test_neighbour_row_overwritten(stack, batch):
    a, b = batch.reqs
    stack.pool.req_to_token[b.kv.req_pool_idx, 3] += 64
    violated(stack, batch, "I6", "request b: 1 columns of row .* the first is 3", touched=[a])


def test_protected_slots_that_are_not_the_trees(stack, batch):
    a, b = batch.reqs
    table = stack.pool.req_to_token
    own_page, shared_page = stack.row(b)[20], stack.row(a)[0]
    table[a.kv.req_pool_idx, 0:4] = own_page + table.new_tensor([0, 1, 2, 3])
    table[b.kv.req_pool_idx, 20] = shared_page
    violated(stack, batch, "I3", "request a: .* protected slots are not the tree's")


@pytest.mark.parametrize("slot", [-4, 0, 132, 2**31 - 4])
def test_protected_slots_that_no_pool_has(stack, batch, slot):
    table = stack.pool.req_to_token
    table[batch.reqs[0].kv.req_pool_idx, 0:4] = slot + table.new_tensor([0, 1, 2, 3])
    violated(stack, batch, "I3", rf"request a: 4 of its 16 protected slots are not the tree's: {slot}")


def test_tree_counter(stack, batch):
    stack.tree.tree.evictable += 4
    violated(stack, batch, "I8", "")


def test_violations_name_the_toggles(stack, batch):
    checker = InvariantChecker(stack.pool, stack.allocator, stack.tree, toggles=["26972", "33581"])
    stack.allocator.alloc(4)
    with pytest.raises(InvariantViolation, match=r"\(active toggles: 26972, 33581\)$"):
        checker.check(batch.reqs, "extend")


@pytest.mark.parametrize("broken", ["stale", "lost", "unmapped"])
def test_window_laws(broken):
    stack = make_stack("swa", page_size=4, size=128)
    batch = stack.cached(make_req("a", 30))
    mapping = stack.allocator.full_to_swa_index_mapping
    slot = stack.row(batch.reqs[0])[28]
    if broken == "stale":
        free = int(stack.allocator.full_attn_allocator.free_page_ids()[0])
        mapping[4 * free] = mapping[slot]
        violated(stack, batch, "I7", f"free full page {free} still leads to the window")
    elif broken == "lost":
        stack.allocator.swa_attn_allocator.alloc(4)
        violated(stack, batch, "I7", "window pages are lost")
    else:
        stack.allocator.swa_attn_allocator.free_page_list([int(mapping[slot]) // 4])
        mapping[slot : slot + 4] = 0
        violated(stack, batch, "I7", "request a: column 28 is in the window")


def test_idle_check_finds_what_is_left_behind(stack, batch):
    with pytest.raises(InvariantViolation, match=r"I1 after the run: no request runs, but .* are protected"):
        stack.checker.check_idle("the run")
    stack.finish(batch)
    stack.checker.check_idle("the run")
    stack.pool.alloc([make_req("forgotten")])
    with pytest.raises(InvariantViolation, match="only 15 of 16 rows are free"):
        stack.checker.check_idle("the run")


def test_a_snapshot_tells_what_changed(stack, batch):
    before = stack.snapshot(*batch.reqs)
    assert before.differences(stack.snapshot(*batch.reqs)) == []
    batch.reqs[0].kv.kv_allocated_len += 1
    stack.pool.req_to_token[0, 0] = 3
    stack.allocator.alloc(4)
    assert before.differences(stack.snapshot(*batch.reqs)) == ["req_to_token", "records", "pool"]
    assert before.differences(stack.snapshot(*batch.reqs), evicted=True) == ["req_to_token", "records"]
