"""Eviction asks for what is missing, in the pool where it is missing; errors say what is left in each pool."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcore.capacity import available_and_evictable_str, evict_from_tree_cache, out_of_slots
from kvcore.errors import OutOfSlots
from tests.kvcore.factories import make_req, make_stack


def filled(cache: str, num_leaves: int, *, size: int, size_swa: int | None = None):
    """A stack whose tree holds ``num_leaves`` unrelated prompts of four tokens."""
    stack = make_stack(cache, size=size, size_swa=size_swa, rows=4)
    for i in range(num_leaves):
        stack.finish(stack.cached(make_req(str(i), origin_input_ids=[100 + i] * 4, max_new_tokens=1)))
    return stack


@given(num_leaves=st.integers(0, 20), wanted=st.integers(0, 120))
def test_what_is_evicted_is_what_is_missing_and_at_most_one_leaf_more(num_leaves, wanted):
    stack = filled("radix", num_leaves, size=100)
    free, evictable = stack.allocator.available_size(), stack.tree.evictable_size()
    evict_from_tree_cache(stack.tree, stack.allocator, wanted)
    evicted = evictable - stack.tree.evictable_size()
    missing = min(max(0, wanted - free), evictable)
    assert missing <= evicted < missing + 4
    assert stack.allocator.available_size() == free + evicted


def test_without_a_cache_nothing_is_evicted():
    stack = make_stack("chunk", size=16)
    before = stack.snapshot()
    evict_from_tree_cache(None, stack.allocator, 100)
    evict_from_tree_cache(stack.tree, stack.allocator, 100)
    assert before.differences(stack.snapshot()) == []


def test_a_short_window_pool_is_evicted_for_alone():
    """The full slots of what left the window stay in the tree, as a tombstone."""
    stack = make_stack("swa", size=256, size_swa=64)
    stack.finish(stack.cached(make_req("old", origin_input_ids=[9] * 48, max_new_tokens=1)))
    stack.finish(stack.cached(make_req("branch", origin_input_ids=[9] * 40 + [8] * 8, max_new_tokens=1)))
    full, window = stack.allocator.full_available_size(), stack.allocator.swa_available_size()
    evict_from_tree_cache(stack.tree, stack.allocator, window + 1)
    assert stack.allocator.swa_available_size() > window
    assert stack.allocator.full_available_size() - full <= 16
    stack.check()


def test_errors_name_sizes_and_the_next_step():
    stack = filled("radix", 3, size=100)
    error = out_of_slots("Prefill out of memory", 500, stack.tree, stack.allocator)
    assert isinstance(error, OutOfSlots)
    assert isinstance(error, RuntimeError)
    assert str(error) == (
        "Prefill out of memory. Try to lower your batch size.\n"
        "Try to allocate 500 tokens.\n"
        "Available tokens: 100 (available_size=88 + evictable_size=12)"
    )


@pytest.mark.parametrize("cache", ["swa", "swa_chunk"])
def test_both_pools_are_named(cache):
    stack = make_stack(cache, size=256, size_swa=64)
    batch = stack.cached(make_req("r", 20, max_new_tokens=1))
    stack.finish(batch)
    cached = 20 if cache == "swa" else 0
    assert available_and_evictable_str(stack.tree, stack.allocator).splitlines() == [
        f"Available full tokens: 256 (available_size={256 - cached} + evictable_size={cached})",
        f"Available window tokens: 64 (available_size={64 - cached} + evictable_size={cached})",
    ]


def test_without_a_cache_the_free_slots_are_named():
    stack = make_stack("chunk", size=16)
    assert available_and_evictable_str(None, stack.allocator) == (
        "Available tokens: 16 (available_size=16 + evictable_size=0)"
    )
