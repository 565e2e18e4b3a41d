"""Which pages a step takes, from the host twins of the lengths.

The lengths are read through numpy, whose operations on a few hundred integers cost a fraction of torch's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvcore.errors import PageAlignmentError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray


def num_extend_pages(prefix_lens_cpu: torch.Tensor, seq_lens_cpu: torch.Tensor, page_size: int) -> int:
    """Pages that growing every request from its prefix to its sequence length takes.

    Raises TypeError for lengths on a device: reading them would wait for it.
    """
    last = page_size - 1
    after = (seq_lens_cpu.numpy() + last) // page_size
    before = (prefix_lens_cpu.numpy() + last) // page_size
    return int(np.add.reduce(after - before))


def decode_page_openers(seq_lens_cpu: torch.Tensor, page_size: int) -> NDArray[np.int64]:
    """Requests, in order, whose next token begins a page; ``seq_lens_cpu`` are the lengths after the step."""
    openers: NDArray[np.int64] = (seq_lens_cpu.numpy() % page_size == 1 % page_size).nonzero()[0]
    return openers


def num_decode_pages(seq_lens_cpu: torch.Tensor, page_size: int) -> int:
    """Pages that one more token per request takes; ``seq_lens_cpu`` are the lengths after the step."""
    return len(decode_page_openers(seq_lens_cpu, page_size))


def require_page_tail(
    seq_lens_cpu: torch.Tensor, extend_num_tokens: int, tail_len: int, page_size: int
) -> None:
    """Raise PageAlignmentError unless a window tail of ``tail_len`` tokens is whole pages of one request."""
    if seq_lens_cpu.shape[0] != 1 or not 0 <= tail_len <= extend_num_tokens:
        raise PageAlignmentError(
            f"a window tail belongs to one request and to its new tokens, found {seq_lens_cpu.shape[0]} "
            f"requests and a tail of {tail_len} among {extend_num_tokens} new tokens"
        )
    tail_start = int(seq_lens_cpu[0]) - tail_len
    if tail_len and tail_start % page_size:
        raise PageAlignmentError(
            f"the window tail starts at token {tail_start}, inside a page of {page_size}; "
            "lengthen it to the page boundary, or its window slots would not line up with its pages"
        )
