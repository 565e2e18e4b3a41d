"""How many pages a step takes, from the host twins of the lengths.

The lengths are read through numpy, whose operations on a few hundred integers cost a fraction of torch's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch


def host_array(lens_cpu: torch.Tensor) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The values of a host tensor without a copy; raises TypeError for a tensor on a device."""
    array: np.ndarray[Any, np.dtype[np.int64]] = lens_cpu.numpy()
    return array


def num_extend_pages(prefix_lens_cpu: torch.Tensor, seq_lens_cpu: torch.Tensor, page_size: int) -> int:
    """Pages that growing every request from its prefix to its sequence length takes."""
    last = page_size - 1
    after = (host_array(seq_lens_cpu) + last) // page_size
    before = (host_array(prefix_lens_cpu) + last) // page_size
    return int((after - before).sum())


def num_decode_pages(seq_lens_cpu: torch.Tensor, page_size: int) -> int:
    """Pages that one more token per request takes; ``seq_lens_cpu`` are the lengths after the step."""
    opens_page = (host_array(seq_lens_cpu) - 1) % page_size == 0
    return int(opens_page.sum())
