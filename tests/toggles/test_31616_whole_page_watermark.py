"""Guard of 31616-whole-page-watermark: a speculative step takes what the scheduler estimated, in whole pages."""

from __future__ import annotations

import pytest

from tests.toggles.small_stack import SmallStack, record, speculating


@pytest.mark.parametrize("prompt_len", [10, 13, 16])
def test_the_estimate_is_what_the_step_takes(prompt_len: int) -> None:
    stack = SmallStack(server_args=speculating(256, page_size=4, steps=3, draft_tokens=4))
    (req,) = stack.admit(prompt_len)
    for accepted in (1, 3, 2, 4):
        before = stack.allocator.available_size()
        estimate = stack.batch.new_tokens_required_next_decode()
        stack.batch.prepare_for_decode()
        assert before - stack.allocator.available_size() == estimate
        assert record(req).kv_allocated_len % 4 == 0, "the watermark ends inside a page"
        stack.batch.advance([[1] * accepted])
