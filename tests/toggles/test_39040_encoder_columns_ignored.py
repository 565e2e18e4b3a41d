"""Guard of 39040: behind an encoder, a new token gets a slot that no other token of the request has."""

from __future__ import annotations

import pytest

from kvcore.req import Req
from kvcore.server_args import ServerArgs
from tests.toggles.small_stack import SmallStack


@pytest.mark.parametrize("decoder_len", [3, 5])
def test_the_new_slot_is_not_in_the_row_yet(decoder_len: int) -> None:
    stack = SmallStack(server_args=ServerArgs(context_len=64, page_size=4))
    encoder_len = 8
    tokens = list(range(encoder_len + decoder_len))
    req = Req(rid="r", origin_input_ids=tokens, encoder_len=encoder_len)
    req.fill_ids, req.extend_len = tokens, len(tokens)
    batch = stack.new_batch([req])
    batch.prepare_for_extend()
    before = stack.row(req).tolist()
    batch.prepare_for_decode()
    new_slot = int(batch.out_cache_loc[0])
    assert new_slot not in before, f"slot {new_slot} already holds token {before.index(new_slot)}"
    after = stack.row(req).tolist()
    assert after == [*before, new_slot]
