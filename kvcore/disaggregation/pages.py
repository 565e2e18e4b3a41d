"""Slots as whole pages, the unit in which KV travels between machines; the host reads them, so it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvcore.page_math import ceil_div

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


def kv_to_page_indices(slots: torch.Tensor, page_size: int) -> NDArray[np.int64]:
    """Page ids of a page-regular run of slots (int [n]) that starts on a page boundary; int64 [pages].

    Only the last page may be partly covered. AssertionError when the run starts inside a page.
    """
    heads = slots[::page_size].cpu().numpy().astype(np.int64)
    inside = heads % page_size
    assert not inside.any(), f"slot {heads[inside.argmax()]} is not the first of a page of {page_size}"
    return heads // page_size


def kv_to_page_num(num_tokens: int, page_size: int) -> int:
    """Pages that ``num_tokens`` tokens cover."""
    return ceil_div(num_tokens, page_size)
