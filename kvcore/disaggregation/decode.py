"""The decode side of disaggregation: rows and slots for KV that arrives over the network.

0            prefix_len                    fill_len - tail        fill_len
|-- matched here --|---- full slots, received ----|-- and window slots --|
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch

from kvcore.allocation import alloc_req_slots, write_cache_indices
from kvcore.allocators.dsv4 import DSV4Allocator
from kvcore.capacity import out_of_slots
from kvcore.errors import ConfigurationError, OutOfSlots
from kvcore.kernels.addressing import upload
from kvcore.page_math import align_down, align_up, num_pages_between
from kvcore.prefix_cache.base import EvictParams
from kvcore.req import ReqKvInfo
from kvcore.row_writes import last_prefix_slots, require_rows_fit

if TYPE_CHECKING:
    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.req import Req


@runtime_checkable
class AllocatesWindowTail(Protocol):
    """An allocator that can give a long sequence full slots throughout, and window slots at its end only."""

    def alloc_extend_swa_tail(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
        swa_tail_len: int,
    ) -> torch.Tensor | None:
        """As ``alloc_extend`` of one request, with window slots for its last ``swa_tail_len`` tokens."""
        ...


def prealloc_fill_len(req: Req, *, is_rebootstrap: bool = False) -> int:
    """Tokens whose KV arrives: all but the last output, which the first decode step computes.

    A rebootstrapped request, whose prefill ran again over its outputs, brings the last one along.
    """
    num_outputs = len(req.output_ids)
    return len(req.origin_input_ids) + (num_outputs if is_rebootstrap else max(num_outputs - 1, 0))


def window_tail_len(seq_len: int, sliding_window_size: int, page_size: int) -> int:
    """Tokens at the end of a sequence that need window slots: a window, from a page boundary on."""
    return seq_len - align_down(max(0, seq_len - sliding_window_size), page_size)


def required_prealloc_tokens(prefix_len: int, fill_len: int, page_size: int) -> int:
    """Slots of the full pool that a pre-allocation takes: whole pages."""
    return num_pages_between(prefix_len, fill_len, page_size) * page_size


def alloc_for_decode_prealloc(
    req: Req,
    *,
    fill_len: int,
    tree_cache: PrefixCache,
    allocator: TokenToKVPoolAllocator,
    req_to_token_pool: ReqToTokenPool,
    sliding_window_size: int | None = None,
) -> torch.Tensor:
    """Grant a row and the slots of ``[prefix_len, fill_len)``, write the row, make the record.

    ``req`` has been matched, or has an empty prefix. With a window pool and no prefix, window slots are taken
    for the last ``sliding_window_size`` tokens only; the others have left the window before they arrive.
    Returns the slots to receive into, int64 [fill_len - prefix_len]. Raises RowOverflow or OutOfSlots, and
    ConfigurationError for compressed attention; the request and pools are then as before, but for what was
    evicted.
    """
    assert req.kv is None, f"request {req.rid} holds a row already: {req.kv}"
    if isinstance(allocator, DSV4Allocator):
        raise ConfigurationError(
            "the compress states of a request are not received over the network, only its slots: a decode "
            "server of a model with compressed attention has no pre-allocation; compute its prefill there"
        )
    prefix_len = req.prefix_indices.numel()
    assert fill_len >= prefix_len, (
        f"request {req.rid} receives up to token {fill_len}, but {prefix_len} are matched here already"
    )
    lens_cpu = torch.tensor((prefix_len, fill_len), dtype=torch.int64)
    prefix_lens_cpu, seq_lens_cpu = lens_cpu[:1], lens_cpu[1:]
    require_rows_fit([req], seq_lens_cpu, req_to_token_pool.max_context_len, "alloc_for_decode_prealloc")
    tail_len = fill_len - prefix_len
    can_leave_front = prefix_len == 0 and isinstance(allocator, AllocatesWindowTail)
    if sliding_window_size is not None and can_leave_front:
        tail_len = window_tail_len(fill_len, sliding_window_size, allocator.page_size)
    rows = alloc_req_slots(req_to_token_pool, [req], tree_cache)
    try:
        slots = _alloc_received(req, lens_cpu, tail_len, tree_cache, allocator)
    except OutOfSlots:
        req_to_token_pool.undo_alloc()
        raise
    on_device = upload(lens_cpu.numpy(), allocator.device)
    write_cache_indices(
        slots,
        upload(np.array(rows, dtype=np.int64), allocator.device),
        on_device[:1],
        prefix_lens_cpu,
        on_device[1:],
        seq_lens_cpu,
        req.prefix_indices,
        req_to_token_pool,
    )
    req.kv = ReqKvInfo(
        rows[0], req.matched_protected_len, kv_committed_len=fill_len, kv_allocated_len=fill_len
    )
    req.kv.swa_evicted_seqlen = fill_len - tail_len if tail_len < fill_len - prefix_len else 0
    return slots


def _alloc_received(
    req: Req,
    lens_cpu: torch.Tensor,
    tail_len: int,
    tree_cache: PrefixCache,
    allocator: TokenToKVPoolAllocator,
) -> torch.Tensor:
    """Full slots for ``[prefix_len, fill_len)``, window slots, if any, for the last ``tail_len``."""
    prefix_len, fill_len = lens_cpu.tolist()
    page_size = allocator.page_size
    num_full = required_prealloc_tokens(prefix_len, fill_len, page_size)
    has_tail = tail_len < fill_len - prefix_len
    num_window = align_up(tail_len, page_size) if has_tail else num_full
    # Either pool may be the short one; evicting for the full pool alone leaves the window pool as it was
    # (#29662).
    full_missing = allocator.shortfall(num_full).num_tokens
    window_missing = allocator.shortfall(num_window).swa_num_tokens
    if full_missing or window_missing:
        tree_cache.evict(EvictParams(num_tokens=full_missing, swa_num_tokens=window_missing))
    on_device = upload(lens_cpu.numpy(), allocator.device)
    extend = (
        on_device[:1],
        lens_cpu[:1],
        on_device[1:],
        lens_cpu[1:],
        last_prefix_slots(req.prefix_indices, lens_cpu[:1]),
        fill_len - prefix_len,
    )
    if has_tail:
        assert isinstance(allocator, AllocatesWindowTail), f"{type(allocator).__name__} has no window pool"
        slots = allocator.alloc_extend_swa_tail(*extend, tail_len)
    else:
        slots = allocator.alloc_extend(*extend)
    if slots is None:
        raise out_of_slots("Out of memory", fill_len - prefix_len, tree_cache, allocator)
    return slots
