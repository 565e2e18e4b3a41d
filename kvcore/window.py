"""When a batch looks for window slots that no later token attends to, and how far it may go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.prefix_cache.base import OwnsSlots
from kvcore.release import FreesWindow, free_swa_out_of_window_slots_of_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.req import Req
    from kvcore.schedule_batch import ScheduleBatch


def evict_window_before_decode(batch: ScheduleBatch) -> None:
    """Free what left the window, for requests that have decoded enough since the last look.

    A no-op for models without a window. Synchronises nothing.
    """
    if batch.sliding_window_size is None:
        return
    due: list[Req] = []
    pre_lens: list[int] = []
    for req in batch.reqs:
        kv = req.kv
        if kv is None or req.decode_batch_idx == 0:
            continue
        if kv.kv_committed_len - kv.swa_checked_len >= batch.swa_eviction_interval:
            due.append(req)
            # A key of pairs ends one token early, and its live tail with it (sgl-project/sglang#34870).
            pre_lens.append(kv.kv_committed_len - int(batch.is_speculative))
            kv.swa_checked_len = kv.kv_committed_len
    if due:
        _evict_window(batch, batch.sliding_window_size, due, pre_lens)


def evict_window_before_extend(batch: ScheduleBatch) -> None:
    """Free what left the window between two chunks of a prompt; a tree does so itself, by eviction."""
    if batch.sliding_window_size is None or isinstance(batch.tree_cache, OwnsSlots):
        return
    # Under overlap the forward of the chunk before still reads its own window.
    overlap = not batch.server_args.disable_overlap_schedule
    holders = [req for req in batch.reqs if req.kv is not None]
    pre_lens = [req.prefix_indices.numel() - (req.extend_len if overlap else 0) for req in holders]
    if holders:
        _evict_window(batch, batch.sliding_window_size, holders, pre_lens)


def _evict_window(
    batch: ScheduleBatch, sliding_window_size: int, reqs: Sequence[Req], pre_lens: Sequence[int]
) -> None:
    allocator = batch.allocator
    assert isinstance(allocator, FreesWindow), (
        f"a window of {sliding_window_size} tokens needs an allocator that frees window slots, "
        f"found {type(allocator).__name__}"
    )
    free_swa_out_of_window_slots_of_batch(
        reqs,
        pre_lens,
        sliding_window_size=sliding_window_size,
        page_size=allocator.page_size,
        req_to_token_pool=batch.req_to_token_pool,
        allocator=allocator,
        is_chunk_cache=not isinstance(batch.tree_cache, OwnsSlots),
    )
