"""Guard of 18694: releasing a finished request again is a no-op that leaves every pool as it was."""

from __future__ import annotations

import pytest

from kvcore.release import release_kv_cache
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack


@pytest.mark.parametrize("cache", ["chunk", "radix"])
def test_a_second_release_changes_nothing(cache: str) -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64, page_size=4), num_slots=64, cache=cache)
    first, _other = stack.admit(9, 6)
    stack.release(first)
    before = (stack.pool.available_size(), stack.allocator.available_size(), stack.tree.evictable_size())
    release_kv_cache(first, stack.tree)
    assert (
        stack.pool.available_size(),
        stack.allocator.available_size(),
        stack.tree.evictable_size(),
    ) == before
    stack.release_all()
    assert stack.lost_slots() == 0
