"""A waiting request holds a lock on what it matched, and prefix, lock and protected length change together."""

from __future__ import annotations

from array import array

import pytest

from kvcore.admission import cancel_admission, match_for_admission, set_extend_range
from kvcore.prefix_cache import maybe_cache_unfinished_req
from kvcore.prefix_cache.base import EvictParams
from tests.kvcore.factories import make_req, make_stack

PAGE_SIZES = [1, 4, 16]


def filled_stack(page_size: int, *lengths: int):
    """A stack whose tree knows prompts 0, 1, 2, ... of these lengths."""
    stack = make_stack("radix", page_size=page_size)
    for length in lengths:
        stack.finish(stack.cached(make_req(f"old-{length}", length, max_new_tokens=1)))
    return stack


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_the_last_token_is_always_computed(page_size):
    stack = filled_stack(page_size, 32)
    req = make_req("same", 32)
    assert match_for_admission(req, stack.tree) == (31 // page_size) * page_size


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_what_matched_cannot_be_evicted(page_size):
    stack = filled_stack(page_size, 32)
    req = make_req("waits", 40)
    assert match_for_admission(req, stack.tree) == 32
    stack.tree.evict(EvictParams(num_tokens=1 << 20))
    assert stack.tree.protected_size() == 32
    stack.batch(stack.queued(req)).prepare_for_extend()
    stack.check(req)


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_second_match_replaces_the_first(page_size):
    """Prefix and protected length grow together; a stale length would free the tree's slots as duplicates."""
    stack = filled_stack(page_size, 16)
    req = make_req("waits", 70)
    match_for_admission(req, stack.tree)
    assert req.matched_protected_len == 16
    stack.finish(stack.cached(make_req("longer", 48, max_new_tokens=1)))
    batch = stack.cached(req)
    assert req.kv.cache_protected_len == 70 // page_size * page_size
    stack.check(req)
    stack.finish(batch)
    stack.checker.check_idle("release")


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_request_that_leaves_the_queue_holds_nothing(page_size):
    stack = filled_stack(page_size, 32)
    before = stack.snapshot()
    req = make_req("leaves", 40)
    stack.queued(req)
    cancel_admission(req, stack.tree)
    assert stack.tree.protected_size() == 0
    assert req.prefix_indices.numel() == req.matched_protected_len == req.extend_len == 0
    assert before.differences(stack.snapshot()) == []
    cancel_admission(req, stack.tree)
    assert stack.tree.protected_size() == 0


def test_requests_of_other_namespaces_share_nothing():
    stack = filled_stack(1, 32)
    assert match_for_admission(make_req("other", 32, extra_key="tenant"), stack.tree) == 0


@pytest.mark.parametrize("spec", [None, "eagle"])
@pytest.mark.parametrize("cache", ["chunk", "radix", "swa", "pure_swa"])
def test_ids_in_an_array_live_the_life_of_ids_in_a_list_and_share_with_them(cache, spec):
    ids = [(1 << 40) + 7 * i for i in range(40)]
    ends = []
    for container in (list, lambda ids: array("q", ids)):
        stack = make_stack(cache, page_size=1, spec=spec)
        for prompt in (ids, container(ids)):
            req = make_req("r", origin_input_ids=prompt, max_new_tokens=9)
            matched = match_for_admission(req, stack.tree)
            if matched == 0:
                set_extend_range(req, len(ids) // 2, 1)
                stack.batch([req]).prepare_for_extend()
                maybe_cache_unfinished_req(req, stack.tree, chunked=True)
            set_extend_range(req, 1 << 30, 1)
            batch = stack.batch([req])
            batch.prepare_for_extend()
            batch.advance([[1]])
            while req.finished_reason is None:
                batch.prepare_for_decode()
                batch.advance([[len(req.output_ids) + 1]])
            stack.check(req)
            assert list(req.token_ids) == [*ids, *range(1, 10)]
            stack.finish(batch)
        ends.append((matched, stack.allocator.available_size(), stack.tree.evictable_size()))
        stack.checker.check_idle("release")

    assert ends[0] == ends[1]
    assert ends[0][0] > 0 or cache == "chunk"
