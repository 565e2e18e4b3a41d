"""Guard of 12994: giving states back a second time gives nothing back."""

from __future__ import annotations

from kvcore.errors import InvariantViolation
from tests.toggles.hybrid_rows import make_pool, make_req


def test_the_second_time_is_a_no_op() -> None:
    pool = make_pool(num_states=4)
    req, other = make_req("r"), make_req("other")
    assert pool.alloc([req, other]) is not None
    pool.free_mamba_cache(req)
    try:
        pool.free_mamba_cache(req)
    except InvariantViolation as violation:
        raise AssertionError(f"a state was given back twice: {violation}") from violation
    free = pool.mamba_allocator.free_slots()
    assert sorted(free) == sorted({1, 2, 3, 4} - {other.mamba_pool_idx})
