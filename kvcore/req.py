"""A request and the one record that owns its KV lengths.

The bottom of the package: pools, caches and entry points all speak of requests; this file imports none of
them.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.prefix_cache.base import LockRef


@dataclass(slots=True)
class ReqKvInfo:
    """The KV lengths of one request, in tokens; exists exactly while the request holds a row.

    The ladder ``0 <= cache_protected_len <= kv_committed_len <= kv_allocated_len <= row width`` holds between
    steps.

        0          protected        committed       allocated          W
        |-- tree's --|-- request's, valid --|-- reserved --|-- unused --|

    The function that physically allocates slots is the one that moves ``kv_allocated_len``.
    """

    req_pool_idx: int
    """Row of ``ReqToTokenPool.req_to_token`` (1..size); row 0 is a sink for padded lanes."""
    cache_protected_len: int = 0
    """Tokens at the front whose slots belong to the prefix tree; the request never frees them."""
    kv_committed_len: int = 0
    """Tokens whose KV is, or will be in this step, really written."""
    kv_allocated_len: int = 0
    """Tokens whose slots stand in the row."""
    swa_evicted_seqlen: int = 0
    """Tokens at the front whose sliding-window slots have been given back (page aligned)."""
    swa_evict_floor: int = 0
    """Tokens at the front whose sliding-window slots the tree keeps for other requests."""
    swa_checked_len: int = 0
    """Sequence length at the last look for slots that left the window; sets the pace of the next one."""


@dataclass(slots=True, eq=False)
class Req:
    """One request as the allocation stack sees it: its tokens, its matched prefix and its KV record."""

    rid: str
    origin_input_ids: list[int] | array[int]
    """The prompt. From an ``array('q')`` the keys of the prefix cache are copied in one piece, from a list id
    by id."""
    max_new_tokens: int = 128
    output_ids: list[int] = field(default_factory=list)
    extra_key: str | None = None
    """Namespace of the prefix cache; requests with different keys never share."""
    priority: int = 0

    kv: ReqKvInfo | None = None
    """The lengths; ``None`` exactly while the request holds no row."""

    prefix_indices: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    """int64 [prefix_len], slots of the prefix that the next extend skips; the request owns the tensor."""
    matched_protected_len: int = 0
    """``cache_protected_len`` as matched, waiting for the row (and its record) to be granted."""
    last_lock: LockRef | None = None
    """The lock this request holds on its matched node in the prefix tree."""
    extend_len: int = 0
    """Tokens that the next extend computes: ``len(fill_ids) - len(prefix_indices)``."""
    fill_ids: list[int] | array[int] = field(default_factory=list)
    """Token ids up to the end of the next extend (the prompt, or one chunk of it)."""
    is_chunked: int = 0
    """Number of chunks of the prompt that are still to come."""
    decode_batch_idx: int = 0
    """Decode steps this request has taken."""

    encoder_len: int = 0
    """Tokens at the front of the row that belong to the encoder (encoder-decoder models)."""
    skip_radix_cache_insert: bool = False
    dllm_incomplete_ids: list[int] = field(default_factory=list)
    """Tokens of an unfinished diffusion block whose KV is kept in the row."""

    mamba_pool_idx: int | None = None
    """Slot of the request's recurrent state, host integer; ``None`` while it holds none."""
    mamba_ping_pong_track_buffer: list[int] | None = None
    """Slots that track snapshots of the state; -1 marks a lazily allocated slot that is not there yet."""
    mamba_next_track_idx: int = 0
    mamba_last_track_seqlen: int | None = None
    """Sequence length at the last snapshot, in tokens; the cacheable length with an extra buffer."""
    mamba_needs_clear: bool = False
    mamba_branching_seqlen: int | None = None
    mamba_cow_src: int | None = None
    """State slot of the tree to copy from before the next forward."""

    finished_reason: str | None = None
    user_data: Any = None

    @property
    def req_pool_idx(self) -> int | None:
        """Row of the request, or ``None``."""
        return None if self.kv is None else self.kv.req_pool_idx

    @property
    def seqlen(self) -> int:
        """Prompt and output tokens so far."""
        return len(self.origin_input_ids) + len(self.output_ids)

    @property
    def token_ids(self) -> list[int] | array[int]:
        """Prompt and output ids: a new list, or a new array where the prompt is one."""
        prompt = self.origin_input_ids
        if isinstance(prompt, array):
            return prompt + array(prompt.typecode, self.output_ids)
        return prompt + self.output_ids


def records_of(reqs: Sequence[Req]) -> list[ReqKvInfo]:
    """The KV records of running requests, in their order; AssertionError when one of them holds no row."""
    records = [req.kv for req in reqs if req.kv is not None]
    if len(records) != len(reqs):
        rowless = [req.rid for req in reqs if req.kv is None]
        raise AssertionError(
            f"requests {rowless[:6]} hold no row (finished or retracted, and still in the batch?); filter "
            "the batch before its next step"
        )
    return records
