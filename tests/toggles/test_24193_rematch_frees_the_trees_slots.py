"""Guard of 24193: a request matched twice never frees slots of the prefix that the tree owns."""

from __future__ import annotations

from kvcore.admission import match_for_admission, set_extend_range
from kvcore.req import Req
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack

TOKENS = list(range(40))


def test_a_longer_second_match_keeps_the_trees_prefix_out_of_the_free_list() -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64, page_size=4), num_slots=256, cache="radix")
    _run_to_the_end(stack, "first", TOKENS[:8])
    waiting = Req(rid="waiting", origin_input_ids=TOKENS)
    assert match_for_admission(waiting, stack.tree) == 8
    _run_to_the_end(stack, "second", TOKENS[:24])
    assert match_for_admission(waiting, stack.tree) == 24
    set_extend_range(waiting, waiting.seqlen, 4)
    batch = stack.new_batch([waiting])
    batch.prepare_for_extend()
    stack.tree.cache_unfinished_req(waiting)
    free = set(stack.allocator.free_page_ids().tolist())
    cached = {slot // 4 for slot in waiting.prefix_indices.tolist()}
    assert not free & cached, f"pages {sorted(free & cached)} are free and cached"
    stack.batch.merge(batch)
    stack.release_all()
    assert stack.lost_slots() == 0
    assert stack.free_twice() == []


def _run_to_the_end(stack: SmallStack, rid: str, tokens: list[int]) -> None:
    req = Req(rid=rid, origin_input_ids=tokens)
    match_for_admission(req, stack.tree)
    set_extend_range(req, req.seqlen, 4)
    batch = stack.new_batch([req])
    batch.prepare_for_extend()
    stack.batch.merge(batch)
    stack.release(req)
