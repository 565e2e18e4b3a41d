"""What the kernel wrappers cost on the CPU, where torch runs them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks.ratios import best_us
from kvcore import kernels

WIDTH = 4096


@pytest.mark.parametrize("prefix_len", [0, 64])
def test_write_req_to_token_256_requests(benchmark: Any, prefix_len: int) -> None:
    table = torch.zeros((4097, WIDTH), dtype=torch.int32)
    rows = torch.arange(1, 257)
    prefix = torch.full((256,), prefix_len)
    seq = prefix + 64
    cached, new = torch.arange(256 * prefix_len), torch.arange(256 * 64)
    benchmark.extra_info |= {
        "floor_us": best_us(lambda: torch.cat((cached, new)).to(torch.int32), 20),
        "goal_us": 200,
    }

    benchmark(kernels.write_req_to_token, table, rows, prefix, prefix, seq, seq, cached, new)


@pytest.mark.parametrize("batch", [1, 256])
def test_assign_req_to_token_8_slots_each(benchmark: Any, batch: int) -> None:
    table = torch.zeros((4097, WIDTH), dtype=torch.int32)
    rows, start = torch.arange(1, batch + 1), torch.full((batch,), 100)
    slots = torch.arange(8 * batch)
    benchmark.extra_info["floor_us"] = best_us(lambda: slots.to(torch.int32))

    benchmark(kernels.assign_req_to_token, table, rows, start, start, start + 8, start + 8, slots)


@pytest.mark.parametrize("batch", [1, 256])
def test_get_last_loc(benchmark: Any, batch: int) -> None:
    table = torch.zeros((4097, WIDTH), dtype=torch.int32)
    rows, lens = torch.arange(1, batch + 1), torch.arange(batch)
    benchmark.extra_info["floor_us"] = best_us(lambda: table[rows, lens])

    benchmark(kernels.get_last_loc, table, rows, lens)


@pytest.mark.parametrize("num_rows", [64])
def test_store_kv(benchmark: Any, num_rows: int) -> None:
    caches = [torch.zeros((8192, 8, 128), dtype=torch.bfloat16) for _ in range(2)]
    values = torch.ones((num_rows, 8, 128), dtype=torch.bfloat16)
    slots = torch.randperm(8192)[:num_rows]
    benchmark.extra_info["floor_us"] = 2 * best_us(values.clone)

    benchmark(kernels.store_kv, *caches, slots, values, values)
