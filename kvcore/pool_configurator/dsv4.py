"""The sizes of the six pools of compressed attention that share one budget.

    per token             c4 and c128 entries, index entries     1/4, 1/128 and 1/4 of a token's
    per window token      the KV of every layer                  at the ratio to all tokens
    per running request   compress states of both ratios         off the budget first

The pool that rows refer to only numbers tokens; it has no bytes of its own. Bytes that a kernel adds to
align its pages are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvcore.allocators.dsv4_lens import C4_RATIO, C128_RATIO, check_dsv4_page_size, state_pool_size
from kvcore.allocators.dsv4_values import DSV4PoolSizes
from kvcore.errors import NotEnoughMemory
from kvcore.page_math import ceil_div
from kvcore.pool_configurator.swa import SWALayers, configure_swa_pools

if TYPE_CHECKING:
    import torch

_SCALES_BYTES = 8
"""Of one KV entry, whose first part is stored in 8-bit floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DSV4Layers:
    """Layers of a model with compressed attention, and the dimensions of what they keep."""

    num_layers: int
    """All of them keep the KV of the window."""
    num_c4: int
    """Layers that also keep an entry, and an index entry, per 4 tokens."""
    num_c128: int
    """Layers that also keep an entry per 128 tokens."""
    nope_dim: int
    """Dimensions without position, a byte each."""
    rope_dim: int
    """Dimensions with position, two bytes each."""
    index_dim: int
    """Dimensions of the index, a byte each, and 4 bytes of scales for every 128 of them."""
    state_dtype: torch.dtype
    num_draft_layers: int = 0
    """Layers of a draft model, each as large as the average layer."""

    @property
    def kv_entry_bytes(self) -> int:
        """Bytes of one KV entry, of the window or compressed."""
        return self.nope_dim + 2 * self.rope_dim + _SCALES_BYTES

    @property
    def index_entry_bytes(self) -> int:
        """Bytes of one entry of the index."""
        return self.index_dim + self.index_dim // 128 * 4

    @property
    def bytes_per_token(self) -> int:
        """Bytes that a token takes for as long as its request lives, rounded up."""
        c4 = (self.kv_entry_bytes + self.index_entry_bytes) * self.num_c4
        c128 = self.kv_entry_bytes * self.num_c128
        return self._with_drafts(c4 * (C128_RATIO // C4_RATIO) + c128, C128_RATIO)

    @property
    def bytes_per_window_token(self) -> int:
        """Bytes that a token takes while it is inside the window, rounded up."""
        return self._with_drafts(self.kv_entry_bytes * self.num_layers, 1)

    @property
    def c4_state_bytes(self) -> int:
        """One state of ratio 4 in all layers: keys and scores of two overlapping blocks, the index's too."""
        dims = self.nope_dim + self.rope_dim + self.index_dim
        return 4 * dims * self.state_dtype.itemsize * self.num_c4

    @property
    def c128_state_bytes(self) -> int:
        """One state of ratio 128 in all layers: keys and scores of one block."""
        return 2 * (self.nope_dim + self.rope_dim) * self.state_dtype.itemsize * self.num_c128

    def _with_drafts(self, layers_bytes: int, tokens: int) -> int:
        scaled = layers_bytes * (self.num_layers + self.num_draft_layers)
        return ceil_div(scaled, self.num_layers * tokens)


def configure_dsv4_pools(
    budget_bytes: int,
    layers: DSV4Layers,
    page_size: int,
    *,
    sliding_window_size: int,
    full_tokens_ratio: float,
    max_running_requests: int,
    max_total_tokens: int | None = None,
    max_reserve_len: int = 0,
) -> DSV4PoolSizes:
    """Sizes for ``DSV4Allocator``: states for ``max_running_requests``, and the tokens that the rest holds.

    ``max_reserve_len`` is the allocator's: the most tokens that a speculative step reserves for a request.

    The window pool has ``full_tokens_ratio`` (0 < r <= 1) tokens for one of the full; ``max_total_tokens`` is
    the user's limit on those. Raises ConfigurationError for a page size that holds no whole block of 128, a
    ratio out of range or a window pool that one request could fill; NotEnoughMemory when the states leave
    nothing, or not one page fits.
    """
    check_dsv4_page_size(page_size)
    c4_states, c128_states = (
        state_pool_size(ratio, page_size, max_running_requests, max_reserve_len=max_reserve_len)
        for ratio in (C4_RATIO, C128_RATIO)
    )
    states_bytes = c4_states * layers.c4_state_bytes + c128_states * layers.c128_state_bytes
    if states_bytes >= budget_bytes:
        raise NotEnoughMemory(
            f"not enough memory: the compress states of {max_running_requests} requests take {states_bytes} "
            f"of {budget_bytes} bytes; raise mem_fraction_static, or run fewer requests at a time"
        )
    sizes = configure_swa_pools(
        budget_bytes - states_bytes,
        SWALayers(
            num_full=1,
            num_swa=1,
            full_layer_bytes=layers.bytes_per_token,
            swa_layer_bytes=layers.bytes_per_window_token,
        ),
        page_size,
        sliding_window_size=sliding_window_size,
        full_tokens_ratio=full_tokens_ratio,
        max_total_tokens=max_total_tokens,
    )
    return DSV4PoolSizes(
        full=sizes.full,
        swa=sizes.swa,
        c4=sizes.full // C4_RATIO,
        c128=sizes.full // C128_RATIO,
        c4_state=c4_states,
        c128_state=c128_states,
    )
