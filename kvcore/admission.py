"""From the queue into a batch: match what is cached, lock it, and say what the next extend computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kvcore.page_math import align_down

if TYPE_CHECKING:
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.req import Req


def match_for_admission(req: Req, tree_cache: PrefixCache) -> int:
    """Match ``req`` against the cache and lock what matched; returns the tokens that need not be computed.

    The last token is always computed, its logits are needed. A request that waits may be matched again:
    prefix, lock and protected length change together, or the request would later free slots that the tree
    owns as duplicates of its own (sgl-project/sglang#24193). Must come before anything that may evict.
    """
    assert req.kv is None, f"request {req.rid} holds a row; its prefix is what the row holds"
    key = tree_cache.request_key(req, req.token_ids[: req.seqlen - 1])
    match = tree_cache.match_prefix(key)
    lock = tree_cache.inc_lock_ref(match.last_node)
    if req.last_lock is not None:
        tree_cache.dec_lock_ref(req.last_lock)
    req.last_lock = lock
    req.prefix_indices = match.device_indices
    req.matched_protected_len = match.cache_protected_len
    req.mamba_cow_src = match.mamba_state_slot
    req.mamba_branching_seqlen = match.mamba_branching_seqlen
    return match.device_indices.numel()


def cancel_admission(req: Req, tree_cache: PrefixCache) -> None:
    """Give back the lock, and a state granted early, of a request that leaves the queue without a row.

    A second call is a no-op. AssertionError, with nothing changed, for a request that holds a row.
    """
    assert req.kv is None, f"request {req.rid} holds a row; release it instead"
    if req.last_lock is not None:
        tree_cache.dec_lock_ref(req.last_lock)
        req.last_lock = None
    tree_cache.req_to_token_pool.free_mamba_cache(req)
    forget_match(req)


def forget_match(req: Req) -> None:
    """Make ``req`` start from its first token again; it holds neither row nor lock."""
    req.prefix_indices = torch.empty(0, dtype=torch.int64, device=req.prefix_indices.device)
    req.matched_protected_len = 0
    req.mamba_cow_src = None
    req.mamba_branching_seqlen = None
    req.mamba_last_track_seqlen = None
    req.fill_ids = []
    req.extend_len = 0
    req.is_chunked = 0
    req.decode_batch_idx = 0


def set_extend_range(req: Req, max_extend_len: int, page_size: int) -> int:
    """Let the next extend compute at most ``max_extend_len`` tokens; returns how many it will.

    A chunk that is not the last one ends on a page boundary, so that the next one starts a page. 0, with the
    request unchanged, when the budget does not reach one.
    """
    prefix_len = req.prefix_indices.numel()
    end = req.seqlen
    if end - prefix_len > max_extend_len:
        end = align_down(prefix_len + max_extend_len, page_size)
    if end <= prefix_len:
        return 0
    req.fill_ids = req.token_ids[:end]
    req.extend_len = end - prefix_len
    req.is_chunked = int(end < req.seqlen)
    return req.extend_len
