"""Guard of row-follows-the-tree: no slot of a running request's row is free."""

from __future__ import annotations

import pytest

from kvcore.prefix_cache.unfinished import maybe_cache_unfinished_req
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack, extend_by

TOKENS = list(range(24))


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("in_group", [False, True])
def test_a_chunk_that_was_a_duplicate_leaves_the_row(page_size: int, in_group: bool) -> None:
    stack = SmallStack(
        server_args=ServerArgs(context_len=64, page_size=page_size), num_slots=128, cache="radix"
    )
    slow = extend_by(stack, "slow", TOKENS, 8)
    stack.release(extend_by(stack, "fast", TOKENS[:16], 16))
    if in_group:
        stack.allocator.free_group_begin()
    maybe_cache_unfinished_req(slow, stack.tree, chunked=True)
    stack.allocator.free_group_end()
    free = set(stack.allocator.free_page_ids().tolist())
    shown = {slot // page_size for slot in stack.row(slow).tolist()}
    assert not free & shown, f"the row shows free pages {sorted(free & shown)}"
