"""What a wrapper refuses, it refuses before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from kvcore import kernels
from kvcore.errors import ConfigurationError, RowOverflow, SlotOutOfRange
from tests.kvcore.kernels.backends import BACKENDS, device_of, on

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


def write(*args: torch.Tensor) -> None:
    table, rows, prefix, prefix_cpu, seq, seq_cpu, slots = args
    kernels.write_req_to_token(table, rows, prefix, prefix_cpu, seq, seq_cpu, slots[:4], slots)


@pytest.mark.parametrize("operation", [write, kernels.assign_req_to_token])
def test_a_row_that_is_too_short_is_not_written(backend: str, operation: Callable[..., None]) -> None:
    """A kernel would run into the neighbour's row."""
    device = device_of(backend)
    table = torch.arange(24, dtype=torch.int32, device=device).view(4, 6)
    before = table.clone()
    rows = torch.tensor([3, 1], device=device)
    start, end = torch.tensor([0, 4]), torch.tensor([2, 8])
    lens = (start.to(device), start, end.to(device), end)
    slots = torch.arange(90, 96, device=device)

    message = r"request 1 of the batch needs 8 columns, 2 more than row 1 has \(6\)"

    with on(backend), pytest.raises(RowOverflow, match=message):
        operation(table, rows, *lens, slots)

    assert torch.equal(table, before)


def test_a_row_may_be_filled_to_its_last_column(backend: str) -> None:
    device = device_of(backend)
    table = torch.zeros((4, 3), dtype=torch.int32, device=device)
    start, end = torch.tensor([0]), torch.tensor([3])
    rows = torch.tensor([1], device=device)

    with on(backend):
        kernels.assign_req_to_token(
            table, rows, start.to(device), start, end.to(device), end, torch.tensor([7, 8, 9], device=device)
        )

    assert table.tolist() == [[0] * 3, [7, 8, 9], [0] * 3, [0] * 3]


def test_lengths_that_do_not_add_up_are_caught_before_a_launch(backend: str) -> None:
    """A kernel would read, or write, behind the end of a tensor."""
    device = device_of(backend)
    table = torch.zeros((4, 9), dtype=torch.int32, device=device)
    prefix, seq = torch.tensor([0, 4]), torch.tensor([3, 8])
    rows = torch.tensor([3, 1], device=device)
    lens = (prefix.to(device), prefix, seq.to(device), seq)
    ids = torch.arange(1, 10, device=device)

    with on(backend):
        with pytest.raises(AssertionError, match="add up to 7 slots, got 6"):
            kernels.assign_req_to_token(table, rows, *lens, ids[:6])
        with pytest.raises(AssertionError, match="add up to 4 slots, got 3"):
            kernels.write_req_to_token(table, rows, *lens, ids[:3], ids[:7])
        with pytest.raises(AssertionError, match="add up to 7, told 6"):
            kernels.alloc_extend(*lens, rows, ids[:2], page_size=4, extend_num_tokens=6)
        with pytest.raises(AssertionError, match="takes 2 pages, got 1"):
            kernels.alloc_extend(*lens, rows, ids[:1], page_size=4, extend_num_tokens=7)
        with pytest.raises(AssertionError, match="takes 1 pages, got 0"):
            kernels.alloc_decode(lens[2], rows, np.array([1]), ids[:0], page_size=4)

    assert not table.any()


STORES = ["store_kv", "store_mla_kv", "store_kv_paged"]


def store(name: str, cache: torch.Tensor, slots: torch.Tensor, **options: bool) -> None:
    """Store ones to a cache of 8 slots with rows [1, 4]."""
    k = torch.ones((len(slots), 1, 4), device=cache.device)
    if name == "store_kv":
        kernels.store_kv(cache, cache, slots, k, k, **options)
    elif name == "store_mla_kv":
        kernels.store_mla_kv(cache, slots, k[..., :3], k[..., 3:], **options)
    else:
        kernels.store_kv_paged(cache.view(4, 1, 2, 4), cache.view(4, 1, 2, 4), slots, k, k, **options)


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize(("slots", "message"), [([2, -1], "from -1 to 2"), ([8, 0], "from 0 to 8")])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_a_probed_store_refuses_slots_out_of_range(
    backend: str, name: str, slots: list[int], message: str, dtype: torch.dtype
) -> None:
    """-1 would reach the last row on the CPU, and the memory before the cache on a GPU."""
    cache = torch.zeros((8, 1, 4), device=device_of(backend))

    with on(backend), pytest.raises(SlotOutOfRange, match=rf"{message}, the cache has 0\.\.7"):
        store(name, cache, torch.tensor(slots, dtype=dtype, device=cache.device), probe=True)

    assert not cache.any()


