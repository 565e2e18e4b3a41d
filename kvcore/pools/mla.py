"""The compressed keys and values of multi-head latent attention: one latent vector per token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore import kernels
from kvcore.pools.kv import KVWriteLoc, TokenMajorPool

if TYPE_CHECKING:
    import torch


class MLATokenToKVPool(TokenMajorPool):
    """Per layer one buffer [size + page_size, 1, lora + rope]; the values are its first ``lora`` columns.

    The other arguments, and errors, are those of ``MHATokenToKVPool``.
    """

    def __init__(
        self,
        size: int,
        page_size: int,
        *,
        dtype: torch.dtype,
        kv_lora_rank: int,
        qk_rope_head_dim: int,
        layer_num: int,
        device: torch.device | str,
        start_layer: int = 0,
    ) -> None:
        super().__init__(
            size, page_size, dtype=dtype, layer_num=layer_num, device=device, start_layer=start_layer
        )
        self.kv_lora_rank = kv_lora_rank
        self.qk_rope_head_dim = qk_rope_head_dim
        self._make_buffers([(1, kv_lora_rank + qk_rope_head_dim)])

    def get_kv_buffer(self, layer_id: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The latent vectors, and their value part; views of one buffer."""
        latent = self._view(self._buffers[self.local_layer(layer_id)])
        return latent, latent[..., : self.kv_lora_rank]

    def set_mla_kv_buffer(
        self, layer_id: int, loc: torch.Tensor | KVWriteLoc, k_nope: torch.Tensor, k_rope: torch.Tensor
    ) -> None:
        """Write ``k_nope`` [n, 1, lora] and ``k_rope`` [n, 1, rope] side by side to the slots of new tokens.

        Raises SlotOutOfRange, with nothing written, for a slot outside ``0..size + page_size - 1`` (not on
        CUDA).
        """
        slots = loc.loc if isinstance(loc, KVWriteLoc) else loc
        kernels.store_mla_kv(
            self._buffers[self.local_layer(layer_id)],
            slots,
            self.quantize(k_nope, None),
            self.quantize(k_rope, None),
        )
