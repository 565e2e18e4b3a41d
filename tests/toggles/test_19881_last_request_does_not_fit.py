"""Guard of 19881: the last request that outgrows the pool ends with an error of its own."""

from __future__ import annotations

from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack


def test_a_request_that_does_not_fit_alone_is_aborted() -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64, page_size=4), num_slots=16)
    (req,) = stack.admit(16)
    retraction = stack.batch.retract_decode()
    assert (retraction.retracted, retraction.aborted) == ([], [req])
    assert req.finished_reason is not None
    assert req.finished_reason.startswith("abort")
    assert stack.batch.reqs == []
    assert stack.allocator.available_size() == 16
