"""Rows are granted to requests without one, all or none, and row 0 to nobody."""

from __future__ import annotations

import pytest
import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from kvcore.errors import ConfigurationError
from kvcore.pools.req_to_token import DecodeReqToTokenPool, ReqToTokenPool
from kvcore.req import ReqKvInfo
from tests.kvcore.factories import make_req


def make_pool(size: int = 4, width: int = 8) -> ReqToTokenPool:
    return ReqToTokenPool(size, width, device="cpu")


def give(req, row):
    req.kv = ReqKvInfo(row, kv_allocated_len=1)


def test_table_is_int32_with_a_row_beyond_the_granted_ones():
    pool = make_pool(4, 8)
    assert pool.req_to_token.dtype == torch.int32
    assert pool.req_to_token.shape == (5, 8)
    assert pool.req_generation.shape == (5,)
    assert pool.max_context_len == 8


def test_row_zero_is_never_granted():
    """Padded lanes of a captured graph write through row 0."""
    pool = make_pool(4)
    rows = pool.alloc([make_req(str(i)) for i in range(4)])
    assert sorted(rows) == [1, 2, 3, 4]
    before = pool.req_to_token[1:].clone()
    pool.write((torch.zeros(3, dtype=torch.int64), torch.arange(3)), torch.ones(3, dtype=torch.int32))
    assert torch.equal(pool.req_to_token[1:], before)


def test_every_granted_row_indexes_the_side_tables():
    pool = make_pool(3)
    for row in pool.alloc([make_req(str(i)) for i in range(3)]):
        assert pool.req_generation[row] == 1


def test_a_request_keeps_the_row_it_holds():
    pool = make_pool(4)
    held, fresh = make_req("held"), make_req("fresh")
    give(held, pool.alloc([held])[0])
    rows = pool.alloc([fresh, held])
    assert rows[1] == held.kv.req_pool_idx
    assert rows[0] != rows[1]
    assert pool.available_size() == 2


def test_too_few_rows_grant_none():
    pool = make_pool(2)
    before = list(pool.free_slots), pool.req_generation.clone()
    assert pool.alloc([make_req(str(i)) for i in range(3)]) is None
    assert list(pool.free_slots) == before[0]
    assert torch.equal(pool.req_generation, before[1])


def test_undo_brings_rows_their_order_and_generations_back():
    pool = make_pool(4)
    give(held := make_req("held"), pool.alloc([held])[0])
    before = list(pool.free_slots), pool.req_generation.clone()
    pool.alloc([held, make_req("a"), make_req("b")])
    pool.undo_alloc()
    assert list(pool.free_slots) == before[0]
    assert torch.equal(pool.req_generation, before[1])
    pool.undo_alloc()
    assert list(pool.free_slots) == before[0]


def test_a_row_is_freed_once():
    pool = make_pool(2)
    row = pool.alloc([make_req()])[0]
    pool.free(row)
    with pytest.raises(AssertionError, match=f"row {row} is not granted"):
        pool.free(row)
    assert pool.available_size() == 2


def test_generation_counts_grants_of_a_row():
    pool = make_pool(1)
    for expected in (1, 2, 3):
        row = pool.alloc([make_req()])[0]
        assert pool.req_generation[row] == expected
        pool.free(row)


def test_write_beyond_the_row_raises_and_leaves_the_neighbour():
    pool = make_pool(2, 4)
    before = pool.req_to_token.clone()
    with pytest.raises(RuntimeError):
        pool.write((1, slice(2, 6)), torch.arange(4, dtype=torch.int32))
    assert torch.equal(pool.req_to_token, before)


def test_clear_takes_every_row_back():
    pool = make_pool(3)
    pool.alloc([make_req(str(i)) for i in range(3)])
    pool.clear()
    assert pool.available_size() == 3


@pytest.mark.parametrize(("size", "width"), [(0, 4), (4, 0)])
def test_a_pool_has_rows_and_columns(size, width):
    with pytest.raises(ConfigurationError, match="at least one row"):
        make_pool(size, width)


def test_decode_pool_has_rows_for_requests_on_their_way():
    pool = DecodeReqToTokenPool(4, 8, pre_alloc_size=3, device="cpu")
    assert pool.available_size() == 7
    assert pool.req_to_token.shape[0] == 8
    waiting = [make_req(str(i)) for i in range(2)]
    for req, row in zip(waiting, pool.alloc(waiting), strict=True):
        give(req, row)
    with pytest.raises(AssertionError, match="at most one request"):
        pool.alloc(waiting)


class RowMachine(RuleBasedStateMachine):
    """Rows beside a model that only counts them."""

    def __init__(self):
        super().__init__()
        self.pool = make_pool(6)
        self.live: list = []
        self.serial = 0

    @rule(num=st.integers(1, 5), num_held=st.integers(0, 3))
    def grant(self, num, num_held):
        held = self.live[:num_held]
        fresh = [make_req(f"{self.serial}-{i}") for i in range(num)]
        self.serial += 1
        rows = self.pool.alloc([*held, *fresh])
        if num > 6 - len(self.live):
            assert rows is None
            return
        assert rows[: len(held)] == [req.kv.req_pool_idx for req in held]
        for req, row in zip(fresh, rows[len(held) :], strict=True):
            give(req, row)
        self.live += fresh

    @rule(num=st.integers(1, 3))
    def grant_and_undo(self, num):
        if self.pool.alloc([make_req(f"undone-{i}") for i in range(num)]) is not None:
            self.pool.undo_alloc()

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def free(self, data):
        req = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
        self.pool.free(req.kv.req_pool_idx)

    def teardown(self):
        held = [req.kv.req_pool_idx for req in self.live]
        assert sorted([*held, *self.pool.free_slots]) == [1, 2, 3, 4, 5, 6]


TestRowMachine = RowMachine.TestCase
