"""Guard of 24745: a request that ends inside a verification is as long as the tokens it kept."""

from __future__ import annotations

from tests.toggles.small_stack import SmallStack, record, speculating


def test_tokens_cut_off_at_the_end_are_not_committed() -> None:
    stack = SmallStack(server_args=speculating(64, page_size=4, steps=3, draft_tokens=4), cache="radix")
    (req,) = stack.admit(10, max_new_tokens=2)
    stack.batch.prepare_for_decode()
    assert stack.batch.advance([[1, 2, 3, 4]]) == [req]
    assert record(req).kv_committed_len == req.seqlen, "KV is counted for tokens that do not exist"
    stack.release_all()
    assert stack.tree.evictable_size() == 12
    assert stack.lost_slots() == 0
