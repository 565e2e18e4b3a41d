# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"
"""Triton kernels of ``kvcore.kernels.kv_copy``: rows of many buffers to and from a staging buffer.

The word type of all buffers is the element type of ``staged``, [num_buffers, n, max_row_words].
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _row_addresses(
    pointers, row_words, slots, staged, num_slots, max_row_words, num_rows, BLOCK: tl.constexpr
):
    """Where up to BLOCK words of one row lie in their buffer and in ``staged``, and which of them exist."""
    index = tl.program_id(0).to(tl.int64)
    buffer = tl.program_id(1).to(tl.int64)
    word = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    width = tl.load(row_words + buffer)
    base = tl.load(pointers + buffer).to(tl.pointer_type(staged.dtype.element_ty))
    slot = tl.load(slots + index).to(tl.int64)
    return (
        base + slot * width + word,
        staged + (buffer * num_slots + index) * max_row_words + word,
        # A slot that no buffer has is a row without words.
        word < tl.where((slot < 0) | (slot >= num_rows), 0, width),
    )


@triton.jit(do_not_specialize=["slots", "num_slots", "max_row_words", "num_rows"])
def gather_rows_kernel(
    pointers, row_words, slots, staged, num_slots, max_row_words, num_rows, BLOCK: tl.constexpr
):
    """Grid (n, buffers, tiles): read row ``slots[i]`` of every buffer into ``staged``."""
    row, staged_row, valid = _row_addresses(
        pointers, row_words, slots, staged, num_slots, max_row_words, num_rows, BLOCK
    )
    tl.store(staged_row, tl.load(row, mask=valid), mask=valid)


@triton.jit(do_not_specialize=["slots", "num_slots", "max_row_words", "num_rows"])
def scatter_rows_kernel(
    pointers, row_words, slots, staged, num_slots, max_row_words, num_rows, BLOCK: tl.constexpr
):
    """Grid (n, buffers, tiles): write ``staged`` to row ``slots[i]`` of every buffer."""
    row, staged_row, valid = _row_addresses(
        pointers, row_words, slots, staged, num_slots, max_row_words, num_rows, BLOCK
    )
    tl.store(row, tl.load(staged_row, mask=valid), mask=valid)
