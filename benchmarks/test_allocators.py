"""What allocators cost on the host, against a torch routine that touches only the slots of the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from benchmarks.ratios import best_us
from kvcore.allocators import PagedAllocator, SWAAllocator, TokenAllocator

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 2000
POOL = 1 << 20
PAGE_SIZE = 64


def measure(benchmark: Any, setup: Callable[[], object], call: Callable[..., object]) -> None:
    """Time ``call`` alone; ``setup`` brings the allocator back before each round."""
    benchmark.pedantic(call, setup=setup, rounds=ROUNDS, warmup_rounds=20)


def copy_floor(num_entries: int) -> float:
    """Writing ``num_entries`` ids into a buffer."""
    buffer, ids = torch.arange(POOL), torch.arange(num_entries)
    return best_us(lambda: buffer[5 : 5 + num_entries].copy_(ids))


@pytest.mark.parametrize("log_size", [14, 20, 23])
def test_token_free_64(benchmark: Any, log_size: int) -> None:
    """Flat in the pool size: only the 64 slots are touched."""
    pool = TokenAllocator(1 << log_size, device="cpu")
    floor = copy_floor(64)
    benchmark.extra_info |= {"floor_us": floor, "goal_us": 2 * floor}
    taken: list[torch.Tensor] = []

    def take() -> None:
        slots = pool.alloc(64)
        assert slots is not None
        taken[:] = [slots]

    measure(benchmark, take, lambda: pool.free(taken[0]))


@pytest.mark.parametrize("log_size", [14, 23])
def test_token_alloc_64(benchmark: Any, log_size: int) -> None:
    pool = TokenAllocator(1 << log_size, device="cpu")
    benchmark.extra_info["floor_us"] = best_us(lambda: torch.arange(64).clone())
    taken: list[torch.Tensor | None] = [pool.alloc(64)]

    def give_back() -> None:
        assert taken[0] is not None
        pool.free(taken[0])

    def take() -> None:
        taken[0] = pool.alloc(64)

    measure(benchmark, give_back, take)


def test_paged_free_4096_slots(benchmark: Any) -> None:
    pool = PagedAllocator(POOL, PAGE_SIZE, device="cpu")
    row = torch.arange(4096)
    benchmark.extra_info |= {"floor_us": best_us(lambda: row[::PAGE_SIZE] // PAGE_SIZE), "goal_us": 10}
    taken: list[torch.Tensor] = []

    def take() -> None:
        slots = pool.alloc(4096)
        assert slots is not None
        taken[:] = [slots]

    measure(benchmark, take, lambda: pool.free_segment(taken[0]))


@pytest.mark.parametrize("swa_evicted", [0, 2048])
def test_swa_free_4096_slots(benchmark: Any, swa_evicted: int) -> None:
    swa = SWAAllocator(POOL, POOL // 2, PAGE_SIZE, device="cpu")
    benchmark.extra_info["goal_us"] = 40
    taken: list[torch.Tensor] = []

    def take() -> None:
        slots = swa.alloc(4096)
        assert slots is not None
        swa.free_swa_segment(slots[:swa_evicted])
        taken[:] = [slots]

    measure(benchmark, take, lambda: swa.free_segment(taken[0], swa_evicted=swa_evicted))


@pytest.mark.parametrize(("batch", "goal_us"), [(1, 60), (32, 70), (256, 150)])
def test_alloc_extend_64_tokens_each(benchmark: Any, batch: int, goal_us: int) -> None:
    pool = PagedAllocator(POOL, PAGE_SIZE, device="cpu")
    prefix = torch.arange(batch) * 7 % 60
    seq = prefix + 64
    last = torch.where(prefix > 0, POOL // 2 + prefix - 1, -1)
    out = torch.arange(batch * 64)
    benchmark.extra_info |= {"floor_us": best_us(out.clone), "goal_us": goal_us}

    def extend() -> None:
        assert pool.alloc_extend(prefix, prefix, seq, seq, last, batch * 64) is not None

    measure(benchmark, refill(pool), extend)


def refill(pool: PagedAllocator) -> Callable[[], None]:
    """Make everything free again when half of the pool has been taken."""

    def run() -> None:
        if pool.available_size() < POOL // 2:
            pool.clear()

    return run


@pytest.mark.parametrize("openers", ["few", "all"])
@pytest.mark.parametrize(("batch", "goal_us"), [(1, 17), (256, 25)])
def test_alloc_decode(benchmark: Any, batch: int, goal_us: int, openers: str) -> None:
    """Few: lengths are spread, one request in 64 begins a page; all: every request does."""
    pool = PagedAllocator(POOL, PAGE_SIZE, device="cpu")
    seq = torch.arange(batch) + 65 if openers == "few" else torch.full((batch,), 65)
    last = torch.full((batch,), POOL // 2 + 63)
    benchmark.extra_info |= {"floor_us": best_us(lambda: last + 1), "goal_us": goal_us}

    def decode() -> None:
        assert pool.alloc_decode(seq, seq, last) is not None

    measure(benchmark, refill(pool), decode)
