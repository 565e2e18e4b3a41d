"""Guard of 39948: the address of a slot in a page-major buffer is right beyond 2^31 elements."""

from __future__ import annotations

import pytest
import torch

from kvcore.kernels.addressing import paged_row_offsets


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("slot", [5, 64 * 600_000 + 3])
def test_the_first_element_of_a_slot_is_page_plus_offset(slot: int, dtype: torch.dtype) -> None:
    offsets = paged_row_offsets(
        torch.tensor([slot], dtype=dtype), page_size=64, page_elements=64 * 1024, row_elements=128
    )
    assert offsets.tolist() == [slot // 64 * 64 * 1024 + slot % 64 * 128]