@pytest.mark.parametrize("name", STORES)
def test_the_cpu_probes_without_being_asked(backend: str, name: str) -> None:
    cache = torch.zeros((8, 1, 4))

    with on(backend), pytest.raises(SlotOutOfRange, match="from -1 to -1"):
        store(name, cache, torch.tensor([-1]))

    assert not cache.any()


@pytest.mark.parametrize("name", STORES)
def test_an_unprobed_store_reaches_no_other_memory(backend: str, name: str) -> None:
    """Triton's kernel skips slots out of range; torch's indexing refuses those behind the end by itself."""
    cache = torch.zeros((8, 1, 4), device=device_of(backend))

    with on(backend):
        if backend == "torch":
            with pytest.raises(IndexError):
                store(name, cache, torch.tensor([8]), probe=False)
            store(name, cache, torch.tensor([3]), probe=False)
        else:
            store(name, cache, torch.tensor([-1, 3, 8], device=cache.device), probe=False)

    assert cache.sum(dim=(1, 2)).tolist() == [0, 0, 0, 4, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "k",
    [
        torch.ones((2, 1, 4), dtype=torch.float16),
        torch.ones((3, 1, 4)),
        torch.ones((2, 1, 5)),
        torch.ones((2, 4, 1)).transpose(1, 2).expand(2, 1, 4)[:, :, ::2].repeat(1, 1, 2)[..., ::2],
        torch.ones((2, 4, 2)).transpose(1, 2)[:, :1],
    ],
    ids=["dtype", "count", "width", "short", "strided"],
)
def test_values_that_are_no_rows_of_the_cache_are_refused(backend: str, k: torch.Tensor) -> None:
    cache = torch.zeros((8, 1, 4), device=device_of(backend))
    k = k.to(cache.device)

    with on(backend), pytest.raises(ConfigurationError, match="cast or copy them first"):
        kernels.store_kv(cache, cache, torch.tensor([1, 2], device=cache.device), k, k)

    assert not cache.any()


def test_every_source_of_a_copy_needs_a_target(backend: str) -> None:
    buffer = torch.arange(8.0, device=device_of(backend)).view(4, 2)
    table, before = kernels.BufferTable.of([buffer]), buffer.clone()
    slots = torch.arange(3, device=buffer.device)

    with on(backend), pytest.raises(ConfigurationError, match="found 2 and 3"):
        kernels.copy_kv_pages(table, slots, slots[:2])

    assert torch.equal(buffer, before)


@pytest.mark.parametrize("slots", [([0, 1], [2, -1]), ([0, 4], [2, 3]), ([2, 3], [0, 4])])
def test_a_copy_from_or_to_no_row_is_refused_and_writes_nothing(
    backend: str, slots: tuple[list[int], list[int]]
) -> None:
    buffers = [
        torch.arange(8.0, device=device_of(backend)).view(4, 2),
        torch.ones(5, 1).to(device_of(backend)),
    ]
    table, before = kernels.BufferTable.of(buffers), [buffer.clone() for buffer in buffers]
    targets, sources = (torch.tensor(values, device=buffers[0].device) for values in slots)

    with on(backend), pytest.raises(SlotOutOfRange, match=r"the cache has 0\.\.3"):
        kernels.copy_kv_pages(table, targets, sources, probe=True)

    assert all(map(torch.equal, buffers, before))


def test_an_unprobed_copy_reaches_no_other_memory(backend: str) -> None:
    buffer = torch.arange(8.0, device=device_of(backend)).view(4, 2)
    before = buffer.clone()
    sources, targets = (torch.tensor(values, device=buffer.device) for values in ([1, 9, 2], [0, 3, 9]))

    with on(backend):
        if backend == "torch":
            with pytest.raises(IndexError):
                kernels.copy_kv_pages(kernels.BufferTable.of([buffer]), targets, sources, probe=False)
        else:
            kernels.copy_kv_pages(kernels.BufferTable.of([buffer]), targets[::2], sources[::2], probe=False)
            assert torch.equal(buffer[0], before[1])

    assert torch.equal(buffer[1:], before[1:])


def test_keys_and_values_of_different_lengths_are_refused(backend: str) -> None:
    k_cache, v_cache = (torch.zeros((rows, 1, 4), device=device_of(backend)) for rows in (8, 4))
    values, slots = torch.ones((1, 1, 4), device=k_cache.device), torch.tensor([6], device=k_cache.device)

    with on(backend), pytest.raises(ConfigurationError, match="caches of 8 and 4 rows"):
        kernels.store_kv(k_cache, v_cache, slots, values, values)

    assert not k_cache.any()
    assert not v_cache.any()


@pytest.mark.parametrize("strided", [True, False])
def test_a_table_takes_contiguous_buffers_only(backend: str, strided: bool) -> None:
    buffers = [torch.zeros((4, 6), device=device_of(backend))[:, ::2]] if strided else []

    with pytest.raises(ConfigurationError, match="not contiguous" if strided else "at least one"):
        kernels.BufferTable.of(buffers)
