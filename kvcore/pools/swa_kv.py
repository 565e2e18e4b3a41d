"""Keys and values of models with full and sliding-window layers: two pools behind one set of slots.

layer        pool      slot of token t
full         full      row[t]
window       window    mapping[row[t]]     0 once it has left the window
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from kvcore.errors import ConfigurationError
from kvcore.pools.kv import CPU_COPY_CHUNK, KVPool, KVWriteLoc
from kvcore.pools.mha import MHATokenToKVPool

if TYPE_CHECKING:
    from collections.abc import Sequence


class LayerPlace(NamedTuple):
    """Where a layer of the model lives."""

    local_index: int
    """Among the layers of its pool."""
    is_swa: bool


class SWAKVPool(KVPool):
    """A full pool of ``size`` slots and a window pool of ``size_swa``, each with its own layers.

    ``register_mapping`` must have been called, with the mapping of the allocator that hands out both pools'
    slots, before anything is moved or copied. ``full_layer_ids`` and ``swa_layer_ids`` are the model's layer
    numbers; all layers have the same heads. Raises ConfigurationError where a layer is in both, a kind has
    none, or a pool is no whole pages.
    """

    def __init__(
        self,
        size: int,
        size_swa: int,
        page_size: int,
        *,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        full_layer_ids: Sequence[int],
        swa_layer_ids: Sequence[int],
        device: torch.device | str,
        v_head_dim: int | None = None,
    ) -> None:
        layers = sorted((*full_layer_ids, *swa_layer_ids))
        if not full_layer_ids or not swa_layer_ids or len(set(layers)) != len(layers):
            raise ConfigurationError(
                f"every layer is full or windowed, and there are both kinds; found full "
                f"{list(full_layer_ids)} and windowed {list(swa_layer_ids)}"
            )
        super().__init__(
            size, page_size, dtype=dtype, layer_num=len(layers), device=device, start_layer=layers[0]
        )
        self.size_swa = size_swa
        self.layers_mapping = {
            layer_id: LayerPlace(index, is_swa)
            for is_swa, layer_ids in ((False, full_layer_ids), (True, swa_layer_ids))
            for index, layer_id in enumerate(layer_ids)
        }
        self.full_kv_pool, self.swa_kv_pool = (
            MHATokenToKVPool(
                num_slots,
                page_size,
                dtype=dtype,
                head_num=head_num,
                head_dim=head_dim,
                v_head_dim=v_head_dim,
                layer_num=num_layers,
                device=device,
            )
            for num_slots, num_layers in ((size, len(full_layer_ids)), (size_swa, len(swa_layer_ids)))
        )
        self._mapping: torch.Tensor | None = None

    @property
    def window_size(self) -> int:
        """Slots of the window pool."""
        return self.size_swa

    def register_mapping(self, full_to_swa_index_mapping: torch.Tensor) -> None:
        """Follow the allocator's mapping (int64 [size + page_size + 1]) from now on; it is not copied."""
        self._mapping = full_to_swa_index_mapping

    def translate_loc_from_full_to_swa(self, slots: torch.Tensor) -> torch.Tensor:
        """Window slots of full slots: int64, 0 where there is none."""
        if self._mapping is None:
            raise ConfigurationError(
                "no mapping to the window pool yet; call register_mapping with the allocator's"
            )
        return self._mapping[slots]

    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of one layer, rows by slots of that layer's pool; views."""
        pool, index = self._place(layer_id)
        return pool.get_kv_buffer(index)

    def set_kv_buffer(
        self,
        layer_id: int,
        loc: KVWriteLoc,
        k: torch.Tensor,
        v: torch.Tensor,
        k_scale: float | torch.Tensor | None = None,
        v_scale: float | torch.Tensor | None = None,
    ) -> None:
        """Write the KV of new tokens, [n, heads, dim]; window layers write to ``loc.swa_loc``."""
        pool, index = self._place(layer_id)
        slots = loc.loc
        if self.layers_mapping[layer_id].is_swa:
            if loc.swa_loc is None:
                raise ConfigurationError(
                    f"layer {layer_id} has a window, but the write carries no window slots"
                )
            slots = loc.swa_loc
        pool.set_kv_buffer(index, slots, k, v, k_scale, v_scale)

    def move_kv_cache(self, target_slots: torch.Tensor, source_slots: torch.Tensor) -> None:
        """Copy tokens between slots in both pools; both ends are inside the window, or both are not.

        Tokens without a window slot copy the reserved page onto itself.
        """
        self.full_kv_pool.move_kv_cache(target_slots, source_slots)
        self.swa_kv_pool.move_kv_cache(
            self.translate_loc_from_full_to_swa(target_slots),
            self.translate_loc_from_full_to_swa(source_slots),
        )

    def get_cpu_copy(self, slots: torch.Tensor) -> list[list[torch.Tensor]]:
        """Per chunk: which tokens have a window slot (bool [n]), full rows, window rows of those tokens."""
        copy = []
        for chunk in torch.split(slots, CPU_COPY_CHUNK):
            window_slots = self.translate_loc_from_full_to_swa(chunk)
            mapped = window_slots > 0
            [full] = self.full_kv_pool.get_cpu_copy(chunk)
            [window] = self.swa_kv_pool.get_cpu_copy(window_slots[mapped])
            copy.append([mapped.cpu(), *full, *window])
        return copy

    def load_cpu_copy(self, copy: Sequence[Sequence[torch.Tensor]], slots: torch.Tensor) -> None:
        """Write tokens back to slots that lead to the window pool wherever the copied ones did."""
        num_full = 2 * self.full_kv_pool.layer_num
        for chunk, (mapped, *rows) in zip(torch.split(slots, CPU_COPY_CHUNK), copy, strict=True):
            window_slots = self.translate_loc_from_full_to_swa(chunk)[mapped.to(self.device)]
            self.full_kv_pool.load_cpu_copy([rows[:num_full]], chunk)
            self.swa_kv_pool.load_cpu_copy([rows[num_full:]], window_slots)

    def bytes_used(self) -> int:
        """Bytes of all buffers of both pools."""
        return self.full_kv_pool.bytes_used() + self.swa_kv_pool.bytes_used()

    def _place(self, layer_id: int) -> tuple[MHATokenToKVPool, int]:
        place = self.layers_mapping.get(layer_id)
        if place is None:
            raise ConfigurationError(
                f"layer {layer_id} is not in this pool, which holds {sorted(self.layers_mapping)}"
            )
        return (self.swa_kv_pool if place.is_swa else self.full_kv_pool), place.local_index
