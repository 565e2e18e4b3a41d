"""Moving KV rows between slots, in all layers at once.

All source rows are read before any target row is written, whatever the overlap: rows are gathered into a
staging buffer first, and scattered from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from kvcore.errors import ConfigurationError
from kvcore.kernels.addressing import upload
from kvcore.kernels.dispatch import load_kernel, runs_on_triton
from kvcore.kernels.kv_store import check_slot_range
from kvcore.page_math import ceil_div

if TYPE_CHECKING:
    from collections.abc import Sequence

_WORD_BLOCK = 256
_WORD_DTYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True)
class BufferTable:
    """The addresses of a pool's buffers, for kernels that work on all layers; built once per pool.

    Holds the buffers alive. Rows are counted in words: the widest unit that fits every row and every address.
    """

    buffers: tuple[torch.Tensor, ...]
    """[num_slots, ...] each, contiguous, on one device."""
    pointers: torch.Tensor
    """int64 [num_buffers] on the device, addresses of row 0."""
    row_words: torch.Tensor
    """int64 [num_buffers] on the device, words per row."""
    max_row_words: int
    num_rows: int
    """Rows that every buffer has."""
    word_dtype: torch.dtype

    @classmethod
    def of(cls, buffers: Sequence[torch.Tensor]) -> BufferTable:
        """Make the table; raises ConfigurationError unless all are contiguous and on one device."""
        if not buffers:
            raise ConfigurationError("a buffer table needs at least one buffer")
        device = buffers[0].device
        for index, buffer in enumerate(buffers):
            if not buffer.is_contiguous() or buffer.device != device:
                raise ConfigurationError(
                    f"buffer {index} is not contiguous on {device}: {buffer.stride()} on {buffer.device}"
                )
        pointers = [buffer.data_ptr() for buffer in buffers]
        row_bytes = [buffer.stride(0) * buffer.element_size() for buffer in buffers]
        word = math.gcd(8, *pointers, *row_bytes)
        row_words = [num_bytes // word for num_bytes in row_bytes]
        return cls(
            buffers=tuple(buffers),
            pointers=upload(np.array(pointers, dtype=np.int64), device),
            row_words=upload(np.array(row_words, dtype=np.int64), device),
            max_row_words=max(row_words),
            num_rows=min(buffer.shape[0] for buffer in buffers),
            word_dtype=_WORD_DTYPES[word],
        )


def copy_kv_pages(
    table: BufferTable, target_slots: torch.Tensor, source_slots: torch.Tensor, *, probe: bool | None = None
) -> None:
    """Copy row ``source_slots[i]`` of every buffer to row ``target_slots[i]``; the two sets may overlap.

    Both are int32 or int64 [n]; targets are distinct. Raises ConfigurationError when their lengths differ,
    and SlotOutOfRange, with nothing written, when the probe fails: it looks whether every slot is in range
    and waits for the device; ``None`` probes on the CPU only. Without it the Triton kernels skip such slots.
    """
    if target_slots.shape != source_slots.shape:
        raise ConfigurationError(
            f"every source needs one target, found {source_slots.shape[0]} and {target_slots.shape[0]}"
        )
    if source_slots.shape[0] == 0:
        return
    if source_slots.is_cpu if probe is None else probe:
        for slots in (source_slots, target_slots):
            check_slot_range(slots, table.num_rows)
    if runs_on_triton(table.pointers):
        _copy_kv_pages_launch(table, target_slots, source_slots)
    else:
        copy_kv_pages_torch(table, target_slots, source_slots)


def copy_kv_pages_torch(table: BufferTable, target_slots: torch.Tensor, source_slots: torch.Tensor) -> None:
    """The torch form of ``copy_kv_pages``."""
    for buffer in table.buffers:
        staged = buffer[source_slots]
        buffer[target_slots] = staged


def _copy_kv_pages_launch(table: BufferTable, target_slots: torch.Tensor, source_slots: torch.Tensor) -> None:
    num_slots, num_buffers = source_slots.shape[0], len(table.buffers)
    staged = torch.empty(
        (num_buffers, num_slots, table.max_row_words), dtype=table.word_dtype, device=table.pointers.device
    )
    grid = (num_slots, num_buffers, ceil_div(table.max_row_words, _WORD_BLOCK))
    # Two launches: the second starts when the first has read everything.
    for name, slots in (("gather_rows_kernel", source_slots), ("scatter_rows_kernel", target_slots)):
        kernel = load_kernel("kv_copy_triton", name)
        kernel[grid](
            table.pointers,
            table.row_words,
            slots.contiguous(),
            staged,
            num_slots,
            table.max_row_words,
            table.num_rows,
            BLOCK=_WORD_BLOCK,
        )
