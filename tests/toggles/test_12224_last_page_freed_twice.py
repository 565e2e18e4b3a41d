"""Guard of 12224: the page that a request ends in is freed once."""

from __future__ import annotations

import pytest

from kvcore.errors import InvariantViolation
from tests.toggles.small_stack import SmallStack, speculating


@pytest.mark.parametrize("in_group", [False, True])
@pytest.mark.parametrize("prompt_len", [11, 9])
def test_the_last_page_of_a_speculating_request_is_freed_once(prompt_len: int, in_group: bool) -> None:
    stack = SmallStack(server_args=speculating(64, page_size=4, steps=3, draft_tokens=4), num_slots=64)
    stack.admit(prompt_len, 5)
    stack.batch.prepare_for_decode()
    if in_group:
        stack.allocator.free_group_begin()
    try:
        stack.release(stack.batch.reqs[0])
        stack.allocator.free_group_end()
    except InvariantViolation as violation:
        raise AssertionError(f"freed more than there is: {violation}") from violation
    assert stack.free_twice() == []
    stack.release_all()
    assert stack.lost_slots() == 0
