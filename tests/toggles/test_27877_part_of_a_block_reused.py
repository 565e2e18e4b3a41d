"""Guard of 27877: a diffusion block whose KV is kept is taken up again in full."""

from __future__ import annotations

import pytest

from kvcore.errors import KvReuseError
from kvcore.req import Req
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack, record


def test_a_part_of_an_unfinished_block_is_refused() -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64, page_size=4), num_slots=64)
    req = Req(rid="r", origin_input_ids=list(range(12)))
    req.fill_ids, req.extend_len = list(range(12)), 12
    stack.new_batch([req]).prepare_for_extend()
    req.dllm_incomplete_ids = [8, 9, 10, 11]
    req.prefix_indices = stack.row(req)[:8].long()
    req.extend_len = 3
    row, free = stack.row(req).tolist(), stack.allocator.available_size()
    with pytest.raises(KvReuseError, match="must be reused as a full block"):
        stack.new_batch([req]).prepare_for_extend()
    assert (stack.row(req).tolist(), stack.allocator.available_size()) == (row, free)
    assert record(req).kv_committed_len == 12
