"""Requests that speculate up to the context limit beside a neighbour whose row must stay as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.errors import RowOverflow
from tests.toggles.small_stack import SmallStack, record

if TYPE_CHECKING:
    from kvcore.server_args import ServerArgs


def speculate_to_the_limit(server_args: ServerArgs) -> None:
    """Drive one request to its last token, two steps of drafts ahead, and release it.

    Asserts what a user would lose: the neighbour's row, and the slots of the pool.
    """
    stack = SmallStack(server_args=server_args)
    limit = server_args.context_len
    runner, neighbour = stack.admit(limit - 4, 3)
    for _ in range(3):
        before = stack.row(neighbour)
        try:
            stack.batch.prepare_for_decode()
        except RowOverflow as overflow:
            raise AssertionError(
                f"a request within its context limit does not fit its row: {overflow}"
            ) from overflow
        after = stack.row(neighbour)
        assert after[: len(before)].tolist() == before.tolist(), "the neighbour's row was overwritten"
        assert record(runner).kv_allocated_len <= stack.pool.max_context_len
        stack.batch.advance([[7], []])
    assert record(runner).kv_committed_len == limit - 1
    stack.release_all()
    assert stack.lost_slots() == 0
    assert stack.free_twice() == []
