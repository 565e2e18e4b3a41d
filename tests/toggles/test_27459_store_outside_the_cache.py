"""Guard of 27459: a token without a slot is an error, and no slot changes."""

from __future__ import annotations

import pytest
import torch

from kvcore.errors import SlotOutOfRange
from kvcore.kernels import store_kv


@pytest.mark.parametrize("slot", [-1, -8])
def test_a_store_at_a_negative_slot_changes_nothing(slot: int) -> None:
    keys, values = torch.zeros(8, 1, 4), torch.zeros(8, 1, 4)
    with pytest.raises(SlotOutOfRange, match=r"slots reach from -\d to 2, the cache has 0..7"):
        store_kv(keys, values, torch.tensor([2, slot]), torch.ones(2, 1, 4), torch.ones(2, 1, 4))
    assert not keys.any()
    assert not values.any()
