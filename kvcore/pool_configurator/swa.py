"""The sizes of a full and a window pool that share one budget.

bytes = full tokens * bytes per token in all full layers + window tokens * bytes per token in all window
layers
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kvcore.allocation_sizing import get_alloc_reserve_per_decode, spec_decode_alloc_len_per_request
from kvcore.errors import ConfigurationError, NotEnoughMemory
from kvcore.page_math import align_down, align_up

if TYPE_CHECKING:
    from kvcore.server_args import ServerArgs


@dataclass(frozen=True, slots=True, kw_only=True)
class SWALayers:
    """Layers and their bytes per token in one layer."""

    num_full: int
    num_swa: int
    full_layer_bytes: int
    swa_layer_bytes: int
    num_draft_full: int = 0
    """Draft layers of the full layers' width; a draft model keeps every token."""
    num_draft_swa: int = 0
    """Draft layers of the window layers' width, which keep every token all the same."""

    @property
    def bytes_per_full_token(self) -> int:
        """Bytes that a token takes for as long as its request lives."""
        return (
            self.full_layer_bytes * (self.num_full + self.num_draft_full)
            + self.swa_layer_bytes * self.num_draft_swa
        )

    @property
    def bytes_per_window_token(self) -> int:
        """Bytes that a token takes while it is inside the window."""
        return self.swa_layer_bytes * self.num_swa


class SWAPoolSizes(NamedTuple):
    """Tokens of both pools, whole pages; ``full`` is 0 for models that are all window."""

    full: int
    swa: int


def configure_swa_pools(
    budget_bytes: int,
    layers: SWALayers,
    page_size: int,
    *,
    sliding_window_size: int,
    full_tokens_ratio: float,
    max_total_tokens: int | None = None,
) -> SWAPoolSizes:
    """Sizes at which the window pool has ``full_tokens_ratio`` (0 < r <= 1) tokens for one of the full.

    Window layers count at that ratio: counted whole, they would leave part of the budget unused
    (sgl-project/sglang#18039). Raises ConfigurationError for a ratio out of range or a window pool that one
    request could fill, NotEnoughMemory when not one page fits.
    """
    if not 0 < full_tokens_ratio <= 1:
        raise ConfigurationError(f"swa_full_tokens_ratio is above 0 and at most 1, found {full_tokens_ratio}")
    if layers.num_full == 0:
        bytes_per_token = layers.bytes_per_window_token + layers.bytes_per_full_token
        swa = _whole_pages(budget_bytes / bytes_per_token, page_size, max_total_tokens)
        return _checked(SWAPoolSizes(0, swa), sliding_window_size, page_size)
    window_bytes = full_tokens_ratio * layers.bytes_per_window_token
    full = _whole_pages(
        budget_bytes / (layers.bytes_per_full_token + window_bytes), page_size, max_total_tokens
    )
    swa = align_down(int(full * full_tokens_ratio), page_size)
    return _checked(SWAPoolSizes(full, swa), sliding_window_size, page_size)


class WindowCap(NamedTuple):
    """What the most window tokens that can be live at a time depend on."""

    max_running_requests: int
    sliding_window_size: int
    eviction_interval: int
    """Decode tokens of a request between two looks for slots that left the window."""
    chunk_size: int
    """Tokens of one chunk of a prompt."""
    decode_extra_slots: int | None = None
    """Requests whose KV is on its way, on the decode side of disaggregation; ``None`` elsewhere."""


def window_cap(cap: WindowCap, args: ServerArgs) -> int:
    """Most window tokens that can be live at a time without a prefix cache, whole pages."""
    page_size = args.alloc_page_size
    stride = cap.eviction_interval * (args.max_speculative_num_draft_tokens or 1)
    per_request = cap.sliding_window_size + stride + page_size + _decode_alloc_len(args)
    num_tokens = per_request * cap.max_running_requests
    if cap.decode_extra_slots is not None:
        num_tokens += (cap.sliding_window_size + page_size) * cap.decode_extra_slots
    else:
        chunks_in_flight = 1 if args.disable_overlap_schedule else 2
        num_tokens += chunks_in_flight * cap.chunk_size + page_size
    return align_up(num_tokens, page_size)


def configure_capped_swa_pools(
    budget_bytes: int,
    layers: SWALayers,
    page_size: int,
    *,
    swa_tokens: int,
    max_total_tokens: int | None = None,
) -> SWAPoolSizes:
    """Sizes at which the window pool has what can be live (``window_cap``), and the full pool the rest.

    For servers without a prefix cache whose number of requests is fixed. Raises NotEnoughMemory when nothing
    is left for the full pool.
    """
    if max_total_tokens is not None:
        swa_tokens = align_down(min(swa_tokens, max_total_tokens), page_size)
    rest = budget_bytes - swa_tokens * layers.bytes_per_window_token
    full = _whole_pages(rest / layers.bytes_per_full_token, page_size, max_total_tokens)
    return SWAPoolSizes(full, swa_tokens)


def _decode_alloc_len(args: ServerArgs) -> int:
    if args.speculative_algorithm is None:
        return args.alloc_page_size
    if args.disable_overlap_schedule:
        return spec_decode_alloc_len_per_request(args)
    return get_alloc_reserve_per_decode(args)


def _whole_pages(num_tokens: float, page_size: int, max_total_tokens: int | None) -> int:
    limited = int(num_tokens) if max_total_tokens is None else min(int(num_tokens), max_total_tokens)
    whole = align_down(limited, page_size)
    if whole <= 0:
        raise NotEnoughMemory(
            f"not enough memory: room for {int(num_tokens)} tokens (limit {max_total_tokens}) are not one "
            f"page of {page_size}; raise mem_fraction_static, or lower the number of requests or the window"
        )
    return whole


def _checked(sizes: SWAPoolSizes, sliding_window_size: int, page_size: int) -> SWAPoolSizes:
    """A request alone holds a window and a page; a pool of no more would wait for itself (#37610)."""
    if sizes.swa <= sliding_window_size + page_size:
        raise ConfigurationError(
            f"a window pool of {sizes.swa} tokens cannot serve a window of {sliding_window_size} at page "
            f"size {page_size}; raise swa_full_tokens_ratio or mem_fraction_static"
        )
    return sizes
