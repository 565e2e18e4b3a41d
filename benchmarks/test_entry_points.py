"""What the entry points cost on the host for a batch of 256 requests at page size 64."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks.ratios import best_us
from kvcore.allocation import alloc_for_decode, alloc_for_extend, extend_lens_of, write_cache_indices
from kvcore.allocators import PagedAllocator
from kvcore.pools.req_to_token import ReqToTokenPool
from kvcore.prefix_cache import ChunkCache
from kvcore.release import release_kv_cache
from kvcore.req import Req
from kvcore.schedule_batch import ScheduleBatch
from kvcore.server_args import ServerArgs

BATCH = 256
PAGE_SIZE = 64
CONTEXT_LEN = 4096
ROUNDS = 300


class Server:
    """Pools for 4,096 rows, and batches of fresh requests over them."""

    def __init__(self) -> None:
        self.args = ServerArgs(context_len=CONTEXT_LEN, page_size=PAGE_SIZE)
        self.pool = ReqToTokenPool(4096, CONTEXT_LEN + 8, device="cpu")
        self.allocator = PagedAllocator(BATCH * PAGE_SIZE * 64, PAGE_SIZE, device="cpu")
        self.tree = ChunkCache(self.pool, self.allocator)
        self.batch = self.fresh()

    def fresh(self, num_tokens: int = 64) -> ScheduleBatch:
        ids = [1] * num_tokens
        reqs = [Req(str(i), ids, fill_ids=ids, extend_len=num_tokens) for i in range(BATCH)]
        batch = ScheduleBatch(
            reqs=reqs,
            req_to_token_pool=self.pool,
            allocator=self.allocator,
            tree_cache=self.tree,
            server_args=self.args,
        )
        batch.extend_lens = extend_lens_of(reqs, self.allocator.device)
        self.batch = batch
        return batch

    def renew(self) -> None:
        """Replace the batch, whose requests give everything back, by a fresh one."""
        for req in self.batch.reqs:
            release_kv_cache(req, self.tree)
        self.fresh()


@pytest.fixture
def server() -> Server:
    return Server()


def test_row_alloc_256_of_4096(benchmark: Any, server: Server) -> None:
    floor = best_us(lambda: [req.kv for req in server.batch.reqs])
    benchmark.extra_info |= {"floor_us": floor, "goal_us": 60}
    benchmark.pedantic(
        lambda: server.pool.alloc(server.batch.reqs), setup=server.pool.clear, rounds=ROUNDS, warmup_rounds=10
    )


def test_write_cache_indices_256(benchmark: Any, server: Server) -> None:
    granted = alloc_for_extend(server.batch)
    lens = server.batch.extend_lens
    prefix_lens = lens.seq_lens // 2
    half = BATCH * 32
    flat = server.pool.req_to_token.view(-1)
    index = torch.arange(2 * half)
    values = granted.out_cache_loc.int()
    benchmark.extra_info |= {"floor_us": best_us(lambda: flat.scatter_(0, index, values)), "goal_us": 200}
    benchmark.pedantic(
        write_cache_indices,
        args=(
            granted.out_cache_loc[half:],
            granted.req_pool_indices,
            prefix_lens,
            prefix_lens,
            lens.seq_lens,
            lens.seq_lens_cpu,
            granted.out_cache_loc[:half],
            server.pool,
        ),
        rounds=ROUNDS,
        warmup_rounds=10,
    )


def test_alloc_for_extend_256_of_64_tokens(benchmark: Any, server: Server) -> None:
    benchmark.extra_info["goal_us"] = 800
    benchmark.pedantic(
        lambda: alloc_for_extend(server.batch), setup=server.renew, rounds=ROUNDS, warmup_rounds=10
    )


def test_alloc_for_decode_256(benchmark: Any, server: Server) -> None:
    benchmark.extra_info["goal_us"] = 80
    server.batch.prepare_for_extend()
    steps = 0

    def settle() -> None:
        nonlocal steps
        steps += 1
        if steps % 1000 == 0:
            server.renew()
            server.batch.prepare_for_extend()
        elif steps > 1:
            server.batch.seq_lens = server.batch.seq_lens + 1
            server.batch.seq_lens_cpu = server.batch.seq_lens_cpu + 1

    benchmark.pedantic(
        lambda: alloc_for_decode(server.batch), setup=settle, rounds=3 * ROUNDS, warmup_rounds=10
    )


@pytest.mark.parametrize("num_finished", [0, 100_000])
def test_decode_bookkeeping_forgets_the_finished(benchmark: Any, server: Server, num_finished: int) -> None:
    """One decode step costs the same however many requests have come and gone."""
    for _ in range(num_finished // BATCH):
        alloc_for_extend(server.batch)
        server.renew()
    server.batch.prepare_for_extend()
    benchmark.pedantic(server.batch.prepare_for_decode, rounds=ROUNDS, warmup_rounds=10)
