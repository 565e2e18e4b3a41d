"""The draft model's keys and values: the target's rows, allocator and slots, in buffers of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.pools.mha import MHATokenToKVPool

if TYPE_CHECKING:
    import torch

    from kvcore.pools.kv import KVPool


def make_draft_pool(
    target: KVPool,
    *,
    head_num: int,
    head_dim: int,
    layer_num: int,
    dtype: torch.dtype | None = None,
    v_head_dim: int | None = None,
) -> MHATokenToKVPool:
    """A pool for a draft model that addresses its KV by the slots in the target's rows.

    Those are slots of the target's full pool, which is the larger one of a model with windows; a draft pool
    of the window's size would be written past its end (sgl-project/sglang#17630).
    """
    num_slots = target.full_size
    return MHATokenToKVPool(
        num_slots,
        target.page_size,
        dtype=target.dtype if dtype is None else dtype,
        head_num=head_num,
        head_dim=head_dim,
        v_head_dim=v_head_dim,
        layer_num=layer_num,
        device=target.device,
    )
