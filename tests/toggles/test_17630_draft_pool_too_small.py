"""Guard of 17630: a draft model can store at every slot that a row of the target may hold."""

from __future__ import annotations

import torch

from kvcore.allocators.swa import SWAAllocator
from kvcore.errors import SlotOutOfRange
from kvcore.kernels import store_kv
from kvcore.pools.draft import make_draft_pool
from kvcore.pools.swa_kv import SWAKVPool


def test_the_draft_pool_has_a_row_for_every_slot() -> None:
    target = SWAKVPool(
        32,
        8,
        4,
        dtype=torch.float32,
        head_num=1,
        head_dim=2,
        full_layer_ids=[0],
        swa_layer_ids=[1],
        device="cpu",
    )
    allocator = SWAAllocator(32, 32, 4, device="cpu")
    slots = allocator.alloc(32)
    assert slots is not None
    draft = make_draft_pool(target, head_num=1, head_dim=2, layer_num=1)
    keys, values = draft.get_kv_buffer(0)
    ones = torch.ones(32, 1, 2)
    try:
        store_kv(keys, values, slots, ones, ones)
    except SlotOutOfRange as error:
        raise AssertionError(
            f"the draft model cannot store what the target's rows lead to: {error}"
        ) from error
    assert keys[slots].eq(1).all()
