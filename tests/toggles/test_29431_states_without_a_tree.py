"""Guard of 29431-states-without-a-tree: without a prefix cache, missing states raise the documented error."""

from __future__ import annotations

import pytest

from kvcore.allocation import alloc_req_slots
from kvcore.errors import OutOfSlots
from tests.toggles.hybrid_rows import make_pool, make_req


def test_missing_states_are_out_of_slots_and_change_nothing() -> None:
    pool = make_pool(num_states=1)
    reqs = [make_req("first"), make_req("second")]
    with pytest.raises(OutOfSlots, match="1 of 1 states are free and 2 needed"):
        alloc_req_slots(pool, reqs, None)
    assert (pool.available_size(), pool.mamba_allocator.available_size()) == (4, 1)


def test_states_that_suffice_need_no_tree() -> None:
    pool = make_pool(num_states=2)
    assert len(alloc_req_slots(pool, [make_req("first"), make_req("second")], None)) == 2
