"""Kernels read index tensors that are views with gaps as what they show, on each backend."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvcore import kernels
from tests.kvcore.kernels.backends import BACKENDS, device_of, on

pytestmark = [
    pytest.mark.parametrize("backend", BACKENDS),
    pytest.mark.parametrize("dtype", [torch.int32, torch.int64]),
]
PREFIX, SEQ, LAST = [3, 0, 8], [9, 5, 9], [18, -1, 43]


def gaps(values: list[int], dtype: torch.dtype, backend: str) -> torch.Tensor:
    """Every second element of a tensor that holds wrong values in between."""
    wide = torch.full((2 * len(values),), 77, dtype=dtype, device=device_of(backend))
    wide[::2] = torch.tensor(values, dtype=dtype, device=wide.device)
    return wide[::2]


def host(values: list[int]) -> torch.Tensor:
    return torch.tensor(values)


def test_slots_of_an_extend(backend: str, dtype: torch.dtype) -> None:
    with on(backend):
        slots = kernels.alloc_extend(
            gaps(PREFIX, dtype, backend),
            host(PREFIX),
            gaps(SEQ, dtype, backend),
            host(SEQ),
            gaps(LAST, dtype, backend),
            gaps([7, 2, 9, 5, 6], torch.int64, backend),
            page_size=4,
            extend_num_tokens=12,
        )
    assert slots.tolist() == [19, 28, 29, 30, 31, 8, 36, 37, 38, 39, 20, 24]


def test_slots_of_a_decode_step(backend: str, dtype: torch.dtype) -> None:
    with on(backend):
        slots = kernels.alloc_decode(
            gaps([4, 1, 9], dtype, backend),
            gaps(LAST, dtype, backend),
            np.array([1, 2]),
            gaps([3, 8], torch.int64, backend),
            page_size=4,
        )
    assert slots.tolist() == [19, 12, 32]


def test_rows_are_written_and_read(backend: str, dtype: torch.dtype) -> None:
    table = torch.full((6, 10), -7, dtype=torch.int32, device=device_of(backend))
    rows = gaps([4, 1, 2], dtype, backend)
    prefix, seq = gaps(PREFIX, dtype, backend), gaps(SEQ, dtype, backend)
    held, new = list(range(100, 111)), list(range(200, 212))
    with on(backend):
        kernels.write_req_to_token(
            table,
            rows,
            prefix,
            host(PREFIX),
            seq,
            host(SEQ),
            gaps(held, dtype, backend),
            gaps(new, dtype, backend),
        )
        last = kernels.get_last_loc(table, rows, seq)
    assert table[4].tolist() == [*held[:3], *new[:6], -7]
    assert table[1].tolist() == [*new[6:11], *[-7] * 5]
    assert table[2].tolist() == [*held[3:], new[11], -7]
    assert last.tolist() == [205, 210, 211]

    with on(backend):
        kernels.assign_req_to_token(
            table, rows, prefix, host(PREFIX), seq, host(SEQ), gaps(list(range(300, 312)), dtype, backend)
        )
    assert table[4].tolist() == [*held[:3], *range(300, 306), -7]


def test_keys_and_values_are_stored_and_copied(backend: str, dtype: torch.dtype) -> None:
    device = device_of(backend)
    caches = [torch.zeros(8, 2, width, device=device) for width in (4, 3)]
    k, v = torch.rand(3, 2, 4, device=device), torch.rand(3, 2, 3, device=device)
    with on(backend):
        kernels.store_kv(*caches, gaps([5, 1, 6], dtype, backend), k, v)
    assert torch.equal(caches[0][[5, 1, 6]], k)
    assert torch.equal(caches[1][[5, 1, 6]], v)
    assert not caches[0][[0, 2, 3, 4, 7]].any()

    with on(backend):
        table = kernels.BufferTable.of(caches)
        kernels.copy_kv_pages(table, gaps([2, 5], dtype, backend), gaps([5, 6], dtype, backend))
    assert torch.equal(caches[0][[2, 5]], k[[0, 2]])
    assert torch.equal(caches[1][[2, 5]], v[[0, 2]])


def test_compressed_keys_are_stored(backend: str, dtype: torch.dtype) -> None:
    device = device_of(backend)
    cache = torch.zeros(8, 1, 6, device=device)
    nope, rope = torch.rand(2, 1, 4, device=device), torch.rand(2, 1, 2, device=device)
    with on(backend):
        kernels.store_mla_kv(cache, gaps([7, 3], dtype, backend), nope, rope)
    assert torch.equal(cache[[7, 3]], torch.cat((nope, rope), -1))
    assert not cache[[0, 1, 2, 4, 5, 6]].any()
