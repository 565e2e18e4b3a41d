"""A stack of the smallest size that shows a symptom: a few rows, a few pages, requests of our own making."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from kvcore.admission import match_for_admission, set_extend_range
from kvcore.allocation_sizing import get_req_to_token_extra_context_len
from kvcore.allocators.paged import PagedAllocator
from kvcore.allocators.token import TokenAllocator
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.prefix_cache.chunk import ChunkCache
from kvcore.prefix_cache.radix import RadixCache
from kvcore.release import release_kv_cache
from kvcore.req import Req, ReqKvInfo
from kvcore.schedule_batch import ScheduleBatch
from kvcore.server_args import ServerArgs, SpeculativeAlgorithm

if TYPE_CHECKING:
    from kvcore.allocators.free_list_allocator import FreeListAllocator
    from kvcore.prefix_cache.base import PrefixCache

CPU = torch.device("cpu")


def make_allocator(size: int, page_size: int) -> FreeListAllocator:
    """The allocator that a stack of this page size uses."""
    if page_size == 1:
        return TokenAllocator(size, device=CPU)
    return PagedAllocator(size, page_size, device=CPU)


def speculating(
    context_len: int,
    *,
    page_size: int = 1,
    steps: int = 1,
    topk: int = 1,
    draft_tokens: int = 4,
    algorithm: SpeculativeAlgorithm = SpeculativeAlgorithm.EAGLE,
    dcp_size: int = 1,
) -> ServerArgs:
    """Settings with speculation."""
    return ServerArgs(
        context_len=context_len,
        page_size=page_size,
        dcp_size=dcp_size,
        speculative_algorithm=algorithm,
        speculative_num_steps=steps,
        speculative_eagle_topk=topk,
        speculative_num_draft_tokens=draft_tokens,
    )


@dataclass(kw_only=True)
class SmallStack:
    """Pools, a cache and one running batch; rows are as wide as the sizing of the stack says."""

    server_args: ServerArgs
    num_slots: int = 4096
    num_rows: int = 3
    cache: str = "chunk"
    pool: ReqToTokenPool = field(init=False)
    allocator: FreeListAllocator = field(init=False)
    tree: PrefixCache = field(init=False)
    batch: ScheduleBatch = field(init=False)

    def __post_init__(self) -> None:
        width = self.server_args.context_len + get_req_to_token_extra_context_len(self.server_args)
        self.pool = ReqToTokenPool(self.num_rows, width, device=CPU)
        self.allocator = make_allocator(self.num_slots, self.server_args.alloc_page_size)
        make = {"chunk": ChunkCache, "radix": RadixCache}[self.cache]
        self.tree = make(self.pool, self.allocator)
        self.batch = self.new_batch([])

    def new_batch(self, reqs: list[Req]) -> ScheduleBatch:
        """A batch of `reqs` over the pools of this stack."""
        return ScheduleBatch(
            reqs=reqs,
            req_to_token_pool=self.pool,
            allocator=self.allocator,
            tree_cache=self.tree,
            server_args=self.server_args,
        )

    def admit(self, *prompt_lens: int, max_new_tokens: int = 1_000_000) -> list[Req]:
        """Match, lock and extend one request per length, in full, and merge them into the running batch."""
        first = len(self.batch.reqs)
        reqs = [
            Req(
                rid=f"r{first + i}",
                origin_input_ids=list(range(1000 * (first + i), 1000 * (first + i) + prompt_len)),
                max_new_tokens=max_new_tokens,
            )
            for i, prompt_len in enumerate(prompt_lens)
        ]
        for req in reqs:
            match_for_admission(req, self.tree)
            set_extend_range(req, req.seqlen, self.allocator.page_size)
        extending = self.new_batch(reqs)
        extending.prepare_for_extend()
        self.batch.merge(extending)
        return reqs

    def release(self, req: Req, *, is_insert: bool = True) -> None:
        """Release one request and take it out of the batch."""
        release_kv_cache(req, self.tree, is_insert=is_insert)
        if any(other is req for other in self.batch.reqs):
            self.batch.filter([i for i, other in enumerate(self.batch.reqs) if other is not req])

    def release_all(self) -> None:
        """Release every request of the batch."""
        for req in list(self.batch.reqs):
            self.release(req)

    def lost_slots(self) -> int:
        """Slots that are neither free nor the tree's once no request runs."""
        assert not self.batch.reqs, "requests still run"
        held = self.tree.evictable_size() + self.tree.protected_size()
        return self.allocator.size - self.allocator.available_size() - held

    def free_twice(self) -> list[int]:
        """Page ids that stand more than once in the free list."""
        pages, counts = self.allocator.free_page_ids().unique(return_counts=True)
        return pages[counts > 1].tolist()

    def row(self, req: Req) -> torch.Tensor:
        """The columns of `req` that are allocated, a copy."""
        kv = record(req)
        return self.pool.req_to_token[kv.req_pool_idx, : kv.kv_allocated_len].clone()


def record(req: Req) -> ReqKvInfo:
    """The record of a request that holds a row."""
    assert req.kv is not None, f"{req.rid} holds no row"
    return req.kv


def extend_by(
    stack: SmallStack, rid: str, tokens: list[int], num_tokens: int, *, req: Req | None = None
) -> Req:
    """Compute at most `num_tokens` further tokens of a request, by itself (a new one, matched first, unless given)."""
    if req is None:
        req = Req(rid=rid, origin_input_ids=tokens)
        match_for_admission(req, stack.tree)
    set_extend_range(req, num_tokens, stack.allocator.page_size)
    stack.new_batch([req]).prepare_for_extend()
    return req
