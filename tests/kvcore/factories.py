"""Small allocation stacks for tests: one call makes pools, cache and checker, a few more run requests through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kvcore.admission import cancel_admission, match_for_admission, set_extend_range
from kvcore.allocation_sizing import get_req_to_token_extra_context_len
from kvcore.allocators import PagedAllocator, PureSWAAllocator, SWAAllocator, TokenAllocator
from kvcore.errors import OutOfSlots
from kvcore.invariants import InvariantChecker
from kvcore.pool_snapshot import PoolSnapshot, snapshot
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.prefix_cache import ChunkCache, PureSWARadixCache, RadixCache, SWAChunkCache, SWARadixCache
from kvcore.prefix_cache.unfinished import maybe_cache_unfinished_req
from kvcore.release import release_kv_cache
from kvcore.schedule_batch import Req, ScheduleBatch
from kvcore.server_args import ServerArgs, SpeculativeAlgorithm

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.prefix_cache.base import PrefixCache

CacheKind = Literal["chunk", "radix", "swa_chunk", "swa", "pure_swa"]
WINDOW = 10


def make_server_args(spec: str | None = None, *, context_len: int = 128, **kwargs: Any) -> ServerArgs:
    """Settings with speculation by name: "eagle" (3 steps, 4 draft tokens), "dflash", "ngram"; or without."""
    defaults: dict[str, Any] = {}
    if spec is not None:
        defaults = {
            "speculative_algorithm": SpeculativeAlgorithm(spec.upper()),
            "speculative_num_steps": 3,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": 4,
        }
    return ServerArgs(context_len=context_len, **{**defaults, **kwargs})


def make_req(rid: str = "r0", prompt_len: int = 8, *, max_new_tokens: int = 16, **kwargs: Any) -> Req:
    """A request; its prompt is 0, 1, 2, ... unless ``origin_input_ids`` says otherwise."""
    ids = kwargs.pop("origin_input_ids", None)
    return Req(rid, list(range(prompt_len)) if ids is None else ids, max_new_tokens=max_new_tokens, **kwargs)


@dataclass
class Stack:
    server_args: ServerArgs
    pool: ReqToTokenPool
    allocator: TokenToKVPoolAllocator
    tree: PrefixCache
    checker: InvariantChecker
    window: int | None = None

    def batch(self, reqs: Sequence[Req] = (), **kwargs: Any) -> ScheduleBatch:
        return ScheduleBatch(
            reqs=list(reqs),
            req_to_token_pool=self.pool,
            allocator=self.allocator,
            tree_cache=self.tree,
            server_args=self.server_args,
            sliding_window_size=self.window,
            swa_eviction_interval=8,
            **kwargs,
        )

    def queued(self, *reqs: Req) -> list[Req]:
        """The requests matched, locked, and set to extend all of their tokens."""
        for req in reqs:
            match_for_admission(req, self.tree)
            set_extend_range(req, 1 << 30, self.tree.page_size)
        return list(reqs)

    def extended(self, *reqs: Req) -> ScheduleBatch:
        """A batch whose requests have their prompts in their rows and one token out."""
        batch = self.batch(self.queued(*reqs))
        batch.prepare_for_extend()
        batch.advance([[7]] * len(reqs))
        return batch

    def cached(self, *reqs: Req) -> ScheduleBatch:
        """Like ``extended``, and the cache has been shown what is computed."""
        batch = self.extended(*reqs)
        for req in reqs:
            if req.finished_reason is None:
                maybe_cache_unfinished_req(req, self.tree)
        return batch

    def finish(self, batch: ScheduleBatch, *reqs: Req, is_insert: bool = True) -> None:
        for req in reqs or tuple(batch.reqs):
            release_kv_cache(req, self.tree, is_insert=is_insert)
        batch.filter([i for i, req in enumerate(batch.reqs) if req.kv is not None])

    def check(self, *reqs: Req, after: str = "the test") -> None:
        self.checker.check(reqs, after)

    def snapshot(self, *reqs: Req) -> PoolSnapshot:
        return snapshot(reqs, self.pool, self.allocator, self.tree)

    def row(self, req: Req) -> list[int]:
        assert req.kv is not None
        return self.pool.req_to_token[req.kv.req_pool_idx, : req.kv.kv_allocated_len].tolist()

    def try_extend(self, *reqs: Req) -> ScheduleBatch | None:
        """As ``extended``; ``None``, with the requests out of the queue again, when the pools are short."""
        batch = self.batch(self.queued(*reqs))
        try:
            batch.prepare_for_extend()
        except OutOfSlots:
            for req in reqs:
                cancel_admission(req, self.tree)
            return None
        batch.advance([[7]] * len(reqs))
        return batch


def make_stack(
    cache: CacheKind = "radix",
    *,
    page_size: int = 1,
    size: int = 512,
    size_swa: int | None = None,
    rows: int = 16,
    spec: str | None = None,
    width: int | None = None,
    need_sort: bool = False,
    device: torch.device | str = "cpu",
    **kwargs: Any,
) -> Stack:
    """A stack over ``size`` slots; rows are as wide as sizing says unless ``width`` does."""
    args = make_server_args(spec, page_size=page_size, **kwargs)
    if width is None:
        width = args.context_len + get_req_to_token_extra_context_len(args)
    pool = ReqToTokenPool(rows, width, device=device)
    is_bigram = spec == "eagle"
    allocator: TokenToKVPoolAllocator
    tree: PrefixCache
    if cache == "pure_swa":
        pure_allocator = PureSWAAllocator(size, device=device)
        allocator = pure_allocator
        tree = PureSWARadixCache(pool, pure_allocator, sliding_window_size=WINDOW, is_bigram=is_bigram)
    elif cache in {"swa", "swa_chunk"}:
        swa_allocator = SWAAllocator(
            size, size_swa or size, args.alloc_page_size, device=device, need_sort=need_sort
        )
        allocator = swa_allocator
        if cache == "swa":
            tree = SWARadixCache(pool, swa_allocator, sliding_window_size=WINDOW, is_bigram=is_bigram)
        else:
            tree = SWAChunkCache(pool, swa_allocator, sliding_window_size=WINDOW)
    else:
        allocator = make_allocator(args.alloc_page_size, size, need_sort=need_sort, device=device)
        tree = (
            RadixCache(pool, allocator, is_bigram=is_bigram)
            if cache == "radix"
            else ChunkCache(pool, allocator)
        )
    checker = InvariantChecker(pool, allocator, tree)
    return Stack(args, pool, allocator, tree, checker, WINDOW if "swa" in cache else None)


def make_allocator(
    page_size: int, size: int, *, need_sort: bool = False, device: torch.device | str = "cpu"
) -> TokenAllocator | PagedAllocator:
    if page_size == 1:
        return TokenAllocator(size, device=device, need_sort=need_sort)
    return PagedAllocator(size, page_size, device=device, need_sort=need_sort)
