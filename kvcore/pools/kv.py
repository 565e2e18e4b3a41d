"""What a KV pool is: one buffer, or two, per attention layer, addressed by slot.

    buffer    [size + page_size, ...]    row s = slot s; the first page takes the writes of padded lanes

Eight-bit floats are stored as uint8, because few operations know them, and viewed as floats on the way out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import torch

from kvcore.errors import ConfigurationError
from kvcore.kernels.kv_copy import BufferTable, copy_kv_pages

if TYPE_CHECKING:
    from collections.abc import Sequence

CPU_COPY_CHUNK = 8192
"""Slots that are staged at a time on their way between device and host."""


class KVWriteLoc(NamedTuple):
    """Where the new tokens of a forward go: int32 or int64 [n] slots."""

    loc: torch.Tensor
    """Slots of the full pool, or of the only one."""
    swa_loc: torch.Tensor | None = None
    """The same tokens' slots of the window pool, translated once per forward; ``None`` without one."""


class KVPool(ABC):
    """Keys and values of ``layer_num`` layers, of which the first is the model's layer ``start_layer``."""

    def __init__(
        self,
        size: int,
        page_size: int,
        *,
        dtype: torch.dtype,
        layer_num: int,
        device: torch.device | str,
        start_layer: int = 0,
    ) -> None:
        if size < 0 or page_size < 1 or size % page_size or layer_num < 1 or start_layer < 0:
            raise ConfigurationError(
                f"a KV pool holds whole pages in at least one layer, found size {size}, page_size "
                f"{page_size}, layer_num {layer_num}, start_layer {start_layer}"
            )
        self.size = size
        self.page_size = page_size
        self.dtype = dtype
        self.store_dtype = torch.uint8 if dtype.itemsize == 1 else dtype
        self.layer_num = layer_num
        self.start_layer = start_layer
        self.device = torch.device(device)

    @property
    def num_rows(self) -> int:
        """Rows of each buffer: the slots, and the reserved page."""
        return self.size + self.page_size

    @property
    def full_size(self) -> int:
        """Slots of the pool that rows refer to."""
        return self.size

    @property
    def window_size(self) -> int:
        """Slots of the pool that sliding-window layers use; the same without a second pool."""
        return self.size

    def local_layer(self, layer_id: int) -> int:
        """Index of the model's layer ``layer_id`` in this pool; raises ConfigurationError outside of it."""
        index = layer_id - self.start_layer
        if not 0 <= index < self.layer_num:
            raise ConfigurationError(
                f"layer {layer_id} is not in this pool, which holds layers {self.start_layer} to "
                f"{self.start_layer + self.layer_num - 1}"
            )
        return index

    def quantize(self, values: torch.Tensor, scale: float | torch.Tensor | None) -> torch.Tensor:
        """``values`` in the dtype that the buffers store, if that is a cast divided by ``scale`` first."""
        if values.dtype != self.dtype:
            if scale is not None:
                values = values / scale
            values = values.to(self.dtype)
        return values.view(self.store_dtype) if self.store_dtype != self.dtype else values

    @abstractmethod
    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of one layer, in ``dtype``; views of the buffers."""

    @abstractmethod
    def move_kv_cache(self, target_slots: torch.Tensor, source_slots: torch.Tensor) -> None:
        """Copy the KV in ``source_slots[i]`` to ``target_slots[i]`` in all layers.

        Both are int32 or int64 [n], targets distinct; the two sets may overlap in any way: every source is
        read before any target is written. On the CPU, SlotOutOfRange, with nothing written, for a slot that
        the pool does not have.
        """

    @abstractmethod
    def get_cpu_copy(self, slots: torch.Tensor) -> list[list[torch.Tensor]]:
        """The KV in ``slots`` on the host, in the stored dtype: one list per chunk, one tensor per buffer."""

    @abstractmethod
    def load_cpu_copy(self, copy: Sequence[Sequence[torch.Tensor]], slots: torch.Tensor) -> None:
        """Put what ``get_cpu_copy`` returned into ``slots``, as many as it was taken from."""

    @abstractmethod
    def bytes_used(self) -> int:
        """Bytes of all buffers."""


class TokenMajorPool(KVPool):
    """A pool whose buffers are [num_rows, ...], so that a slot is one row of each."""

    def _make_buffers(self, row_shapes: Sequence[tuple[int, ...]]) -> None:
        """Make one buffer per shape and layer, layers of one shape together."""
        self._buffers = [
            torch.zeros((self.num_rows, *shape), dtype=self.store_dtype, device=self.device)
            for shape in row_shapes
            for _ in range(self.layer_num)
        ]
        self._table = BufferTable.of(self._buffers)

    def move_kv_cache(self, target_slots: torch.Tensor, source_slots: torch.Tensor) -> None:
        """Copy rows between slots, in all buffers at once."""
        copy_kv_pages(self._table, target_slots, source_slots)

    def get_cpu_copy(self, slots: torch.Tensor) -> list[list[torch.Tensor]]:
        """Rows of all buffers, in chunks of ``CPU_COPY_CHUNK`` slots."""
        return [
            [buffer[chunk].cpu() for buffer in self._buffers] for chunk in torch.split(slots, CPU_COPY_CHUNK)
        ]

    def load_cpu_copy(self, copy: Sequence[Sequence[torch.Tensor]], slots: torch.Tensor) -> None:
        """Write the rows back, chunk by chunk."""
        for chunk, rows in zip(torch.split(slots, CPU_COPY_CHUNK), copy, strict=True):
            for buffer, values in zip(self._buffers, rows, strict=True):
                buffer[chunk] = values.to(self.device, non_blocking=True)

    def bytes_used(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.numel() * buffer.element_size() for buffer in self._buffers)

    def _view(self, buffer: torch.Tensor) -> torch.Tensor:
        return buffer.view(self.dtype) if self.store_dtype != self.dtype else buffer
