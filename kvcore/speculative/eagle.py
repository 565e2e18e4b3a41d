"""EAGLE-style speculation: slots for the drafts of the coming step and of the one in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch

from kvcore.allocation import alloc_for_spec_decode
from kvcore.allocation_sizing import (
    DecodeAllocLens,
    get_alloc_reserve_per_decode,
    page_aligned_decode_alloc_lens,
)
from kvcore.errors import RowOverflow
from kvcore.extend_slots import PoolsOfBatch
from kvcore.kernels.addressing import upload
from kvcore.req import records_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.req import Req
    from kvcore.server_args import ServerArgs


class SpecDecodeBatch(PoolsOfBatch, Protocol):
    """What planning a speculative step reads of a batch."""

    server_args: ServerArgs
    req_pool_indices: torch.Tensor
    """int64 [bs], rows, on the device."""


class SpecDecodePlan(NamedTuple):
    """How far the rows reach before and after the step's allocation: int32 [bs], in tokens."""

    cur_kv_lens: torch.Tensor
    cur_kv_lens_cpu: torch.Tensor
    nxt_kv_lens: torch.Tensor
    nxt_kv_lens_cpu: torch.Tensor


def prepare_for_decode(batch: SpecDecodeBatch) -> SpecDecodePlan:
    """Take slots up to the page-aligned watermark of every request; committed stays where it is.

    The watermark is ``committed + reserve`` rounded up to a page, and never moves back. Raises RowOverflow
    when it lies beyond the row, OutOfSlots when the pools are short; the requests and pools are then as
    before.
    """
    reqs = batch.reqs
    page_size = batch.allocator.page_size
    reserve = get_alloc_reserve_per_decode(batch.server_args)
    lens = page_aligned_decode_alloc_lens(records_of(reqs), reserve, page_size)
    require_watermark_fits(reqs, lens, batch.req_to_token_pool.max_context_len, page_size)
    host = np.array((lens.cur, lens.nxt), dtype=np.int32)
    cur_cpu, nxt_cpu = torch.from_numpy(host).unbind(0)
    cur, nxt = upload(host, batch.allocator.device).unbind(0)
    alloc_for_spec_decode(
        batch.tree_cache,
        batch.allocator,
        batch.req_to_token_pool,
        reqs=reqs,
        req_pool_indices=batch.req_pool_indices,
        cur_kv_lens=cur,
        cur_kv_lens_cpu=cur_cpu,
        nxt_kv_lens=nxt,
        nxt_kv_lens_cpu=nxt_cpu,
        num_needed_tokens=lens.num_needed,
    )
    for req in reqs:
        req.decode_batch_idx += 1
    return SpecDecodePlan(cur, cur_cpu, nxt, nxt_cpu)


def require_watermark_fits(
    reqs: Sequence[Req], lens: DecodeAllocLens, max_context_len: int, page_size: int
) -> None:
    """Raise RowOverflow, naming the request, when a watermark lies beyond the ``max_context_len`` columns.

    Without this the drafts of one request would be written into the row of another
    (sgl-project/sglang#26972).
    """
    worst = max(lens.nxt, default=0)
    if worst > max_context_len:
        i = lens.nxt.index(worst)
        raise RowOverflow(
            f"prepare_for_decode: request {reqs[i].rid} would over-allocate to {worst} tokens (it holds "
            f"{lens.cur[i]}, page size {page_size}), {worst - max_context_len} beyond its row of "
            f"{max_context_len} columns; give the row pool the headroom of get_req_to_token_extra_context_len"
        )
