# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
"""Triton kernels of ``kvcore.kernels.req_to_token``; shapes and bounds are the host wrappers' business.

A row table may hold more than 2^31 entries: row ids are widened to int64 before they are multiplied by the
row width, which is a run-time argument like the batch size.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _sum_before(lens, request, REQUEST_BLOCK: tl.constexpr):
    """The sum of ``lens[0:request]``, int64."""
    total = tl.full((), 0, tl.int64)
    for start in range(0, request, REQUEST_BLOCK):
        lanes = start + tl.arange(0, REQUEST_BLOCK)
        total += tl.sum(tl.load(lens + lanes, mask=lanes < request, other=0).to(tl.int64))
    return total


@triton.jit(
    do_not_specialize=[
        "req_to_token",
        "row_stride",
        "rows",
        "prefix_lens",
        "seq_lens",
        "prefix_slots",
        "out_cache_loc",
    ]
)
def write_req_to_token_kernel(
    req_to_token,
    row_stride,
    rows,
    prefix_lens,
    seq_lens,
    prefix_slots,
    out_cache_loc,
    BLOCK: tl.constexpr,
    REQUEST_BLOCK: tl.constexpr,
):
    """Grid (bs, tiles): each program writes up to BLOCK columns of one row."""
    request = tl.program_id(0)
    tile_start = tl.program_id(1) * BLOCK
    seq_len = tl.load(seq_lens + request).to(tl.int64)
    if tile_start >= seq_len:
        return
    prefix_len = tl.load(prefix_lens + request).to(tl.int64)
    prefix_start = _sum_before(prefix_lens, request, REQUEST_BLOCK)
    out_start = _sum_before(seq_lens, request, REQUEST_BLOCK) - prefix_start

    row = tl.load(rows + request).to(tl.int64)
    column = tile_start + tl.arange(0, BLOCK)
    in_prefix = column < prefix_len
    in_extend = (column >= prefix_len) & (column < seq_len)
    cached = tl.load(prefix_slots + prefix_start + column, mask=in_prefix, other=0).to(tl.int32)
    new = tl.load(out_cache_loc + out_start + column - prefix_len, mask=in_extend, other=0).to(tl.int32)
    tl.store(
        req_to_token + row * row_stride + column, tl.where(in_prefix, cached, new), mask=column < seq_len
    )


@triton.jit(
    do_not_specialize=["req_to_token", "row_stride", "rows", "start_lens", "end_lens", "slots"],
)
def assign_req_to_token_kernel(
    req_to_token,
    row_stride,
    rows,
    start_lens,
    end_lens,
    slots,
    BLOCK: tl.constexpr,
    REQUEST_BLOCK: tl.constexpr,
):
    """Grid (bs, tiles): each program writes up to BLOCK columns of one row."""
    request = tl.program_id(0)
    tile_start = tl.program_id(1) * BLOCK
    start_len = tl.load(start_lens + request).to(tl.int64)
    num_slots = tl.load(end_lens + request).to(tl.int64) - start_len
    if tile_start >= num_slots:
        return
    slot_start = _sum_before(end_lens, request, REQUEST_BLOCK) - _sum_before(
        start_lens, request, REQUEST_BLOCK
    )

    row = tl.load(rows + request).to(tl.int64)
    index = tile_start + tl.arange(0, BLOCK)
    valid = index < num_slots
    values = tl.load(slots + slot_start + index, mask=valid, other=0).to(tl.int32)
    tl.store(req_to_token + row * row_stride + start_len + index, values, mask=valid)


@triton.jit(
    do_not_specialize=["req_to_token", "row_stride", "rows", "prefix_lens", "last_loc", "num_requests"]
)
def get_last_loc_kernel(
    req_to_token,
    row_stride,
    rows,
    prefix_lens,
    last_loc,
    num_requests,
    BLOCK: tl.constexpr,
):
    """Grid (blocks of requests,): one masked load per request gives -1 for an empty prefix."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = lanes < num_requests
    prefix_len = tl.load(prefix_lens + lanes, mask=valid, other=0).to(tl.int64)
    row = tl.load(rows + lanes, mask=valid, other=0).to(tl.int64)
    loc = tl.load(req_to_token + row * row_stride + prefix_len - 1, mask=valid & (prefix_len > 0), other=-1)
    tl.store(last_loc + lanes, loc, mask=valid)
