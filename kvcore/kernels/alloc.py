"""Slots for growing requests: the rest of their last pages, then new pages.

One request that grows from ``prefix_len`` to ``seq_len`` tokens, page size P, a = ceil(prefix_len / P):

    prefix_len          a*P                                  seq_len
    |-- rest of page --|-- new page --|-- new page --|-- head --|
      last_loc+1 ...     free_pages[k]*P ...                        k counts the new pages of all requests,
      in order

The host lengths (``_cpu``) give shapes and bounds, the device lengths feed the kernels; nothing is read back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from kvcore.kernels.addressing import upload
from kvcore.kernels.dispatch import load_kernel, packed, runs_on_triton
from kvcore.page_math import ceil_div

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EXTEND_BLOCK = 1024
_DECODE_BLOCK = 256
_REQUEST_BLOCK = 256


def alloc_extend(
    prefix_lens: torch.Tensor,
    prefix_lens_cpu: torch.Tensor,
    seq_lens: torch.Tensor,
    seq_lens_cpu: torch.Tensor,
    last_loc: torch.Tensor,
    free_pages: torch.Tensor,
    *,
    page_size: int,
    extend_num_tokens: int,
) -> torch.Tensor:
    """Slots of tokens ``prefix_lens[i]..seq_lens[i]``, requests concatenated: int64 [extend_num_tokens].

    Args:
        prefix_lens, seq_lens: int32 or int64 [bs]; the ``_cpu`` twins hold the same values on the host.
        last_loc: int32 or int64 [bs], slot of token ``prefix_lens[i]-1``; read only where a page is partly
            filled.
        free_pages: int64 [num_new_pages], exactly the pages that this step takes. The caller has counted
            them, so no kernel can read past the end of a free list.
        extend_num_tokens: ``sum(seq_lens - prefix_lens)``.
    """
    if extend_num_tokens == 0:
        return torch.empty(0, dtype=torch.int64, device=last_loc.device)
    if runs_on_triton(last_loc):
        return _alloc_extend_launch(
            prefix_lens,
            prefix_lens_cpu,
            seq_lens,
            seq_lens_cpu,
            last_loc,
            free_pages,
            page_size=page_size,
            extend_num_tokens=extend_num_tokens,
        )
    return alloc_extend_torch(
        prefix_lens,
        prefix_lens_cpu,
        seq_lens,
        seq_lens_cpu,
        last_loc,
        free_pages,
        page_size=page_size,
        extend_num_tokens=extend_num_tokens,
    )


def alloc_extend_torch(
    prefix_lens: torch.Tensor,  # noqa: ARG001  (the host twins hold the same values)
    prefix_lens_cpu: torch.Tensor,
    seq_lens: torch.Tensor,  # noqa: ARG001
    seq_lens_cpu: torch.Tensor,
    last_loc: torch.Tensor,
    free_pages: torch.Tensor,
    *,
    page_size: int,
    extend_num_tokens: int,
) -> torch.Tensor:
    """The torch form of ``alloc_extend``: every run of consecutive slots is its first slot plus a ramp."""
    order, run_lens, run_ends = _extend_runs(prefix_lens_cpu.numpy(), seq_lens_cpu.numpy(), page_size)
    _check_counts(int(run_ends[-1]), extend_num_tokens, len(run_lens) - len(prefix_lens_cpu), free_pages)
    device = last_loc.device
    first_slots = torch.cat((last_loc + 1, free_pages * page_size))
    # Slot of the run's first token, minus that token's index in the output: the ramp below adds the index.
    bases = first_slots.index_select(0, upload(order, device)) - upload(run_ends - run_lens, device)
    run_of = upload(np.arange(len(run_lens)).repeat(run_lens), device)
    return torch.arange(extend_num_tokens, device=device).add_(bases.index_select(0, run_of))


def _extend_runs(
    prefix_lens: NDArray[np.int64], seq_lens: NDArray[np.int64], page_size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Split the new tokens into runs within one page, from host lengths.

    Returns (order, run_lens, run_ends), int64 each. Run ``r`` of the output, ``run_lens[r]`` tokens that
    end at index ``run_ends[r]``, belongs to entry ``order[r]`` of [rest of request 0's page, ..., of
    bs-1's, new page 0, 1, ...].
    """
    requests = np.arange(len(prefix_lens))
    pages_before = (prefix_lens + (page_size - 1)) // page_size
    pages_after = (seq_lens + (page_size - 1)) // page_size
    # Run of the request's first tokens, in its old page (it may be empty), and of its last tokens.
    last_runs = requests + (pages_after - pages_before).cumsum()
    rest_runs = last_runs - (pages_after - pages_before)

    runs = np.arange(int(last_runs[-1]) + 1)
    run_lens = np.full_like(runs, page_size)
    run_lens[last_runs] = seq_lens - (pages_after - 1) * page_size
    # Written second: a request without a new page has one run only, the rest of its old page.
    run_lens[rest_runs] = np.minimum(seq_lens, pages_before * page_size) - prefix_lens
    # A page run is numbered by the page runs before it, which follow the bs rests.
    order = runs + (len(requests) - rest_runs.searchsorted(runs, "right"))
    order[rest_runs] = requests
    return order, run_lens, run_lens.cumsum()


