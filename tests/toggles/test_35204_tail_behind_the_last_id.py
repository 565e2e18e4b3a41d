"""Guard of 35204: at the end of a request every slot with KV is kept or freed, also behind its last id."""

from __future__ import annotations

import pytest

from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack, record


@pytest.mark.parametrize("is_insert", [True, False])
@pytest.mark.parametrize("page_size", [1, 4])
def test_the_token_in_flight_at_the_end_loses_no_slot(page_size: int, is_insert: bool) -> None:
    stack = SmallStack(
        server_args=ServerArgs(context_len=64, page_size=page_size), num_slots=64, cache="radix"
    )
    (req,) = stack.admit(8)
    # Overlap: the next step has its slot already when the finish of the last one is seen.
    stack.batch.prepare_for_decode()
    assert (record(req).kv_committed_len, req.seqlen) == (9, 8)
    stack.release(req, is_insert=is_insert)
    assert stack.lost_slots() == 0
