"""The entry points: slots and rows for a batch that extends, decodes, or drafts ahead.

Each one is all or nothing. When the pools are short, even after eviction, it raises OutOfSlots and leaves
rows, states, lengths and pools as they were; only what was evicted stays evicted. A length that no row can
hold raises RowOverflow before anything is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch

from kvcore import kernels
from kvcore.allocators.dsv4 import DSV4Allocator
from kvcore.capacity import available_and_evictable_str, evict_from_tree_cache
from kvcore.compressed_allocation import _compute_dsv4_state_lens, alloc_decode_bundle, alloc_extend_bundle
from kvcore.errors import OutOfSlots
from kvcore.extend_slots import (
    ExtendBatch,
    ExtendLens,
    PoolsOfBatch,
    alloc_extend_loc,
    alloc_extend_loc_with_kv_reuse,
    blocks_with_kv,
    extend_lens_of,
    require_prefix_covers_row,
    require_reusable,
)
from kvcore.kernels import get_last_loc
from kvcore.kernels.addressing import upload
from kvcore.kernels.req_to_token import get_last_loc_torch
from kvcore.req import ReqKvInfo, records_of
from kvcore.row_writes import concat_prefixes, require_rows_fit, write_cache_indices
from kvcore.token_allocation import (
    _alloc_page_size,
    alloc_paged_token_slots_decode,
    alloc_paged_token_slots_extend,
    alloc_req_slots,
    alloc_token_slots,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.allocators.dsv4_values import DSV4OutCacheLoc
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.req import Req

__all__ = [
    "ExtendAllocation",
    "ExtendLens",
    "_alloc_page_size",
    "_compute_dsv4_state_lens",
    "alloc_for_decode",
    "alloc_for_extend",
    "alloc_for_spec_decode",
    "alloc_paged_token_slots_decode",
    "alloc_paged_token_slots_extend",
    "alloc_req_slots",
    "alloc_token_slots",
    "available_and_evictable_str",
    "evict_from_tree_cache",
    "extend_lens_of",
    "get_last_loc",
    "get_last_loc_torch",
    "write_cache_indices",
]


class ExtendAllocation(NamedTuple):
    """What an extend was given."""

    out_cache_loc: torch.Tensor
    """int64 [extend_num_tokens], the slots to write KV to, requests concatenated; the caller owns it."""
    req_pool_indices: torch.Tensor
    """int64 [bs], rows, on the device."""
    req_pool_indices_cpu: torch.Tensor
    """int64 [bs], the same on the host."""


class DecodeBatch(PoolsOfBatch, Protocol):
    """What ``alloc_for_decode`` reads of a batch; lengths are int64 [bs], before the step."""

    req_pool_indices: torch.Tensor
    seq_lens: torch.Tensor
    seq_lens_cpu: torch.Tensor
    encoder_lens: torch.Tensor | None
    """Columns of the encoder at the front of every row; ``None`` for decoder-only models."""
    encoder_lens_cpu: torch.Tensor | None


def alloc_for_extend(batch: ExtendBatch) -> ExtendAllocation:
    """Grant rows, take slots for ``[prefix_len, seq_len)`` of every request, write and record them.

    A request that already holds a row (the next chunk of its prompt, a diffusion block) goes on in it.
    Raises RowOverflow, KvReuseError or OutOfSlots; the requests and pools are then as before.
    """
    reqs, lens, pool = batch.reqs, batch.extend_lens, batch.req_to_token_pool
    device = batch.allocator.device
    require_rows_fit(reqs, lens.seq_lens_cpu, pool.max_context_len, "alloc_for_extend")
    reused = blocks_with_kv(reqs, lens)
    require_reusable(batch.allocator, reused)
    require_prefix_covers_row(reqs, reused)
    prefix_slots = concat_prefixes(reqs, device)
    rows = alloc_req_slots(pool, reqs, batch.tree_cache)
    try:
        if reused:
            out_cache_loc = alloc_extend_loc_with_kv_reuse(batch, prefix_slots, rows, reused)
        else:
            out_cache_loc = alloc_extend_loc(batch, lens, prefix_slots, rows)
    except OutOfSlots:
        pool.undo_alloc()
        raise
    rows_host = np.array(rows, dtype=np.int64)
    req_pool_indices = upload(rows_host, device)
    write_cache_indices(
        out_cache_loc,
        req_pool_indices,
        lens.prefix_lens,
        lens.prefix_lens_cpu,
        lens.seq_lens,
        lens.seq_lens_cpu,
        prefix_slots,
        pool,
    )
    _record_extend(reqs, rows, lens)
    return ExtendAllocation(out_cache_loc, req_pool_indices, torch.from_numpy(rows_host))


def _record_extend(reqs: Sequence[Req], rows: Sequence[int], lens: ExtendLens) -> None:
    for req, row, seq_len in zip(reqs, rows, lens.seq_lens_cpu.tolist(), strict=True):
        kv = req.kv
        if kv is None:
            req.kv = ReqKvInfo(row, req.matched_protected_len, seq_len, seq_len)
        else:
            kv.kv_committed_len = seq_len
            kv.kv_allocated_len = max(kv.kv_allocated_len, seq_len)


def alloc_for_decode(batch: DecodeBatch, token_per_req: int = 1) -> torch.Tensor:
    """Take and write ``token_per_req`` slots at the end of every row; committed and allocated move along.

    Returns int64 [bs * token_per_req], requests concatenated; the caller owns it and moves
    ``batch.seq_lens``. The row of an encoder-decoder request is ``[encoder | decoder]``, so its end lies at
    the sum of both lengths (sgl-project/sglang#38840). Raises RowOverflow or OutOfSlots, AssertionError for a
    request without a row; the requests and pools are then as before.
    """
    pool, records = batch.req_to_token_pool, records_of(batch.reqs)
    row_lens, row_lens_cpu = batch.seq_lens, batch.seq_lens_cpu
    if batch.encoder_lens is not None and batch.encoder_lens_cpu is not None:
        row_lens = row_lens + batch.encoder_lens
        row_lens_cpu = row_lens_cpu + batch.encoder_lens_cpu
    new_lens, new_lens_cpu = row_lens + token_per_req, row_lens_cpu + token_per_req
    require_rows_fit(batch.reqs, new_lens_cpu, pool.max_context_len, "alloc_for_decode")
    if _alloc_page_size(batch) == 1:
        num_tokens = len(batch.reqs) * token_per_req
        out_cache_loc = alloc_token_slots(
            batch.tree_cache, batch.allocator, num_tokens, phase="Decode out of memory"
        )
    else:
        out_cache_loc = _alloc_paged_decode_loc(
            batch, token_per_req, row_lens, row_lens_cpu, new_lens, new_lens_cpu
        )
    if token_per_req == 1:
        pool.write((batch.req_pool_indices, row_lens), out_cache_loc.to(torch.int32))
    else:
        kernels.assign_req_to_token(
            pool.req_to_token,
            batch.req_pool_indices,
            row_lens,
            row_lens_cpu,
            new_lens,
            new_lens_cpu,
            out_cache_loc,
        )
    for kv in records:
        kv.kv_allocated_len += token_per_req
        kv.kv_committed_len += token_per_req
    return out_cache_loc


def _alloc_paged_decode_loc(
    batch: DecodeBatch,
    token_per_req: int,
    row_lens: torch.Tensor,
    row_lens_cpu: torch.Tensor,
    new_lens: torch.Tensor,
    new_lens_cpu: torch.Tensor,
) -> torch.Tensor:
    """Slots for ``[row_len, new_len)`` of every row; the rest of its last page comes first."""
    last_loc = get_last_loc(batch.req_to_token_pool.req_to_token, batch.req_pool_indices, row_lens)
    if token_per_req == 1 and isinstance(batch.allocator, DSV4Allocator):
        batch.out_cache_loc_dsv4 = alloc_decode_bundle(
            batch.tree_cache,
            batch.allocator,
            [kv.req_pool_idx for kv in records_of(batch.reqs)],
            new_lens,
            new_lens_cpu,
            last_loc,
        )
        return batch.out_cache_loc_dsv4.full
    if isinstance(batch.allocator, DSV4Allocator):
        batch.out_cache_loc_dsv4 = alloc_extend_bundle(
            batch.tree_cache,
            batch.allocator,
            [kv.req_pool_idx for kv in records_of(batch.reqs)],
            row_lens,
            row_lens_cpu,
            new_lens,
            new_lens_cpu,
            last_loc,
            len(batch.reqs) * token_per_req,
            step="reserve",
            phase="Decode out of memory",
        )
        return batch.out_cache_loc_dsv4.full
    if token_per_req == 1:
        return alloc_paged_token_slots_decode(
            batch.tree_cache, batch.allocator, new_lens, new_lens_cpu, last_loc
        )
    return alloc_paged_token_slots_extend(
        batch.tree_cache,
        batch.allocator,
        row_lens,
        row_lens_cpu,
        new_lens,
        new_lens_cpu,
        last_loc,
        len(batch.reqs) * token_per_req,
        phase="Decode out of memory",
    )


def alloc_for_spec_decode(
    tree_cache: PrefixCache | None,
    allocator: TokenToKVPoolAllocator,
    req_to_token_pool: ReqToTokenPool,
    *,
    reqs: Sequence[Req],
    req_pool_indices: torch.Tensor,
    cur_kv_lens: torch.Tensor,
    cur_kv_lens_cpu: torch.Tensor,
    nxt_kv_lens: torch.Tensor,
    nxt_kv_lens_cpu: torch.Tensor,
    num_needed_tokens: int,
) -> DSV4OutCacheLoc | None:
    """Take and write the slots ``row[cur:nxt)`` of every request ahead of a speculative step.

        0        committed       cur               nxt       W
        |---- valid ----|-- held --|-- taken now --|-- unused --|

    Allocated moves to ``nxt``. Lengths are int32 or int64 [bs], the ``_cpu`` twins hold the same values;
    ``num_needed_tokens`` is ``sum(nxt - cur)``, where a row that is long enough adds nothing. The write goes
    to rows that a forward in flight may still read: order it behind that forward.

    Returns where the new tokens go in all pools of a model with compressed attention, else ``None``. Raises
    RowOverflow or OutOfSlots, AssertionError for a request without a row or another ``num_needed_tokens``;
    the requests and pools are then as before.
    """
    records = records_of(reqs)
    require_rows_fit(reqs, nxt_kv_lens_cpu, req_to_token_pool.max_context_len, "alloc_for_spec_decode")
    num_missing = int((nxt_kv_lens_cpu.numpy() - cur_kv_lens_cpu.numpy()).clip(0).sum())
    assert num_needed_tokens == num_missing, (
        f"num_needed_tokens is what the rows lack, sum of nxt - cur: {num_missing}, found {num_needed_tokens}"
    )
    bundle: DSV4OutCacheLoc | None = None
    if num_needed_tokens > 0:
        lens = (cur_kv_lens, cur_kv_lens_cpu, nxt_kv_lens, nxt_kv_lens_cpu)
        phase = "Decode out of memory"
        if allocator.page_size == 1:
            slots = alloc_token_slots(tree_cache, allocator, num_needed_tokens, phase=phase)
        else:
            last_loc = get_last_loc(req_to_token_pool.req_to_token, req_pool_indices, cur_kv_lens)
            if isinstance(allocator, DSV4Allocator):
                rows = [kv.req_pool_idx for kv in records]
                bundle = alloc_extend_bundle(
                    tree_cache,
                    allocator,
                    rows,
                    *lens,
                    last_loc,
                    num_needed_tokens,
                    step="reserve",
                    phase=phase,
                )
                slots = bundle.full
            else:
                slots = alloc_paged_token_slots_extend(
                    tree_cache, allocator, *lens, last_loc, num_needed_tokens, phase=phase
                )
        kernels.assign_req_to_token(req_to_token_pool.req_to_token, req_pool_indices, *lens, slots)
    for kv, nxt in zip(records, nxt_kv_lens_cpu.tolist(), strict=True):
        kv.kv_allocated_len = max(kv.kv_allocated_len, nxt)
    return bundle
