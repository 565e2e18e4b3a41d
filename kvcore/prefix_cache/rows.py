"""What every prefix cache does with the row of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.req import Req, ReqKvInfo


def record_of(req: Req) -> ReqKvInfo:
    """The KV record of a request that holds a row; AssertionError for one that does not."""
    assert req.kv is not None, f"request {req.rid} holds no row, so there is nothing of it to cache or free"
    return req.kv


def row_of(req: Req, pool: ReqToTokenPool) -> torch.Tensor:
    """The row of ``req``, int32 [W]; a view, writing to it writes the row."""
    return pool.req_to_token[record_of(req).req_pool_idx]


def advance_prefix(req: Req, row: torch.Tensor) -> None:
    """Let the next extend of ``req`` start after ``req.fill_ids``.

    ``prefix_indices`` becomes a copy: the next extend writes the row while it still reads the prefix.
    """
    req.prefix_indices = row[: len(req.fill_ids)].to(torch.int64, copy=True)


def free_computed(req: Req, row: torch.Tensor, *, kv_len: int, allocator: TokenToKVPoolAllocator) -> None:
    """Free what a request computed itself, for caches that keep nothing.

        0        protected                kv_len
        |-- kept --|-------- freed ---------|

    The front may belong to somebody else even where nothing is shared, such as a prefix that was received.
    """
    start = record_of(req).cache_protected_len
    allocator.free_segment(row[start:kv_len])
