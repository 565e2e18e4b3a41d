"""A forward pass of the decoder whose keys and values live in a pool and are found through rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from kvcore.simulate.compute.decoder import attend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.simulate.compute.decoder import Decoder


class KvStore(Protocol):
    """Where keys and values are kept; slots are those of the full pool, int64."""

    def write(self, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        """Store float32 [n, num_kv_heads, head_dim] at ``slots`` [n]."""
        ...

    def read(self, layer: int, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values at ``slots`` [m], float32 [m, num_kv_heads, head_dim]."""
        ...

    def move(self, targets: torch.Tensor, sources: torch.Tensor) -> None:
        """Copy all layers' rows at ``sources`` to ``targets``, as if all were read first."""
        ...


@dataclass(frozen=True, slots=True)
class Segment:
    """The tokens of one request in one forward pass: n are computed, m are read (the n among them)."""

    token_ids: Sequence[int]
    positions: torch.Tensor
    """int64 [n]"""
    write_slots: torch.Tensor
    """int64 [n]"""
    read_slots: torch.Tensor
    """int64 [m]"""
    read_positions: torch.Tensor
    """int64 [m]"""
    visible: torch.Tensor
    """bool [n, m]: causal, or the ancestors in a draft tree; windows come on top."""


def causal_segment(
    token_ids: Sequence[int], start: int, write_slots: torch.Tensor, row: torch.Tensor
) -> Segment:
    """Tokens ``[start, start + n)`` of a request, after what ``row`` (integers [start + n]) already holds."""
    end = start + len(token_ids)
    positions = torch.arange(start, end)
    read_positions = torch.arange(end)
    return Segment(
        token_ids=token_ids,
        positions=positions,
        write_slots=write_slots.to(torch.int64),
        read_slots=row[:end].to(torch.int64),
        read_positions=read_positions,
        visible=positions[:, None] >= read_positions[None, :],
    )


def paged_logits(decoder: Decoder, store: KvStore, segments: list[Segment]) -> list[torch.Tensor]:
    """Logits [n, vocab_size] of every segment; a layer writes all keys and values first."""
    sizes = [len(segment.token_ids) for segment in segments]
    positions = torch.cat([segment.positions for segment in segments])
    slots = torch.cat([segment.write_slots for segment in segments])
    hidden = decoder.embed([token for segment in segments for token in segment.token_ids], positions)
    for layer in range(decoder.shape.num_layers):
        query, key, value = decoder.project(layer, hidden, positions)
        store.write(layer, slots, key, value)
        window = decoder.shape.window_of(layer)
        attended = [
            attend(part, *store.read(layer, segment.read_slots), _mask(segment, window))
            for part, segment in zip(torch.split(query, sizes), segments, strict=True)
        ]
        hidden = decoder.finish_layer(layer, hidden, torch.cat(attended))
    return list(torch.split(decoder.logits(hidden), sizes))


def _mask(segment: Segment, window: int | None) -> torch.Tensor:
    if window is None:
        return segment.visible
    distance = segment.positions[:, None] - segment.read_positions[None, :]
    return segment.visible & (distance <= window)
