"""Slots for an extend: fresh ones behind every prefix, or those that an unfinished diffusion block kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch

from kvcore.allocators.dsv4 import DSV4Allocator
from kvcore.compressed_allocation import alloc_extend_bundle
from kvcore.errors import KvReuseError
from kvcore.kernels.addressing import upload
from kvcore.row_writes import last_prefix_slots
from kvcore.token_allocation import _alloc_page_size, alloc_paged_token_slots_extend, alloc_token_slots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.allocators.dsv4_values import DSV4OutCacheLoc
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.req import Req


class ExtendLens(NamedTuple):
    """Lengths of an extend, int64 [bs], in tokens; the ``_cpu`` twins hold the same values on the host."""

    prefix_lens: torch.Tensor
    prefix_lens_cpu: torch.Tensor
    seq_lens: torch.Tensor
    seq_lens_cpu: torch.Tensor
    extend_num_tokens: int
    """``sum(seq_lens - prefix_lens)``."""


class PoolsOfBatch(Protocol):
    """Where a batch's rows and slots come from."""

    reqs: list[Req]
    req_to_token_pool: ReqToTokenPool
    allocator: TokenToKVPoolAllocator
    tree_cache: PrefixCache
    out_cache_loc_dsv4: DSV4OutCacheLoc | None
    """Set by the entry points, for compressed attention: where a step's tokens go in all pools."""


class ExtendBatch(PoolsOfBatch, Protocol):
    """What ``alloc_for_extend`` reads of a batch."""

    extend_lens: ExtendLens


def extend_lens_of(reqs: Sequence[Req], device: torch.device) -> ExtendLens:
    """The lengths of extending ``reqs`` by their ``extend_len`` tokens; one copy to the device for all."""
    prefix_lens = [req.prefix_indices.numel() for req in reqs]
    seq_lens = [prefix_len + req.extend_len for prefix_len, req in zip(prefix_lens, reqs, strict=True)]
    host = np.array((prefix_lens, seq_lens), dtype=np.int64)
    prefix_lens_cpu, seq_lens_cpu = torch.from_numpy(host).unbind(0)
    on_device = upload(host, device).unbind(0)
    return ExtendLens(
        on_device[0], prefix_lens_cpu, on_device[1], seq_lens_cpu, sum(seq_lens) - sum(prefix_lens)
    )


def alloc_extend_loc(
    batch: ExtendBatch, lens: ExtendLens, prefix_slots: torch.Tensor, rows: Sequence[int]
) -> torch.Tensor:
    """Fresh slots for ``[prefix_len, seq_len)`` of every request; ``prefix_slots`` holds their prefixes.

    ``rows`` have been granted, but not written.
    """
    if isinstance(batch.allocator, DSV4Allocator):
        bundle = alloc_extend_bundle(
            batch.tree_cache,
            batch.allocator,
            rows,
            lens.prefix_lens,
            lens.prefix_lens_cpu,
            lens.seq_lens,
            lens.seq_lens_cpu,
            last_prefix_slots(prefix_slots, lens.prefix_lens_cpu),
            lens.extend_num_tokens,
            step="extend",
            phase="Prefill out of memory",
        )
        batch.out_cache_loc_dsv4 = bundle
        return bundle.full
    if _alloc_page_size(batch) == 1:
        return alloc_token_slots(
            batch.tree_cache, batch.allocator, lens.extend_num_tokens, phase="Prefill out of memory"
        )
    return alloc_paged_token_slots_extend(
        batch.tree_cache,
        batch.allocator,
        lens.prefix_lens,
        lens.prefix_lens_cpu,
        lens.seq_lens,
        lens.seq_lens_cpu,
        last_prefix_slots(prefix_slots, lens.prefix_lens_cpu),
        lens.extend_num_tokens,
    )


def blocks_with_kv(reqs: Sequence[Req], lens: ExtendLens) -> list[int]:
    """Indices of the requests whose unfinished diffusion block goes on in the slots that it kept."""
    reused = [i for i, req in enumerate(reqs) if req.kv is not None and req.dllm_incomplete_ids]
    for i in reused:
        req = reqs[i]
        assert req.kv is not None, f"request {req.rid} lost its row while blocks were counted"
        if req.extend_len != len(req.dllm_incomplete_ids):
            raise KvReuseError(
                f"request {req.rid} extends by {req.extend_len} tokens, but keeps the KV of a block of "
                f"{len(req.dllm_incomplete_ids)}: an unfinished block must be reused as a full block"
            )
        end = int(lens.seq_lens_cpu[i])
        if end > req.kv.kv_allocated_len:
            raise KvReuseError(
                f"request {req.rid} reuses its row up to column {end}, but only "
                f"{req.kv.kv_allocated_len} are allocated: the retained KV is missing"
            )
    return reused


def require_reusable(allocator: TokenToKVPoolAllocator, reused: Sequence[int]) -> None:
    """Raise KvReuseError for blocks that go on in a pool whose compress states were taken with the block."""
    if reused and isinstance(allocator, DSV4Allocator):
        raise KvReuseError(
            "an unfinished diffusion block cannot go on in its slots with compressed attention, whose states "
            "each extend takes anew; release the block and extend again"
        )


def require_prefix_covers_row(reqs: Sequence[Req], reused: Sequence[int]) -> None:
    """AssertionError when a request that goes on in its row would lose the slots behind its prefix."""
    for i, req in enumerate(reqs):
        if req.kv is not None and i not in reused:
            prefix_len = req.prefix_indices.numel()
            assert req.kv.kv_allocated_len == prefix_len, (
                f"request {req.rid} extends behind a prefix of {prefix_len}, but its row holds "
                f"{req.kv.kv_allocated_len} slots; let the cache advance the prefix between two chunks"
            )


def alloc_extend_loc_with_kv_reuse(
    batch: ExtendBatch, prefix_slots: torch.Tensor, rows: Sequence[int], reused: Sequence[int]
) -> torch.Tensor:
    """Fresh slots for most requests; those in ``reused`` get the slots that their rows hold, copied."""
    lens = batch.extend_lens
    fresh_seq = lens.seq_lens_cpu.numpy().copy()
    fresh_seq[reused] = lens.prefix_lens_cpu.numpy()[reused]
    num_fresh = int((fresh_seq - lens.prefix_lens_cpu.numpy()).sum())
    fresh_lens = lens._replace(
        seq_lens=upload(fresh_seq, batch.allocator.device),
        seq_lens_cpu=torch.from_numpy(fresh_seq),
        extend_num_tokens=num_fresh,
    )
    fresh_slots = alloc_extend_loc(batch, fresh_lens, prefix_slots, rows)
    pieces: list[torch.Tensor] = []
    at = 0
    for i, (req, prefix_len, seq_len) in enumerate(
        zip(batch.reqs, lens.prefix_lens_cpu.tolist(), lens.seq_lens_cpu.tolist(), strict=True)
    ):
        if i in reused:
            row = batch.req_to_token_pool.req_to_token[req.req_pool_idx, prefix_len:seq_len]
            pieces.append(row.to(fresh_slots.dtype))
        else:
            end = at + seq_len - prefix_len
            pieces.append(fresh_slots[at:end])
            at = end
    return torch.cat(pieces)
