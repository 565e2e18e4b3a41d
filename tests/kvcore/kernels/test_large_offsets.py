"""Addresses beyond 2^31 elements: the arithmetic, and real accesses into memory that is reserved but never backed."""

from __future__ import annotations

import mmap

import pytest
import torch

from kvcore import kernels
from kvcore.kernels.addressing import paged_row_offsets, row_offsets
from tests.kvcore.kernels.backends import BACKENDS, INTERPRETED, on

FAR = 2**31
MAP_NORESERVE = 0x4000  # Linux; the mmap module names it from Python 3.12 on
DTYPES = [torch.int32, torch.int64]


def reserved(num_elements: int, dtype: torch.dtype) -> torch.Tensor:
    """A zero tensor in address space alone: only the pages that a test touches take memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    size = num_elements * torch.empty(0, dtype=dtype).element_size()
    return torch.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=dtype)


def host_backends() -> list[str]:
    """Reserved memory is the host's, so compiled Triton has no part in it."""
    return BACKENDS if INTERPRETED else BACKENDS[:1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_row_offsets_do_not_wrap(dtype: torch.dtype) -> None:
    offsets = row_offsets(torch.tensor([598, 0, 1], dtype=dtype), 3_600_000)

    assert offsets.dtype == torch.int64
    assert offsets.tolist() == [2_152_800_000, 0, 3_600_000]


@pytest.mark.parametrize("dtype", DTYPES)
def test_paged_row_offsets_do_not_wrap(dtype: torch.dtype) -> None:
    slots = torch.tensor([0, 7, 38_271], dtype=dtype)

    offsets = paged_row_offsets(slots, page_size=64, page_elements=3_600_000, row_elements=128)

    assert offsets.dtype == torch.int64
    assert offsets.tolist() == [0, 7 * 128, 597 * 3_600_000 + 63 * 128]


@pytest.mark.parametrize("backend", host_backends())
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_a_large_table_are_written_and_read(backend: str, dtype: torch.dtype) -> None:
    """Row 2,200 of a table with a million columns starts behind element 2^31."""
    table = reserved(2_202 * 1_000_000, torch.int32).view(2_202, 1_000_000)
    rows = torch.tensor([2_200, 3], dtype=dtype)
    start, end = torch.tensor([0, 2], dtype=dtype), torch.tensor([2, 5], dtype=dtype)

    with on(backend):
        kernels.assign_req_to_token(table, rows, start, start, end, end, torch.tensor([11, 12, 13, 14, 15]))
        first = kernels.get_last_loc(table, rows, end)
        kernels.write_req_to_token(
            table, rows, start, start, end, end, torch.tensor([21, 22]), torch.tensor([31, 32, 33, 34, 35])
        )
        second = kernels.get_last_loc(table, rows, end)

    assert first.tolist() == [12, 15]
    assert second.tolist() == [32, 35]
    assert table[2_200, :3].tolist() == [31, 32, 0]
    assert table[3, :6].tolist() == [21, 22, 33, 34, 35, 0]


@pytest.mark.parametrize("backend", host_backends())
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_stored_behind_two_to_the_31_elements(backend: str, dtype: torch.dtype) -> None:
    num_slots, row = FAR // 512 + 8, 512
    cache = reserved(num_slots * row, torch.uint8).view(num_slots, 1, row)
    slots = torch.tensor([num_slots - 1, 2], dtype=dtype)
    values = torch.arange(2 * row).to(torch.uint8).view(2, 1, row)

    with on(backend):
        kernels.store_mla_kv(cache, slots, values[..., :400], values[..., 400:])
        kernels.store_kv_paged(
            cache.view(-1, 1, 2, row), cache.view(-1, 1, 2, row), slots - 1, values + 1, values + 1
        )
        kernels.copy_kv_pages(kernels.BufferTable.of([cache]), slots - 2, slots)

    assert torch.equal(cache[slots], values)
    assert torch.equal(cache[slots - 1], values + 1)
    assert torch.equal(cache[slots - 2], values)
    assert not cache[4:9].any()


@pytest.mark.parametrize("backend", host_backends())
def test_keys_and_values_have_rows_of_their_own(backend: str) -> None:
    num_slots = FAR // 512 + 8
    k_cache, v_cache = (reserved(num_slots * row, torch.uint8).view(num_slots, 1, row) for row in (512, 8))
    slots = torch.tensor([num_slots - 1], dtype=torch.int32)
    k, v = (torch.full((1, 1, row), 9, dtype=torch.uint8) for row in (512, 8))

    with on(backend):
        kernels.store_kv(k_cache, v_cache, slots, k, v)

    assert torch.equal(k_cache[-1], k[0])
    assert torch.equal(v_cache[-1], v[0])
    assert not k_cache[:8].any()
