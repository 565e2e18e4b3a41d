# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
"""Triton kernels of ``kvcore.kernels.kv_store``: row copies into buffers of more than 2^31 elements."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _store_row(
    cache, slot, values, index, tile_start, cache_stride, value_stride, width, BLOCK: tl.constexpr
):
    """Copy up to BLOCK elements of row ``index`` of ``values`` to row ``slot`` of ``cache``."""
    column = tile_start + tl.arange(0, BLOCK)
    valid = column < width
    row = tl.load(values + index * value_stride + column, mask=valid)
    tl.store(cache + slot * cache_stride + column, row, mask=valid)


@triton.jit(
    do_not_specialize=["slots", "a_stride", "b_stride", "a_width", "b_width", "a_tiles", "num_slots"],
)
def store_rows_kernel(
    a_cache,
    b_cache,
    slots,
    a,
    b,
    a_cache_stride,
    b_cache_stride,
    a_stride,
    b_stride,
    a_width,
    b_width,
    a_tiles,
    num_slots,
    BLOCK: tl.constexpr,
):
    """Grid (n, tiles of a, then tiles of b): each program copies up to BLOCK elements of one row."""
    index = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    slot = tl.load(slots + index).to(tl.int64)
    # Without a probe nobody else looks: a slot outside the cache must not reach other memory.
    if (slot < 0) | (slot >= num_slots):
        return
    if tile < a_tiles:
        _store_row(a_cache, slot, a, index, tile * BLOCK, a_cache_stride, a_stride, a_width, BLOCK)
    else:
        tile_start = (tile - a_tiles) * BLOCK
        _store_row(b_cache, slot, b, index, tile_start, b_cache_stride, b_stride, b_width, BLOCK)


@triton.jit(do_not_specialize=["value_stride", "width", "num_elements"])
def store_paged_kernel(
    cache,
    first_elements,
    values,
    value_stride,
    width,
    head_dim,
    head_stride,
    num_elements,
    BLOCK: tl.constexpr,
):
    """Grid (n, tiles): each program copies up to BLOCK of the H * d elements of one token.

    ``first_elements`` are int64 addresses of the tokens' first elements, computed by the host wrapper.
    """
    index = tl.program_id(0).to(tl.int64)
    first = tl.load(first_elements + index)
    if (first < 0) | (first >= num_elements):
        return
    element = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    valid = element < width
    value = tl.load(values + index * value_stride + element, mask=valid)
    head = (element // head_dim).to(tl.int64)
    target = first + head * head_stride + element % head_dim
    tl.store(cache + target, value, mask=valid)
