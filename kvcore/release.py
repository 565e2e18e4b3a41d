"""Giving slots back: at the end of a request, and of what has left a sliding window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from kvcore.allocators.dsv4 import DSV4Allocator
from kvcore.kernels.addressing import upload
from kvcore.page_math import align_down, align_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.req import Req, ReqKvInfo


@runtime_checkable
class FreesWindow(Protocol):
    """An allocator whose window slots can go while the full slots stay."""

    def free_segment(self, slots: torch.Tensor, *, swa_evicted: int = 0) -> None:
        """Give back a page-regular run whose first ``swa_evicted`` tokens have no window slots any more."""
        ...

    def free_swa_segment(self, slots: torch.Tensor) -> None:
        """Give back the window slots of page-regular runs of full slots (int [n]), all of them mapped."""
        ...


def release_kv_cache(
    req: Req, tree_cache: PrefixCache, *, is_insert: bool = True, strip_output: bool = False
) -> None:
    """End a request's ownership of slots, row and states; the cache keeps, or frees, what is computed.

        0        protected       kv_len   start      allocated
        |-- tree's --|-- to the cache --|...|-- freed --|      start = kv_len rounded up to a page

    The page that ``kv_len`` ends in goes with the cache's part, whole: freeing from ``kv_len`` on would free
    it twice (sgl-project/sglang#12224). The page is the allocator's, of which the tree's may be a multiple.

    ``is_insert`` False frees all that the tree does not hold yet (retraction, abort); ``strip_output`` keeps
    the prompt only, and what the tree had before. A second release is a no-op: a request without a row owns
    nothing but, perhaps, a state that was granted early (sgl-project/sglang#18694).
    """
    pool = tree_cache.req_to_token_pool
    if req.kv is None:
        pool.free_mamba_cache(req)
        return
    kv = req.kv
    kv_len = kv.kv_committed_len
    if strip_output:
        # A retracted request was matched with its output: what the tree owns of that stays the tree's.
        kv_len = max(min(kv_len, len(req.origin_input_ids)), kv.cache_protected_len)
    tree_cache.cache_finished_req(req, kv_len=kv_len, is_insert=is_insert)
    page_size = tree_cache.allocator.page_size
    start = align_up(kv_len, page_size)
    _free_over_allocated(req, tree_cache, start)
    # A tree of states has taken over, or freed, the request's state; to any other cache it is unknown.
    pool.free_mamba_cache(req)
    if isinstance(tree_cache.allocator, DSV4Allocator):
        tree_cache.allocator.free_states(kv.req_pool_idx)
    pool.free(kv.req_pool_idx)
    req.kv = None


def _free_over_allocated(req: Req, tree_cache: PrefixCache, start: int) -> None:
    """Free ``row[start:allocated)``; ``start`` is on a page boundary."""
    kv = req.kv
    assert kv is not None, f"request {req.rid} holds no row, and is to free it from column {start}"
    slots = tree_cache.req_to_token_pool.req_to_token[kv.req_pool_idx, start : kv.kv_allocated_len]
    allocator = tree_cache.allocator
    if kv.swa_evicted_seqlen <= start:
        allocator.free_segment(slots)
        return
    # Stripped output: part of it left the window while it was being decoded.
    assert isinstance(allocator, FreesWindow), f"{type(allocator).__name__} has no window: {kv}"
    allocator.free_segment(slots, swa_evicted=kv.swa_evicted_seqlen - start)


def free_swa_out_of_window_slots(
    req: Req,
    pre_len: int,
    *,
    sliding_window_size: int,
    page_size: int,
    req_to_token_pool: ReqToTokenPool,
    allocator: FreesWindow,
    is_chunk_cache: bool,
) -> None:
    """``free_swa_out_of_window_slots_of_batch`` for one request, ``pre_len`` tokens before its next one."""
    free_swa_out_of_window_slots_of_batch(
        [req],
        [pre_len],
        sliding_window_size=sliding_window_size,
        page_size=page_size,
        req_to_token_pool=req_to_token_pool,
        allocator=allocator,
        is_chunk_cache=is_chunk_cache,
    )


def free_swa_out_of_window_slots_of_batch(
    reqs: Sequence[Req],
    pre_lens: Sequence[int],
    *,
    sliding_window_size: int,
    page_size: int,
    req_to_token_pool: ReqToTokenPool,
    allocator: FreesWindow,
    is_chunk_cache: bool,
) -> None:
    """Give back window slots that no later token of ``reqs`` attends to; moves each ``swa_evicted_seqlen``.

    ``pre_lens`` are the numbers of tokens before the next one of each request; ``out_of_window`` says which
    tokens go. The full slots stay. However many requests there are, it is one gather and one free, and it
    synchronises nothing.
    """
    segments: list[tuple[ReqKvInfo, range]] = []
    for req, pre_len in zip(reqs, pre_lens, strict=True):
        kv = req.kv
        assert kv is not None, f"request {req.rid} holds no row"
        gone = out_of_window(
            kv,
            pre_len,
            sliding_window_size=sliding_window_size,
            page_size=page_size,
            is_chunk_cache=is_chunk_cache,
        )
        if gone:
            segments.append((kv, gone))
    if not segments:
        return
    allocator.free_swa_segment(_slots_of(req_to_token_pool.req_to_token, segments))
    for kv, gone in segments:
        kv.swa_evicted_seqlen = gone.stop


def out_of_window(
    kv: ReqKvInfo, pre_len: int, *, sliding_window_size: int, page_size: int, is_chunk_cache: bool
) -> range:
    """The tokens of a request, whole pages, whose window slots can go before token ``pre_len`` is computed.

        0         evicted            frontier                        pre_len
        |-- gone --|-- to go, whole pages --|-- at least a window --|

    What a tree may insert must keep a window of live tokens behind any page boundary, so its frontier stays
    back by the window rounded up to pages: with the window alone the node inserted next may have no live tail
    (sgl-project/sglang#22470, #29860). A cache that keeps nothing (``is_chunk_cache``) may go up to the
    window. The tokens below ``cache_protected_len`` belong to the tree.
    """
    assert kv.cache_protected_len % page_size == 0, f"{kv} is protected up to within a page of {page_size}"
    evicted = max(kv.swa_evicted_seqlen, kv.cache_protected_len, align_up(kv.swa_evict_floor, page_size))
    live_len = sliding_window_size
    if not is_chunk_cache:
        live_len = align_up(max(sliding_window_size, page_size), page_size)
    frontier = align_down(max(evicted, pre_len - live_len), page_size)
    return range(evicted, frontier)


def _slots_of(req_to_token: torch.Tensor, segments: Sequence[tuple[ReqKvInfo, range]]) -> torch.Tensor:
    """The slots of some columns of each row, one segment behind the other."""
    if len(segments) == 1:
        [(kv, columns)] = segments
        return req_to_token[kv.req_pool_idx, columns.start : columns.stop]
    lens = [len(columns) for _, columns in segments]
    index = np.empty((2, sum(lens)), dtype=np.int64)
    index[0] = np.repeat([kv.req_pool_idx for kv, _ in segments], lens)
    index[1] = np.concatenate([np.arange(columns.start, columns.stop) for _, columns in segments])
    cells = upload(index, req_to_token.device)
    return req_to_token[cells[0], cells[1]]
