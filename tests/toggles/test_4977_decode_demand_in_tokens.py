"""Guard of 4977: when the check passes, the decode step finds its pages."""

from __future__ import annotations

from kvcore.errors import OutOfSlots
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack


def test_two_requests_at_a_page_boundary_do_not_fit_one_free_page() -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64, page_size=16), num_slots=48)
    stack.admit(16, 16)
    assert stack.allocator.available_size() == 16
    passed = stack.batch.check_decode_mem()
    try:
        stack.batch.prepare_for_decode()
        decoded = True
    except OutOfSlots:
        decoded = False
    assert passed == decoded, "the check said yes, the decode step found no page"
    assert not passed
