"""No hot path of an allocator, and no kernel wrapper, makes the host wait for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from kvcore import kernels
from kvcore.allocators import (
    DSV4Allocator,
    DSV4PoolSizes,
    PagedAllocator,
    PureSWAAllocator,
    SWAAllocator,
    TokenAllocator,
)
from tests.kvcore.allocators.factories import ExtendArgs, ints
from tests.kvcore.unreadable_device import UNREADABLE, DeviceReadError, no_device_reads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvcore.allocators.base import TokenToKVPoolAllocator

DTYPES = [torch.int32, torch.int64]


@pytest.fixture(autouse=True)
def _guarded() -> Iterator[None]:
    with no_device_reads():
        yield


def make_allocators() -> list[TokenToKVPoolAllocator]:
    sizes = DSV4PoolSizes(2560, 2560, 640, 20, 2560, 2560)
    return [
        TokenAllocator(4096, device=UNREADABLE),
        PagedAllocator(4096, 64, device=UNREADABLE),
        PagedAllocator(4096, 64, device=UNREADABLE, need_sort=True),
        PureSWAAllocator(4096, device=UNREADABLE),
        SWAAllocator(4096, 2048, 64, device=UNREADABLE),
        SWAAllocator(4096, 2048, 1, device=UNREADABLE, need_sort=True),
        DSV4Allocator(sizes, 256, num_rows=4, device=UNREADABLE),
    ]


def make_extend(prefix: list[int], seq: list[int], dtype: torch.dtype) -> ExtendArgs:
    """The arguments of an extend, device lengths beside host lengths."""
    device_lens = torch.empty(len(prefix), dtype=dtype, device=UNREADABLE)
    num_tokens = sum(seq) - sum(prefix)
    return ExtendArgs(
        device_lens, ints(prefix, dtype), device_lens, ints(seq, dtype), device_lens, num_tokens
    )


def make_decode(seq: list[int], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    device_lens = torch.empty(len(seq), dtype=dtype, device=UNREADABLE)
    return device_lens, ints(seq, dtype), device_lens


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("in_group", [False, True])
@pytest.mark.parametrize("index", range(7))
def test_a_request_lives_and_ends_without_a_wait(index: int, in_group: bool, dtype: torch.dtype) -> None:
    allocator = make_allocators()[index]
    free = allocator.available_size()
    for _ in range(3):  # the second round runs on what the first has freed
        first = allocator.alloc_extend(*make_extend([0, 0], [70, 1], dtype))
        more = allocator.alloc_extend(*make_extend([70], [600], dtype))
        step = allocator.alloc_decode(*make_decode([2, 601], dtype))
        assert first is not None
        assert more is not None
        assert step is not None
        row = torch.cat((first[:70], more, step[1:])).to(dtype)

        if in_group:
            allocator.free_group_begin()
        allocator.free_segment(row)
        allocator.free_segment(torch.cat((first[70:], step[:1])))
        allocator.free_group_end()

        assert allocator.available_size() == free


@pytest.mark.parametrize("dtype", DTYPES)
def test_window_slots_go_and_tails_come_without_a_wait(dtype: torch.dtype) -> None:
    swa = SWAAllocator(4096, 2048, 64, device=UNREADABLE)

    row = swa.alloc_extend_swa_tail(*make_extend([0], [1000], dtype), swa_tail_len=232)
    assert row is not None
    row = row.to(dtype)
    swa.free_swa_segment(row[768:896])
    swa.free_segment(row, swa_evicted=896)

    assert swa.available_size() == 2048
    assert swa.full_available_size() == 4096


def test_compressed_attention_steps_without_a_wait() -> None:
    dsv4 = DSV4Allocator(DSV4PoolSizes(2560, 2560, 640, 20, 2560, 2560), 256, num_rows=4, device=UNREADABLE)
    lens = dsv4.compute_dsv4_state_lens([1, 2], [0, 0], [300, 200], "extend")
    extend = dsv4.alloc_extend_bundle(
        *make_extend([0, 0], [300, 200], torch.int64), rows=[1, 2], state_lens=lens
    )
    lens = dsv4.compute_dsv4_state_lens([1, 2], [300, 200], [301, 201], "decode")
    step = dsv4.alloc_decode_bundle(*make_decode([301, 201], torch.int64), rows=[1, 2], state_lens=lens)

    assert extend is not None
    assert step is not None
    assert (len(extend.c4), len(step.full)) == (125, 2)
    dsv4.free_states(1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_written_and_read_without_a_wait(dtype: torch.dtype) -> None:
    table = torch.empty((5, 100), dtype=torch.int32, device=UNREADABLE)
    prefix, prefix_cpu, seq, seq_cpu, rows, _ = make_extend([3, 0], [50, 20], dtype)
    slots = torch.empty(67, dtype=dtype, device=UNREADABLE)

    kernels.write_req_to_token(table, rows, prefix, prefix_cpu, seq, seq_cpu, slots[:3], slots)
    kernels.assign_req_to_token(table, rows, prefix, prefix_cpu, seq, seq_cpu, slots)

    assert kernels.get_last_loc(table, rows, seq).shape == (2,)


def test_values_are_stored_and_moved_without_a_wait() -> None:
    cache = torch.empty((128, 2, 8), device=UNREADABLE)
    values = torch.empty((3, 2, 8), device=UNREADABLE)
    slots = torch.empty(3, dtype=torch.int32, device=UNREADABLE)

    kernels.store_kv(cache, cache, slots, values, values)
    kernels.store_kv_paged(cache.view(8, 2, 16, 8), cache.view(8, 2, 16, 8), slots, values, values)
    kernels.store_mla_kv(cache.view(256, 1, 8), slots, values[:, :1, :6], values[:, :1, 6:])
    table = kernels.BufferTable.of([cache])
    kernels.copy_kv_pages(table, slots, slots)


def test_the_probe_waits_where_it_is_asked_for() -> None:
    cache = torch.empty((128, 2, 8), device=UNREADABLE)
    values = torch.empty((3, 2, 8), device=UNREADABLE)

    with pytest.raises(DeviceReadError):
        kernels.store_kv(
            cache, cache, torch.empty(3, dtype=torch.int64, device=UNREADABLE), values, values, probe=True
        )


def test_the_slow_free_is_the_one_that_waits() -> None:
    pool = PagedAllocator(4096, 64, device=UNREADABLE)
    row = pool.alloc(128)
    assert row is not None

    with pytest.raises(DeviceReadError, match="_unique2"):
        pool.free(row)


def test_uploads_do_not_wait() -> None:
    assert kernels.addressing.upload(np.arange(3), UNREADABLE).device == UNREADABLE
