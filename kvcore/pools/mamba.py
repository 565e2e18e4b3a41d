"""The recurrent states of linear-attention layers: what a state slot holds.

    conv[i]    [layers, size + 1, *shape]     the last inputs of a short convolution
    temporal   [layers, size + 1, *shape]     the recurrent state itself

Slot 0 takes the writes of padded lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch

from kvcore.errors import ConfigurationError
from kvcore.kernels.addressing import upload

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaStateShape:
    """One state, in all layers."""

    num_layers: int
    conv_shapes: tuple[tuple[int, ...], ...]
    """One per convolution, such as (channels, kernel width - 1)."""
    temporal_shape: tuple[int, ...]
    """Such as (heads, head dim, state dim)."""
    conv_dtype: torch.dtype = torch.bfloat16
    temporal_dtype: torch.dtype = torch.float32

    @property
    def bytes_per_slot(self) -> int:
        """Bytes of one state."""
        conv = sum(prod(shape) for shape in self.conv_shapes) * self.conv_dtype.itemsize
        return self.num_layers * (conv + prod(self.temporal_shape) * self.temporal_dtype.itemsize)


class MambaStatePool:
    """States ``0..size``; with speculation also one state per draft token for every request.

    ``num_draft_tokens`` > 0 adds intermediates, [layers, max_running_requests + 1, num_draft_tokens, *shape],
    from which the state after the accepted tokens is taken; their second index is a row's place in the batch.
    Raises ConfigurationError for less than one state.
    """

    def __init__(
        self,
        size: int,
        shape: MambaStateShape,
        *,
        device: torch.device | str,
        max_running_requests: int = 0,
        num_draft_tokens: int = 0,
    ) -> None:
        if size < 1:
            raise ConfigurationError(f"a state pool needs at least one slot, found {size}")
        self.size = size
        self.shape = shape
        self.device = torch.device(device)
        layers = shape.num_layers
        self.conv = [self._zeros((layers, size + 1, *conv), shape.conv_dtype) for conv in shape.conv_shapes]
        self.temporal = self._zeros((layers, size + 1, *shape.temporal_shape), shape.temporal_dtype)
        drafts = (layers, max_running_requests + 1, num_draft_tokens) if num_draft_tokens else (0,)
        self.intermediate_conv = [
            self._zeros((*drafts, *conv), shape.conv_dtype) for conv in shape.conv_shapes
        ]
        self.intermediate_temporal = self._zeros((*drafts, *shape.temporal_shape), shape.temporal_dtype)

    def clear_slots(self, slots: Sequence[int]) -> None:
        """Zero the states in ``slots``, in all layers."""
        index = self._upload(slots)
        for buffer in (*self.conv, self.temporal):
            buffer.index_fill_(1, index, 0)

    def copy_from(self, source_slots: Sequence[int], target_slots: Sequence[int]) -> None:
        """Copy states in all layers; every source is read before any target is written."""
        sources, targets = self._upload(source_slots), self._upload(target_slots)
        for buffer in (*self.conv, self.temporal):
            buffer.index_copy_(1, targets, buffer.index_select(1, sources))

    def commit_drafts(
        self, slots: Sequence[int], places: Sequence[int], accepted_lens: Sequence[int]
    ) -> None:
        """Make the state after the last accepted draft token the state of each request.

        ``places[i]`` is where request ``i`` stands in the intermediates, ``accepted_lens[i]`` >= 1 how many
        tokens of the step are kept.
        """
        targets, rows = self._upload(slots), self._upload(places)
        last = self._upload([accepted_len - 1 for accepted_len in accepted_lens])
        pairs = zip(
            (*self.conv, self.temporal), (*self.intermediate_conv, self.intermediate_temporal), strict=True
        )
        for buffer, intermediate in pairs:
            buffer.index_copy_(1, targets, intermediate[:, rows, last])

    def _zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def _upload(self, values: Sequence[int]) -> torch.Tensor:
        return upload(np.array(values, dtype=np.int64), self.device)
