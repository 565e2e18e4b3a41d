"""The decoder's keys and values in kvcore's pools.

The decoder computes on the host; what it stores travels to the pool's device, and back when it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kvcore.allocators import SWAAllocator
from kvcore.pools.kv import KVWriteLoc
from kvcore.pools.mha import MHATokenToKVPool
from kvcore.pools.swa_kv import SWAKVPool

if TYPE_CHECKING:
    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.simulate.compute.decoder import DecoderShape
    from kvcore.simulate.compute.paged import KvStore


class FullStore:
    """All layers in one pool."""

    def __init__(self, pool: MHATokenToKVPool) -> None:
        self._pool = pool

    def write(self, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        """Through the pool's ``set_kv_buffer``."""
        device = self._pool.device
        self._pool.set_kv_buffer(layer, slots, key.to(device), value.to(device))

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of the layer's buffers."""
        keys, values = self._pool.get_kv_buffer(layer)
        return keys[slots].cpu(), values[slots].cpu()

    def move(self, targets: torch.Tensor, sources: torch.Tensor) -> None:
        """Through the pool's ``move_kv_cache``."""
        self._pool.move_kv_cache(targets, sources)


class WindowStore:
    """Layer 0 in the window pool, the others in the full one; what left the window reads as page 0."""

    def __init__(self, pool: SWAKVPool) -> None:
        self._pool = pool

    def write(self, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        """Through the pool's ``set_kv_buffer``, with translated slots."""
        device = self._pool.device
        loc = KVWriteLoc(slots, self._pool.translate_loc_from_full_to_swa(slots))
        self._pool.set_kv_buffer(layer, loc, key.to(device), value.to(device))

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of the layer's buffers, by that layer's kind of slots."""
        if self._pool.layers_mapping[layer].is_swa:
            slots = self._pool.translate_loc_from_full_to_swa(slots)
        keys, values = self._pool.get_kv_buffer(layer)
        return keys[slots].cpu(), values[slots].cpu()

    def move(self, targets: torch.Tensor, sources: torch.Tensor) -> None:
        """Through the pool's ``move_kv_cache``."""
        self._pool.move_kv_cache(targets, sources)


def build_store(allocator: TokenToKVPoolAllocator, shape: DecoderShape) -> KvStore:
    """Pools of the sizes that ``allocator`` hands out, for a decoder of ``shape``, in float32."""
    layers = list(range(shape.num_layers))
    if isinstance(allocator, SWAAllocator):
        pool = SWAKVPool(
            allocator.size_full,
            allocator.size_swa,
            allocator.page_size,
            dtype=torch.float32,
            head_num=shape.num_kv_heads,
            head_dim=shape.head_dim,
            full_layer_ids=[layer for layer in layers if shape.window_of(layer) is None],
            swa_layer_ids=[layer for layer in layers if shape.window_of(layer) is not None],
            device=allocator.device,
        )
        pool.register_mapping(allocator.full_to_swa_index_mapping)
        return WindowStore(pool)
    return FullStore(
        MHATokenToKVPool(
            allocator.size,
            allocator.page_size,
            dtype=torch.float32,
            head_num=shape.num_kv_heads,
            head_dim=shape.head_dim,
            layer_num=shape.num_layers,
            device=allocator.device,
        )
    )
