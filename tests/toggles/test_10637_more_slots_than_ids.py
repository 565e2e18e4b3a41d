"""Guard of 10637: a tree's size is what its nodes hold, whatever ends inside a page."""

from __future__ import annotations

import pytest

from kvcore.prefix_cache.radix import RadixCache
from kvcore.prefix_cache.unfinished import maybe_cache_unfinished_req
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack, extend_by


@pytest.mark.parametrize("num_tokens", [3, 7])
def test_an_incomplete_page_stays_with_the_request(num_tokens: int) -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64, page_size=4), num_slots=64, cache="radix")
    tree = stack.tree
    assert isinstance(tree, RadixCache)
    req = extend_by(stack, "r", list(range(num_tokens)), num_tokens)
    maybe_cache_unfinished_req(req, tree)
    assert tree.owned_slots().numel() == tree.evictable_size() + tree.protected_size()
    tree.check()
    stack.release(req)
    assert stack.lost_slots() == 0
