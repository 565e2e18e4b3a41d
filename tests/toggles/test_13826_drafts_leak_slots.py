"""Guard of 13826: slots that a step takes for its drafts are reused by the next step and freed at the end."""

from __future__ import annotations

import pytest

from tests.toggles.small_stack import SmallStack, record, speculating


@pytest.mark.parametrize("page_size", [1, 16])
def test_no_slot_is_lost_over_many_speculative_steps(page_size: int) -> None:
    stack = SmallStack(server_args=speculating(512, page_size=page_size, steps=3, draft_tokens=4))
    (req,) = stack.admit(20)
    for _ in range(30):
        stack.batch.prepare_for_decode()
        stack.batch.advance([[5]])
    kv = record(req)
    assert kv.kv_committed_len <= kv.kv_allocated_len
    stack.release_all()
    assert stack.lost_slots() == 0
