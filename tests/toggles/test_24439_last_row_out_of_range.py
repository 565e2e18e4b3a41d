"""Guard of 24439: every row that can be granted is in range of the tables that rows index."""

from __future__ import annotations

from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack, record


def test_the_last_row_has_an_entry_in_the_side_tables() -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=16), num_rows=3)
    rows = [record(req).req_pool_idx for req in stack.admit(2, 2, 2)]
    assert len(set(rows)) == 3
    assert stack.pool.req_generation[max(rows)] == 1
