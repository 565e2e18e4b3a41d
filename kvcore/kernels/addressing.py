"""Element addresses of rows in large buffers.

A KV buffer or a row table may hold more than 2^31 elements, while slots and row ids often come as int32.
Every address
is therefore widened to int64 before it is multiplied: 598 * 3_600_000 is -2142167296 in int32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import numpy as np


def row_offsets(rows: torch.Tensor, row_elements: int) -> torch.Tensor:
    """First element of each row, int64 [n], from int32 or int64 row ids; a row has ``row_elements``."""
    rows = rows.to(torch.int64)
    return rows * row_elements


def paged_row_offsets(
    slots: torch.Tensor, *, page_size: int, page_elements: int, row_elements: int
) -> torch.Tensor:
    """First element of each slot in a page-major buffer, int64 [n]; ``slots`` is int32 or int64 [n].

    Pages lie ``page_elements`` apart, the slots of one page ``row_elements`` apart.
    """
    slots = slots.to(torch.int64)
    return slots // page_size * page_elements + slots % page_size * row_elements


def upload(host: np.ndarray, device: torch.device) -> torch.Tensor:
    """A host array as a tensor on ``device``, without a wait; on the CPU it shares the memory."""
    tensor = torch.from_numpy(host)
    if device.type == "cpu":
        return tensor
    if device.type == "cuda":
        # Only a copy from pinned memory returns before it is done.
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
