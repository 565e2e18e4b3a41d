"""Reading and writing the rows of a batch; a length that no row can hold is refused beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from kvcore import kernels
from kvcore.errors import RowOverflow
from kvcore.kernels.addressing import upload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.req import Req


def require_rows_fit(
    reqs: Sequence[Req], end_lens_cpu: torch.Tensor, max_context_len: int, operation: str
) -> None:
    """Raise RowOverflow, naming the request, when a row would hold more than ``max_context_len`` tokens.

    ``end_lens_cpu`` is host int [bs], the columns that each row would fill after ``operation``.
    """
    if not reqs:
        return
    end_lens = end_lens_cpu.numpy()
    worst = int(end_lens.argmax())
    if end_lens[worst] > max_context_len:
        raise RowOverflow(
            f"{operation}: request {reqs[worst].rid} would fill {int(end_lens[worst])} columns of its row, "
            f"which has {max_context_len}; cut the request to the context length, or build "
            "the row pool with wider rows"
        )


def concat_prefixes(reqs: Sequence[Req], device: torch.device) -> torch.Tensor:
    """The matched prefixes of ``reqs``, one after the other: int64 [sum of prefix lengths], a new tensor."""
    prefixes = [req.prefix_indices for req in reqs if req.prefix_indices.numel()]
    if not prefixes:
        return torch.empty(0, dtype=torch.int64, device=device)
    return torch.cat(prefixes)


def last_prefix_slots(prefix_slots: torch.Tensor, prefix_lens_cpu: torch.Tensor) -> torch.Tensor:
    """Last slot of every prefix, -1 where it is empty: int64 [bs] on the device of ``prefix_slots``.

    For requests whose prefix is not in their row yet; ``prefix_slots`` is what ``concat_prefixes`` returns.
    """
    prefix_lens = prefix_lens_cpu.numpy()
    if prefix_slots.numel() == 0:
        return torch.full((len(prefix_lens),), -1, dtype=torch.int64, device=prefix_slots.device)
    last = np.where(prefix_lens > 0, prefix_lens.cumsum() - 1, len(prefix_slots))
    # An empty prefix reads the -1 that is put behind the last slot: no mask, so nothing to synchronise for.
    padded = torch.nn.functional.pad(prefix_slots, (0, 1), value=-1)
    return padded[upload(last, prefix_slots.device)]


def write_cache_indices(
    out_cache_loc: torch.Tensor,
    req_pool_indices: torch.Tensor,
    prefix_lens: torch.Tensor,
    prefix_lens_cpu: torch.Tensor,
    seq_lens: torch.Tensor,
    seq_lens_cpu: torch.Tensor,
    prefix_slots: torch.Tensor,
    req_to_token_pool: ReqToTokenPool,
) -> None:
    """Fill the rows of an extend: ``row[0:prefix)`` from the tree's slots, ``row[prefix:seq)`` from new ones.

        0            prefix_len             seq_len        W
        |-- prefix_slots --|-- out_cache_loc --|-- untouched --|

    Args:
        out_cache_loc: int64 [sum(seq_lens - prefix_lens)], requests concatenated.
        req_pool_indices: int64 [bs], rows on the device.
        prefix_lens, seq_lens: int64 [bs]; the ``_cpu`` twins hold the same values on the host.
        prefix_slots: int64 [sum(prefix_lens)], requests concatenated; owned by the tree, copied into the
        rows.

    Raises RowOverflow, with nothing written, when a sequence is longer than a row.
    """
    kernels.write_req_to_token(
        req_to_token_pool.req_to_token,
        req_pool_indices,
        prefix_lens,
        prefix_lens_cpu,
        seq_lens,
        seq_lens_cpu,
        prefix_slots,
        out_cache_loc,
    )
