"""Which pages a step takes, from the host twins of the lengths.

The lengths are read through numpy, whose operations on a few hundred integers cost a fraction of torch's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
