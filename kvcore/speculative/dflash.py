"""Block drafting (DFLASH): the same watermark, planned in buffers that live from step to step.

A forward in flight reads the lengths of its own step. So the planner writes into one of two sets of buffers
in turn, and on CUDA does so on a stream of its own, which waits for the caller's and is waited for.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from kvcore.allocation import alloc_for_spec_decode
from kvcore.allocation_sizing import get_alloc_reserve_per_decode, page_aligned_decode_alloc_lens
from kvcore.req import records_of
from kvcore.speculative.eagle import SpecDecodePlan, require_watermark_fits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kvcore.speculative.eagle import SpecDecodeBatch

_MIN_CAPACITY = 32


class PlanBuffers:
    """int32 [2, capacity] on the host (pinned for CUDA) and on the device: current and next lengths."""

    def __init__(self) -> None:
        self.capacity = 0
        self._host: list[torch.Tensor] = []
        self._on_device: list[torch.Tensor] = []
        self._turn = 0
        self._stream: torch.cuda.Stream | None = None

    def fill(self, cur: Sequence[int], nxt: Sequence[int], device: torch.device) -> SpecDecodePlan:
        """The lengths as tensors; views that are valid until the call after the next one."""
        batch_size = len(cur)
        if max(batch_size, 1) > self.capacity:
            self._grow(batch_size, device)
        self._turn = 1 - self._turn
        host = self._host[self._turn]
        host[0, :batch_size] = torch.tensor(cur, dtype=torch.int32)
        host[1, :batch_size] = torch.tensor(nxt, dtype=torch.int32)
        on_device = self._on_device[self._turn]
        on_device[:, :batch_size].copy_(host[:, :batch_size], non_blocking=True)
        return SpecDecodePlan(
            on_device[0, :batch_size], host[0, :batch_size], on_device[1, :batch_size], host[1, :batch_size]
        )

    def _grow(self, batch_size: int, device: torch.device) -> None:
        self.capacity = max(batch_size, _MIN_CAPACITY, 2 * self.capacity)
        shape = (2, self.capacity)
        pinned = device.type == "cuda"
        self._host = [torch.zeros(shape, dtype=torch.int32, pin_memory=pinned) for _ in range(2)]
        self._on_device = [torch.zeros(shape, dtype=torch.int32, device=device) for _ in range(2)]

    @contextmanager
    def planning_stream(self, device: torch.device) -> Iterator[None]:
        """Run the body on the planner's own stream, between what the caller has queued and will queue."""
        if device.type != "cuda":
            yield
            return
        if self._stream is None:
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch leaves it bare
        caller = torch.cuda.current_stream(device)
        self._stream.wait_stream(caller)
        with torch.cuda.stream(self._stream):
            yield
        caller.wait_stream(self._stream)


def prepare_for_decode(batch: SpecDecodeBatch, buffers: PlanBuffers) -> SpecDecodePlan:
    """Take slots up to the page-aligned watermark of every request, two blocks ahead of what is committed.

    Raises RowOverflow or OutOfSlots like ``eagle.prepare_for_decode``; the requests and pools are then as
    before.
    """
    reqs, device = batch.reqs, batch.allocator.device
    page_size = batch.allocator.page_size
    reserve = get_alloc_reserve_per_decode(batch.server_args)
    lens = page_aligned_decode_alloc_lens(records_of(reqs), reserve, page_size)
    require_watermark_fits(reqs, lens, batch.req_to_token_pool.max_context_len, page_size)
    with buffers.planning_stream(device):
        plan = buffers.fill(lens.cur, lens.nxt, device)
        alloc_for_spec_decode(
            batch.tree_cache,
            batch.allocator,
            batch.req_to_token_pool,
            reqs=reqs,
            req_pool_indices=batch.req_pool_indices,
            cur_kv_lens=plan.cur_kv_lens,
            cur_kv_lens_cpu=plan.cur_kv_lens_cpu,
            nxt_kv_lens=plan.nxt_kv_lens,
            nxt_kv_lens_cpu=plan.nxt_kv_lens_cpu,
            num_needed_tokens=lens.num_needed,
        )
    for req in reqs:
        req.decode_batch_idx += 1
    return plan
