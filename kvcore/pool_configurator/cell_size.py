"""Bytes that one token takes in one layer, and what a draft model adds to all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.page_math import ceil_div

if TYPE_CHECKING:
    import torch

    from kvcore.server_args import SpeculativeAlgorithm


def mha_layer_bytes(head_num: int, head_dim: int, v_head_dim: int, dtype: torch.dtype) -> int:
    """Keys and values of one token; ``head_num`` KV heads of this rank."""
    return head_num * (head_dim + v_head_dim) * dtype.itemsize


def mla_layer_bytes(kv_lora_rank: int, qk_rope_head_dim: int, dtype: torch.dtype) -> int:
    """The latent vector of one token."""
    return (kv_lora_rank + qk_rope_head_dim) * dtype.itemsize


def with_draft_layers(
    cell_size: int, num_layers: int, num_draft_layers: int, algorithm: SpeculativeAlgorithm
) -> int:
    """Bytes per token once a draft model keeps KV of the same width in ``num_draft_layers`` layers.

    Block drafting rounds up, chains and trees round down, as the released configurators do.
    """
    if not algorithm.has_draft_kv():
        return cell_size
    scaled = cell_size * (num_layers + num_draft_layers)
    return ceil_div(scaled, num_layers) if algorithm.drafts_in_blocks() else scaled // num_layers
