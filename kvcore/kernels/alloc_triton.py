# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
"""Triton kernels of ``kvcore.kernels.alloc``; shapes and preconditions stand at the host wrappers.

No argument is specialised on its value or alignment: free lists are re-sliced in every call, so alignments
flip, and one compilation per page size and dtype serves all batches.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _pages(num_tokens, PAGE_SIZE: tl.constexpr):
    return (num_tokens + PAGE_SIZE - 1) // PAGE_SIZE


@triton.jit(do_not_specialize=["prefix_lens", "seq_lens", "last_loc", "free_pages", "out"])
def alloc_extend_kernel(
    prefix_lens,
    seq_lens,
    last_loc,
    free_pages,
    out,
    PAGE_SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    REQUEST_BLOCK: tl.constexpr,
):
    """Grid (bs, tiles): each program writes up to BLOCK slots of one request."""
    request = tl.program_id(0)
    tile_start = tl.program_id(1) * BLOCK
    prefix_len = tl.load(prefix_lens + request).to(tl.int64)
    seq_len = tl.load(seq_lens + request).to(tl.int64)
    extend_len = seq_len - prefix_len
    if tile_start >= extend_len:
        return

    # Where the requests before this one end, in the output and in the free pages.
    out_start = tl.full((), 0, tl.int64)
    page_start = tl.full((), 0, tl.int64)
    for start in range(0, request, REQUEST_BLOCK):
        lanes = start + tl.arange(0, REQUEST_BLOCK)
        earlier = lanes < request
        prefix = tl.load(prefix_lens + lanes, mask=earlier, other=0).to(tl.int64)
        seq = tl.load(seq_lens + lanes, mask=earlier, other=0).to(tl.int64)
        out_start += tl.sum(seq - prefix)
        page_start += tl.sum(_pages(seq, PAGE_SIZE) - _pages(prefix, PAGE_SIZE))

    index = tile_start + tl.arange(0, BLOCK)
    valid = index < extend_len
    token = prefix_len + index
    new_page = token // PAGE_SIZE - _pages(prefix_len, PAGE_SIZE)
    in_new_page = new_page >= 0
    page = tl.load(free_pages + page_start + new_page, mask=valid & in_new_page, other=0).to(tl.int64)
    last = tl.load(last_loc + request).to(tl.int64)
    slot = tl.where(in_new_page, page * PAGE_SIZE + token % PAGE_SIZE, last + 1 + index)
    tl.store(out + out_start + index, slot, mask=valid)


@triton.jit(do_not_specialize=["seq_lens", "last_loc", "free_pages", "out", "num_requests"])
def alloc_decode_kernel(
    seq_lens,
    last_loc,
    free_pages,
    out,
    num_requests,
    PAGE_SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Grid (blocks of requests,): each program counts the page openers of the blocks before its own."""
    first = tl.program_id(0) * BLOCK
    num_openers = tl.full((), 0, tl.int32)
    for start in range(0, first, BLOCK):
        seq = tl.load(seq_lens + start + tl.arange(0, BLOCK))
        num_openers += tl.sum((seq % PAGE_SIZE == 1 % PAGE_SIZE).to(tl.int32))

    lanes = first + tl.arange(0, BLOCK)
    valid = lanes < num_requests
    seq = tl.load(seq_lens + lanes, mask=valid, other=0)
    opens = valid & (seq % PAGE_SIZE == 1 % PAGE_SIZE)
    rank = num_openers + tl.cumsum(opens.to(tl.int32)) - 1
    page = tl.load(free_pages + rank, mask=opens, other=0).to(tl.int64)
    last = tl.load(last_loc + lanes, mask=valid, other=0).to(tl.int64)
    tl.store(out + lanes, tl.where(opens, page * PAGE_SIZE, last + 1), mask=valid)
