"""Guard of 24243: what padded lanes write through row 0 reaches no request."""

from __future__ import annotations

from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack


def test_a_write_through_row_zero_changes_no_live_row() -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=16), num_rows=4)
    reqs = stack.admit(5, 6, 7)
    before = [stack.row(req).tolist() for req in reqs]
    stack.pool.req_to_token[0].fill_(0)
    assert [stack.row(req).tolist() for req in reqs] == before
