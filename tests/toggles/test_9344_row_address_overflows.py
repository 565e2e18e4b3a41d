"""Guard of 9344: the address of a row is right beyond 2^31 elements."""

from __future__ import annotations

import pytest
import torch

from kvcore.kernels.addressing import row_offsets


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize(("row", "width"), [(598, 3_600_000), (2**20, 2**12), (7, 3)])
def test_the_first_element_of_a_row_is_row_times_width(row: int, width: int, dtype: torch.dtype) -> None:
    offsets = row_offsets(torch.tensor([0, row], dtype=dtype), width)
    assert offsets.tolist() == [0, row * width]
