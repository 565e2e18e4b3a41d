"""Keys and values of multi-head (and grouped-query) attention, token major or page major."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kvcore import kernels
from kvcore.kernels.kv_store import check_slot_range
from kvcore.pools.kv import CPU_COPY_CHUNK, KVPool, KVWriteLoc, TokenMajorPool

if TYPE_CHECKING:
    from collections.abc import Sequence


class MHATokenToKVPool(TokenMajorPool):
    """Per layer K [size + page_size, heads, head_dim] and V [.., heads, v_head_dim].

    ``size`` and ``page_size`` are in slots. ``dtype`` is what attention reads: floats of 16 or 32 bits are
    stored as they are, those of 8 bits as ``uint8``. ``start_layer`` is the model's number of the first of
    ``layer_num`` layers. Raises ConfigurationError for a size that is no whole number of pages.
    """

    def __init__(
        self,
        size: int,
        page_size: int,
        *,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        layer_num: int,
        device: torch.device | str,
        v_head_dim: int | None = None,
        start_layer: int = 0,
    ) -> None:
        super().__init__(
            size, page_size, dtype=dtype, layer_num=layer_num, device=device, start_layer=start_layer
        )
        self.head_num = head_num
        self.head_dim = head_dim
        self.v_head_dim = head_dim if v_head_dim is None else v_head_dim
        self._make_buffers([(head_num, head_dim), (head_num, self.v_head_dim)])

    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of one layer; views."""
        layer = self.local_layer(layer_id)
        return self._view(self._buffers[layer]), self._view(self._buffers[self.layer_num + layer])

    def set_kv_buffer(
        self,
        layer_id: int,
        loc: torch.Tensor | KVWriteLoc,
        k: torch.Tensor,
        v: torch.Tensor,
        k_scale: float | torch.Tensor | None = None,
        v_scale: float | torch.Tensor | None = None,
    ) -> None:
        """Write the KV of new tokens, [n, heads, dim], to their slots.

        Raises SlotOutOfRange, with nothing written, for a slot outside ``0..size + page_size - 1`` (on CUDA
        such slots are skipped, a check would wait for the device).
        """
        slots = loc.loc if isinstance(loc, KVWriteLoc) else loc
        layer = self.local_layer(layer_id)
        kernels.store_kv(
            self._buffers[layer],
            self._buffers[self.layer_num + layer],
            slots,
            self.quantize(k, k_scale),
            self.quantize(v, v_scale),
        )


class PagedMHATokenToKVPool(KVPool):
    """The same keys and values page major: [num_pages + 1, heads, page_size, dim] ("HND").

    Arguments and errors are those of ``MHATokenToKVPool``.
    """

    def __init__(
        self,
        size: int,
        page_size: int,
        *,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        layer_num: int,
        device: torch.device | str,
        v_head_dim: int | None = None,
        start_layer: int = 0,
    ) -> None:
        super().__init__(
            size, page_size, dtype=dtype, layer_num=layer_num, device=device, start_layer=start_layer
        )
        self.head_num = head_num
        self.head_dim = head_dim
        self.v_head_dim = head_dim if v_head_dim is None else v_head_dim
        num_pages = self.num_rows // page_size
        self._buffers = [
            torch.zeros((num_pages, head_num, page_size, dim), dtype=self.store_dtype, device=self.device)
            for dim in (head_dim, self.v_head_dim)
            for _ in range(layer_num)
        ]

    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of one layer, page major; views."""
        layer = self.local_layer(layer_id)
        k, v = self._buffers[layer], self._buffers[self.layer_num + layer]
        return (k.view(self.dtype), v.view(self.dtype)) if self.store_dtype != self.dtype else (k, v)

    def set_kv_buffer(
        self,
        layer_id: int,
        loc: torch.Tensor | KVWriteLoc,
        k: torch.Tensor,
        v: torch.Tensor,
        k_scale: float | torch.Tensor | None = None,
        v_scale: float | torch.Tensor | None = None,
    ) -> None:
        """Write the KV of new tokens, [n, heads, dim], to their slots; raises like the other layout."""
        slots = loc.loc if isinstance(loc, KVWriteLoc) else loc
        layer = self.local_layer(layer_id)
        kernels.store_kv_paged(
            self._buffers[layer],
            self._buffers[self.layer_num + layer],
            slots,
            self.quantize(k, k_scale),
            self.quantize(v, v_scale),
        )

    def move_kv_cache(self, target_slots: torch.Tensor, source_slots: torch.Tensor) -> None:
        """Copy tokens between slots, buffer by buffer; a gather is complete before its scatter starts."""
        for slots in (source_slots, target_slots):
            if slots.is_cpu and slots.numel():
                check_slot_range(slots, self._buffers[0].shape[0] * self.page_size)
        source_pages, source_offsets = self._split(source_slots)
        target_pages, target_offsets = self._split(target_slots)
        for buffer in self._buffers:
            buffer[target_pages, :, target_offsets] = buffer[source_pages, :, source_offsets]

    def get_cpu_copy(self, slots: torch.Tensor) -> list[list[torch.Tensor]]:
        """Tokens of all buffers, [n, heads, dim], in chunks of ``CPU_COPY_CHUNK`` slots."""
        copy = []
        for chunk in torch.split(slots, CPU_COPY_CHUNK):
            pages, offsets = self._split(chunk)
            copy.append([buffer[pages, :, offsets].cpu() for buffer in self._buffers])
        return copy

    def load_cpu_copy(self, copy: Sequence[Sequence[torch.Tensor]], slots: torch.Tensor) -> None:
        """Write the tokens back, chunk by chunk."""
        for chunk, rows in zip(torch.split(slots, CPU_COPY_CHUNK), copy, strict=True):
            pages, offsets = self._split(chunk)
            for buffer, values in zip(self._buffers, rows, strict=True):
                buffer[pages, :, offsets] = values.to(self.device, non_blocking=True)

    def bytes_used(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.numel() * buffer.element_size() for buffer in self._buffers)

    def _split(self, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return slots // self.page_size, slots % self.page_size
