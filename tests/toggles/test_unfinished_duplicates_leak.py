"""Guard of unfinished-duplicates: a chunk's last token is freed when the tree has it by then."""

from __future__ import annotations

import pytest

from kvcore.prefix_cache.radix import RadixCache
from kvcore.prefix_cache.unfinished import maybe_cache_unfinished_req
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack, extend_by

TOKENS = list(range(16))


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_chunk_cached_by_another_request_meanwhile_leaks_nothing(page_size: int) -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64, page_size=page_size), num_slots=128)
    stack.tree = RadixCache(stack.pool, stack.allocator, is_bigram=True)
    slow = extend_by(stack, "slow", TOKENS, 8)
    maybe_cache_unfinished_req(slow, stack.tree, chunked=True)
    fast = extend_by(stack, "fast", [*TOKENS, 99], 17)
    stack.release(fast)
    extend_by(stack, "slow", TOKENS, 8, req=slow)
    maybe_cache_unfinished_req(slow, stack.tree)
    stack.release(slow)
    assert stack.lost_slots() == 0
    assert stack.free_twice() == []
