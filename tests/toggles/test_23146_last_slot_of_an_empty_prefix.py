"""Guard of 23146: the last location of every prefix is its row's, and -1 where there is none."""

from __future__ import annotations

import pytest
import torch

from kvcore.allocation import get_last_loc


@pytest.mark.parametrize("rows_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("lens_dtype", [torch.int32, torch.int64])
def test_an_empty_prefix_has_no_last_slot(rows_dtype: torch.dtype, lens_dtype: torch.dtype) -> None:
    table = torch.arange(40, dtype=torch.int32).view(4, 10)
    rows = torch.tensor([1, 2, 3, 1], dtype=rows_dtype)
    lens = torch.tensor([0, 4, 0, 10], dtype=lens_dtype)
    last = get_last_loc(table, rows, lens)
    assert last.dtype == lens_dtype
    assert last.tolist() == [-1, 23, -1, 19]