def _check_counts(num_tokens: int, extend_num_tokens: int, num_pages: int, free_pages: torch.Tensor) -> None:
    """The last look before slots are computed: a kernel would read, or write, behind the end of a tensor."""
    assert num_tokens == extend_num_tokens, f"the lengths add up to {num_tokens}, told {extend_num_tokens}"
    assert num_pages == free_pages.shape[0], f"the step takes {num_pages} pages, got {free_pages.shape[0]}"


def _alloc_extend_launch(
    prefix_lens: torch.Tensor,
    prefix_lens_cpu: torch.Tensor,
    seq_lens: torch.Tensor,
    seq_lens_cpu: torch.Tensor,
    last_loc: torch.Tensor,
    free_pages: torch.Tensor,
    *,
    page_size: int,
    extend_num_tokens: int,
) -> torch.Tensor:
    out = torch.empty(extend_num_tokens, dtype=torch.int64, device=last_loc.device)
    prefix, seq = prefix_lens_cpu.numpy(), seq_lens_cpu.numpy()
    extend = seq - prefix
    num_pages = ((seq + (page_size - 1)) // page_size - (prefix + (page_size - 1)) // page_size).sum()
    _check_counts(int(extend.sum()), extend_num_tokens, int(num_pages), free_pages)
    longest = int(extend.max())
    kernel = load_kernel("alloc_triton", "alloc_extend_kernel")
    kernel[seq_lens.shape[0], ceil_div(longest, _EXTEND_BLOCK)](
        # Without a new page nothing is loaded, but the kernel needs a pointer.
        *packed(prefix_lens, seq_lens, last_loc, free_pages if free_pages.shape[0] else out),
        out,
        PAGE_SIZE=page_size,
        BLOCK=_EXTEND_BLOCK,
        REQUEST_BLOCK=_REQUEST_BLOCK,
    )
    return out


def alloc_decode(
    seq_lens: torch.Tensor,
    last_loc: torch.Tensor,
    page_openers: NDArray[np.int64],
    free_pages: torch.Tensor,
    *,
    page_size: int,
) -> torch.Tensor:
    """One slot per request, int64 [bs]: ``last_loc + 1``, or the first of a new page.

    Args:
        seq_lens: int32 or int64 [bs], lengths after the step.
        last_loc: int32 or int64 [bs], slot of token ``seq_lens[i]-2``.
        page_openers: host array [num_new_pages], the requests whose new token begins a page, in order.
        free_pages: int64 [num_new_pages], exactly the pages that this step takes, in request order.
    """
    if last_loc.shape[0] == 0:
        return torch.empty(0, dtype=torch.int64, device=last_loc.device)
    num_pages = len(page_openers)
    assert num_pages == free_pages.shape[0], f"the step takes {num_pages} pages, got {free_pages.shape[0]}"
    if runs_on_triton(last_loc):
        return _alloc_decode_launch(seq_lens, last_loc, free_pages, page_size=page_size)
    return alloc_decode_torch(seq_lens, last_loc, page_openers, free_pages, page_size=page_size)


def alloc_decode_torch(
    seq_lens: torch.Tensor,  # noqa: ARG001  (the openers say what it is needed for)
    last_loc: torch.Tensor,
    page_openers: NDArray[np.int64],
    free_pages: torch.Tensor,
    *,
    page_size: int,
) -> torch.Tensor:
    """The torch form of ``alloc_decode``: all take the next slot, then page openers are overwritten."""
    slots = last_loc + 1
    if slots.dtype != torch.int64:
        slots = slots.to(torch.int64)
    if len(page_openers):
        slots.scatter_(0, upload(page_openers, slots.device), free_pages * page_size)
    return slots


def _alloc_decode_launch(
    seq_lens: torch.Tensor, last_loc: torch.Tensor, free_pages: torch.Tensor, *, page_size: int
) -> torch.Tensor:
    bs = last_loc.shape[0]
    out = torch.empty(bs, dtype=torch.int64, device=last_loc.device)
    kernel = load_kernel("alloc_triton", "alloc_decode_kernel")
    kernel[(ceil_div(bs, _DECODE_BLOCK),)](
        *packed(seq_lens, last_loc, free_pages if free_pages.shape[0] else out),
        out,
        bs,
        PAGE_SIZE=page_size,
        BLOCK=_DECODE_BLOCK,
    )
    return out
