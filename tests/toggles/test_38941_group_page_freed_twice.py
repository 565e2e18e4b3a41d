"""Guard of 38941: with context parallelism the group's page that a request ends in is freed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvcore.errors import InvariantViolation
from kvcore.server_args import set_server_args
from tests.toggles.small_stack import SmallStack, speculating

if TYPE_CHECKING:
    from collections.abc import Iterator

ARGS = speculating(64, page_size=4, dcp_size=4, steps=3, draft_tokens=4)


@pytest.fixture(autouse=True)
def server_args() -> Iterator[None]:
    set_server_args(ARGS)
    yield
    set_server_args(None)


@pytest.mark.parametrize("in_group", [False, True])
def test_the_last_group_page_is_freed_once(in_group: bool) -> None:
    stack = SmallStack(server_args=ARGS, num_slots=256)
    stack.admit(19, 5)
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
    assert stack.allocator.available_size() <= stack.allocator.size
