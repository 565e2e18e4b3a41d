"""A small decoder with random weights: what it says does not matter, only that every key and value counts.

Grouped-query attention with rotary positions, a gated feed-forward part and root-mean-square norms, in
float32. Attention is kept nearly uniform (small queries), so that each token read has a share of about ``1 /
context`` in the result and none can be wrong unseen. Nothing here knows a cache: keys and values come from
whoever calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VOCAB_SIZE = 509
"""A prime, so that blocks of consecutive trace ids do not wrap onto each other."""


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """Sizes of the decoder; with the defaults a step of sixteen requests takes a few milliseconds."""

    num_layers: int = 2
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 16
    vocab_size: int = VOCAB_SIZE
    window: int | None = None
    """Earlier tokens that layer 0 sees besides the token itself; ``None``: all layers see everything."""
    max_positions: int = 1024

    @property
    def width(self) -> int:
        """Features of the residual stream."""
        return self.num_heads * self.head_dim

    def window_of(self, layer: int) -> int | None:
        """The window of ``layer``; only layer 0 slides."""
        return self.window if layer == 0 else None


class _Layer(NamedTuple):
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    output: torch.Tensor
    up: torch.Tensor
    gate: torch.Tensor
    down: torch.Tensor


class Projection(NamedTuple):
    """Queries [n, num_heads, head_dim], keys and values [n, num_kv_heads, head_dim] of n tokens."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor


class Decoder:
    """The weights, and the parts of a forward pass between which keys and values are stored and read."""

    def __init__(self, shape: DecoderShape, *, seed: int) -> None:
        self.shape = shape
        generator = torch.Generator().manual_seed(seed)

        def weights(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(rows, columns, generator=generator) * (1.0 / math.sqrt(rows))

        width, kv_width = shape.width, shape.num_kv_heads * shape.head_dim
        self.embedding = torch.randn(shape.vocab_size, width, generator=generator)
        self.head = weights(width, shape.vocab_size)
        self.layers = [
            _Layer(
                query=0.5 * weights(width, width),
                key=weights(width, kv_width),
                value=2.0 * weights(width, kv_width),
                output=2.0 * weights(width, width),
                up=weights(width, 2 * width),
                gate=weights(width, 2 * width),
                down=weights(2 * width, width),
            )
            for _ in range(shape.num_layers)
        ]
        half = shape.head_dim // 2
        self._frequencies = 10_000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
        # Values depend on positions through this; rotation alone reaches only queries and keys.
        self.position_embedding = _table(torch.randn, shape.max_positions, width, seed=seed + 1)
        self._sampling_noise = _table(torch.rand, shape.max_positions, shape.vocab_size, seed=seed + 2)

    def embed(self, token_ids: Sequence[int], positions: torch.Tensor) -> torch.Tensor:
        """Float32 [n, width]; ids of any size are folded into the vocabulary."""
        folded = torch.tensor(token_ids, dtype=torch.int64) % self.shape.vocab_size
        return self.embedding[folded] + self.position_embedding[positions]

    def project(self, layer: int, hidden: torch.Tensor, positions: torch.Tensor) -> Projection:
        """Queries, keys and values of ``hidden`` [n, width] at ``positions`` (int [n])."""
        weights, shape = self.layers[layer], self.shape
        normed = _norm(hidden)
        query = (normed @ weights.query).view(-1, shape.num_heads, shape.head_dim)
        key = (normed @ weights.key).view(-1, shape.num_kv_heads, shape.head_dim)
        value = (normed @ weights.value).view(-1, shape.num_kv_heads, shape.head_dim)
        angles = positions.to(torch.float32)[:, None, None] * self._frequencies
        return Projection(_rotate(query, angles), _rotate(key, angles), value)

    def finish_layer(self, layer: int, hidden: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """The residual stream after ``layer``, given what attention read (float32 [n, width])."""
        weights = self.layers[layer]
        hidden = hidden + attended @ weights.output
        normed = _norm(hidden)
        return hidden + (functional.silu(normed @ weights.gate) * (normed @ weights.up)) @ weights.down

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Float32 [n, vocab_size]."""
        return _norm(hidden) @ self.head

    def sample(self, logits: torch.Tensor, positions: torch.Tensor) -> list[int]:
        """The token after each of ``positions``, drawn at temperature 1; noise depends on positions only.

        The largest logit alone would soon repeat one token for ever, and equal tokens hide an exchange of
        their slots.
        """
        gumbel = -torch.log(-torch.log(self._sampling_noise[positions].clamp(1e-6, 1.0 - 1e-6)))
        tokens: list[int] = (logits + gumbel).argmax(dim=-1).tolist()
        return tokens


def _table(draw: Callable[..., torch.Tensor], num_rows: int, num_columns: int, *, seed: int) -> torch.Tensor:
    """Random rows; the first ones do not depend on how many there are, so decoders of any length agree."""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([draw(num_columns, generator=generator) for _ in range(num_rows)])


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Grouped-query attention of n tokens over m.

    Args:
        query: float32 [n, num_heads, head_dim].
        key, value: float32 [m, num_kv_heads, head_dim]; each serves ``num_heads / num_kv_heads`` query heads.
        mask: bool [n, m], True where the token may be seen; every row needs one True.

    Returns float32 [n, num_heads * head_dim].
    """
    group = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(group, dim=1)
    value = value.repeat_interleave(group, dim=1)
    scores = torch.einsum("nhd,mhd->hnm", query, key) * query.shape[2] ** -0.5
    shares = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    return torch.einsum("hnm,mhd->nhd", shares, value).flatten(1)


def causal_mask(
    query_positions: torch.Tensor, key_positions: torch.Tensor, window: int | None
) -> torch.Tensor:
    """Bool [n, m]: a token sees itself and what is before it, at most ``window`` tokens back."""
    distance = query_positions[:, None] - key_positions[None, :]
    visible = distance >= 0
    return visible if window is None else visible & (distance <= window)


class DensePass(NamedTuple):
    """One pass over a whole sequence, without any cache."""

    logits: torch.Tensor
    """Float32 [n, vocab_size]."""
    key_values: list[tuple[torch.Tensor, torch.Tensor]]
    """Per layer, float32 [n, num_kv_heads, head_dim]."""


def dense_logits(decoder: Decoder, token_ids: Sequence[int]) -> torch.Tensor:
    """The reference: logits of every position of the sequence, computed in one pass without any cache."""
    return dense_pass(decoder, token_ids).logits


def dense_pass(decoder: Decoder, token_ids: Sequence[int]) -> DensePass:
    """Logits, keys and values of the sequence."""
    positions = torch.arange(len(token_ids))
    hidden = decoder.embed(token_ids, positions)
    key_values = []
    for layer in range(decoder.shape.num_layers):
        query, key, value = decoder.project(layer, hidden, positions)
        key_values.append((key, value))
        mask = causal_mask(positions, positions, decoder.shape.window_of(layer))
        hidden = decoder.finish_layer(layer, hidden, attend(query, key, value, mask))
    return DensePass(decoder.logits(hidden), key_values)


def _norm(hidden: torch.Tensor) -> torch.Tensor:
    return hidden * torch.rsqrt(hidden.square().mean(dim=-1, keepdim=True) + 1e-6)


def _rotate(heads: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    first, second = heads.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
