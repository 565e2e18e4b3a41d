"""Writing and reading the rows of requests: ``req_to_token`` int32 [num_rows, W], column j = slot of token j.

    row r   0            prefix_len                seq_len            W
            |-- prefix --|-- out_cache_loc slice --|-- untouched ... --|  row r+1 ...

A torch slice that is too long raises, a kernel would write the neighbour's row. So every writer checks the
host lengths against W before anything is launched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from kvcore.errors import RowOverflow
from kvcore.kernels.addressing import row_offsets, upload
from kvcore.kernels.dispatch import load_kernel, packed, runs_on_triton
from kvcore.page_math import ceil_div

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WRITE_BLOCK = 1024
_LOC_BLOCK = 256
_REQUEST_BLOCK = 256


def write_req_to_token(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    prefix_lens: torch.Tensor,
    prefix_lens_cpu: torch.Tensor,
    seq_lens: torch.Tensor,
    seq_lens_cpu: torch.Tensor,
    prefix_slots: torch.Tensor,
    out_cache_loc: torch.Tensor,
) -> None:
    """Write ``row[0:prefix)`` and ``row[prefix:seq)`` of every request; the rest keeps its values.

    Args:
        req_to_token: int32 [num_rows, W], contiguous; written.
        req_pool_indices: int32 or int64 [bs], one row per request.
        prefix_lens, seq_lens: int32 or int64 [bs]; the ``_cpu`` twins hold the same values on the host.
        prefix_slots: int32 or int64 [sum(prefix_lens)], the requests' prefixes concatenated.
        out_cache_loc: int32 or int64 [sum(seq_lens - prefix_lens)], their new slots concatenated.

    Raises RowOverflow, with nothing written, when a sequence is longer than a row.
    """
    if req_pool_indices.shape[0] == 0:
        return
    check_row_bounds(req_to_token, seq_lens_cpu, req_pool_indices)
    num_cached, num_tokens = int(prefix_lens_cpu.numpy().sum()), int(seq_lens_cpu.numpy().sum())
    _check_count(num_cached, prefix_slots)
    _check_count(num_tokens - num_cached, out_cache_loc)
    if runs_on_triton(req_to_token):
        _write_req_to_token_launch(
            req_to_token,
            req_pool_indices,
            prefix_lens,
            seq_lens,
            seq_lens_cpu,
            prefix_slots,
            out_cache_loc,
        )
    else:
        write_req_to_token_torch(
            req_to_token,
            req_pool_indices,
            prefix_lens,
            prefix_lens_cpu,
            seq_lens,
            seq_lens_cpu,
            prefix_slots,
            out_cache_loc,
        )


def write_req_to_token_torch(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    prefix_lens: torch.Tensor,  # noqa: ARG001  (the host twins hold the same values)
    prefix_lens_cpu: torch.Tensor,
    seq_lens: torch.Tensor,  # noqa: ARG001
    seq_lens_cpu: torch.Tensor,
    prefix_slots: torch.Tensor,
    out_cache_loc: torch.Tensor,
) -> None:
    """The torch form of ``write_req_to_token``: two scatters over the flat table."""
    prefix, seq = prefix_lens_cpu.numpy(), seq_lens_cpu.numpy()
    if prefix_slots.shape[0]:
        _scatter_ranges(req_to_token, req_pool_indices, np.zeros_like(prefix), prefix, prefix_slots)
    if out_cache_loc.shape[0]:
        _scatter_ranges(req_to_token, req_pool_indices, prefix, seq, out_cache_loc)


def assign_req_to_token(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    start_lens: torch.Tensor,
    start_lens_cpu: torch.Tensor,
    end_lens: torch.Tensor,
    end_lens_cpu: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """Write ``row[start:end)`` of every request from ``slots`` (int [sum(end - start)], concatenated).

    Shapes as in ``write_req_to_token``. Raises RowOverflow, with nothing written, when an end lies beyond
    the row.
    """
    if slots.shape[0] == 0:
        return
    check_row_bounds(req_to_token, end_lens_cpu, req_pool_indices)
    _check_count(int((end_lens_cpu.numpy() - start_lens_cpu.numpy()).sum()), slots)
    if runs_on_triton(req_to_token):
        _assign_req_to_token_launch(
            req_to_token, req_pool_indices, start_lens, start_lens_cpu, end_lens, end_lens_cpu, slots
        )
    else:
        assign_req_to_token_torch(
            req_to_token, req_pool_indices, start_lens, start_lens_cpu, end_lens, end_lens_cpu, slots
        )


def assign_req_to_token_torch(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    start_lens: torch.Tensor,  # noqa: ARG001  (the host twins hold the same values)
    start_lens_cpu: torch.Tensor,
    end_lens: torch.Tensor,  # noqa: ARG001
    end_lens_cpu: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """The torch form of ``assign_req_to_token``."""
    _scatter_ranges(req_to_token, req_pool_indices, start_lens_cpu.numpy(), end_lens_cpu.numpy(), slots)


def get_last_loc(
    req_to_token: torch.Tensor, req_pool_indices: torch.Tensor, prefix_lens: torch.Tensor
) -> torch.Tensor:
    """Slot of the last token of every prefix, -1 where it is empty: [bs], in the dtype of ``prefix_lens``.

    ``req_pool_indices`` and ``prefix_lens`` are int32 or int64 [bs], in any mix.
    """
    if prefix_lens.shape[0] == 0:
        return torch.empty_like(prefix_lens)
    if runs_on_triton(req_to_token):
        return _get_last_loc_launch(req_to_token, req_pool_indices, prefix_lens)
    return get_last_loc_torch(req_to_token, req_pool_indices, prefix_lens)


def get_last_loc_torch(
    req_to_token: torch.Tensor, req_pool_indices: torch.Tensor, prefix_lens: torch.Tensor
) -> torch.Tensor:
    """The torch form of ``get_last_loc``."""
    row_starts = row_offsets(req_pool_indices, req_to_token.shape[1])
    # An empty prefix reads its row's first column, a valid address; the value is replaced below.
    last_loc = req_to_token.view(-1)[row_starts + (prefix_lens - 1).clamp_(min=0)]
    last_loc.masked_fill_(prefix_lens <= 0, -1)
    return last_loc.to(prefix_lens.dtype)


def check_row_bounds(
    req_to_token: torch.Tensor, end_lens_cpu: torch.Tensor, req_pool_indices: torch.Tensor
) -> None:
    """Raise RowOverflow when a row cannot hold ``end_lens_cpu`` (host int [bs]) columns."""
    row_width = req_to_token.shape[1]
    ends = end_lens_cpu.numpy()
    worst = int(ends.argmax())
    if ends[worst] > row_width:
        raise RowOverflow(
            f"request {worst} of the batch needs {int(ends[worst])} columns, "
            f"{int(ends[worst]) - row_width} more than row {int(req_pool_indices[worst])} has ({row_width}): "
            "the write would run into the neighbour's row; widen the rows "
            "(get_req_to_token_extra_context_len) or allocate less per step"
        )


def _check_count(num_slots: int, slots: torch.Tensor) -> None:
    """A kernel would read behind the end of ``slots``."""
    assert num_slots == slots.shape[0], f"the lengths add up to {num_slots} slots, got {slots.shape[0]}"


def _scatter_ranges(
    req_to_token: torch.Tensor,
    rows: torch.Tensor,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    values: torch.Tensor,
) -> None:
    """Write consecutive pieces of ``values`` to ``row[start:end)``, from host arrays of bounds."""
    lens = ends - starts
    value_ends = lens.cumsum()
    num_values = values.shape[0]
    device = req_to_token.device
    # Address of the range's first element, minus its index in values: the ramp below adds the index.
    bases = row_offsets(rows, req_to_token.shape[1]) + upload(starts - (value_ends - lens), device)
    request_of = upload(np.arange(len(lens)).repeat(lens), device)
    addresses = torch.arange(num_values, device=device).add_(bases.index_select(0, request_of))
    req_to_token.view(-1).scatter_(0, addresses, values.to(req_to_token.dtype))


def _write_req_to_token_launch(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    prefix_lens: torch.Tensor,
    seq_lens: torch.Tensor,
    seq_lens_cpu: torch.Tensor,
    prefix_slots: torch.Tensor,
    out_cache_loc: torch.Tensor,
) -> None:
    longest = int(seq_lens_cpu.numpy().max())
    kernel = load_kernel("req_to_token_triton", "write_req_to_token_kernel")
    kernel[req_pool_indices.shape[0], ceil_div(longest, _WRITE_BLOCK)](
        req_to_token,
        req_to_token.stride(0),
        *packed(
            req_pool_indices,
            prefix_lens,
            seq_lens,
            # Where one of the two is empty nothing is loaded from it, but the kernel needs a pointer.
            prefix_slots if prefix_slots.shape[0] else out_cache_loc,
            out_cache_loc if out_cache_loc.shape[0] else prefix_slots,
        ),
        BLOCK=_WRITE_BLOCK,
        REQUEST_BLOCK=_REQUEST_BLOCK,
    )


def _assign_req_to_token_launch(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    start_lens: torch.Tensor,
    start_lens_cpu: torch.Tensor,
    end_lens: torch.Tensor,
    end_lens_cpu: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    longest = int((end_lens_cpu.numpy() - start_lens_cpu.numpy()).max())
    kernel = load_kernel("req_to_token_triton", "assign_req_to_token_kernel")
    kernel[req_pool_indices.shape[0], ceil_div(longest, _WRITE_BLOCK)](
        req_to_token,
        req_to_token.stride(0),
        *packed(req_pool_indices, start_lens, end_lens, slots),
        BLOCK=_WRITE_BLOCK,
        REQUEST_BLOCK=_REQUEST_BLOCK,
    )


def _get_last_loc_launch(
    req_to_token: torch.Tensor, req_pool_indices: torch.Tensor, prefix_lens: torch.Tensor
) -> torch.Tensor:
    num_requests = prefix_lens.shape[0]
    # The kernel stores the table's dtype and the result is widened here: a store that converts int32 to
    # int64 inside the kernel has been miscompiled on some targets.
    last_loc = torch.empty(num_requests, dtype=req_to_token.dtype, device=req_to_token.device)
    kernel = load_kernel("req_to_token_triton", "get_last_loc_kernel")
    kernel[(ceil_div(num_requests, _LOC_BLOCK),)](
        req_to_token,
        req_to_token.stride(0),
        *packed(req_pool_indices, prefix_lens),
        last_loc,
        num_requests,
        BLOCK=_LOC_BLOCK,
    )
    return last_loc.to(prefix_lens.dtype)
