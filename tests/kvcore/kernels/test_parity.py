"""Every kernel against a model in plain Python integers, on each backend: dtypes, batches, pages, empty inputs."""

from __future__ import annotations

import random
from typing import NamedTuple

import numpy as np
import pytest
import torch

from kvcore import kernels
from tests.kvcore.kernels.backends import BACKENDS, device_of, on

DTYPES = [torch.int32, torch.int64]

pytestmark = pytest.mark.parametrize("backend", BACKENDS)


class Batch(NamedTuple):
    """Random lengths: requests that start, grow within a page, over pages, by more than a block, or not at all."""

    prefix_lens: list[int]
    seq_lens: list[int]
    last_locs: list[int]


def make_batch(size: int, page_size: int, seed: int, longest: int = 3000) -> Batch:
    rng = random.Random(f"{size} {page_size} {seed}")
    prefix_lens = [rng.choice([0, 1, page_size, rng.randrange(5 * page_size)]) for _ in range(size)]
    growth = [rng.choice([0, 1, page_size, rng.randrange(4 * page_size)]) for _ in range(size)]
    if size:
        growth[-1] = longest
    seq_lens = [prefix + more for prefix, more in zip(prefix_lens, growth, strict=True)]
    last_locs = [
        (1000 + index) * page_size + (prefix - 1) % page_size if prefix else -1
        for index, prefix in enumerate(prefix_lens)
    ]
    return Batch(prefix_lens, seq_lens, last_locs)


def make_rows(size: int, seed: int = 0) -> list[int]:
    return random.Random(seed).sample(range(1, 2 * size + 1), size)


def model_extend(batch: Batch, free_pages: list[int], page_size: int) -> list[int]:
    slots, pages = [], iter(free_pages)
    for prefix, seq, last in zip(*batch, strict=True):
        slot = last
        for token in range(prefix, seq):
            slot = slot + 1 if token % page_size else next(pages) * page_size
            slots.append(slot)
    assert next(pages, None) is None, "the test handed out too many pages"
    return slots


def num_pages(batch: Batch, page_size: int) -> int:
    pairs = zip(batch.prefix_lens, batch.seq_lens, strict=True)
    return sum(-(-seq // page_size) - -(-prefix // page_size) for prefix, seq in pairs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("page_size", [1, 2, 4, 16, 64])
@pytest.mark.parametrize("size", [0, 1, 3, 33, 257])
def test_alloc_extend(backend: str, dtype: torch.dtype, page_size: int, size: int) -> None:
    device = device_of(backend)
    batch = make_batch(size, page_size, seed=1, longest=60 if size == 257 else 3000)
    free_pages = random.Random(2).sample(range(1, 10_000), num_pages(batch, page_size))
    prefix, seq, last = (torch.tensor(values, dtype=dtype) for values in batch)

    with on(backend):
        slots = kernels.alloc_extend(
            prefix.to(device),
            prefix,
            seq.to(device),
            seq,
            last.to(device),
            torch.tensor(free_pages, dtype=torch.int64, device=device),
            page_size=page_size,
            extend_num_tokens=sum(batch.seq_lens) - sum(batch.prefix_lens),
        )

    assert slots.dtype == torch.int64
    assert slots.tolist() == model_extend(batch, free_pages, page_size)


def test_alloc_extend_without_a_new_page_loads_none(backend: str) -> None:
    device = device_of(backend)
    lens = torch.tensor([5, 6]), torch.tensor([7, 6])

    with on(backend):
        slots = kernels.alloc_extend(
            lens[0].to(device),
            lens[0],
            lens[1].to(device),
            lens[1],
            torch.tensor([20, 9], device=device),
            torch.empty(0, dtype=torch.int64, device=device),
            page_size=8,
            extend_num_tokens=2,
        )

    assert slots.tolist() == [21, 22]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("page_size", [1, 2, 4, 16, 64])
@pytest.mark.parametrize("size", [0, 1, 3, 33, 600])
def test_alloc_decode(backend: str, dtype: torch.dtype, page_size: int, size: int) -> None:
    device = device_of(backend)
    batch = make_batch(size, page_size, seed=3, longest=0)
    lens = [prefix + 1 for prefix in batch.prefix_lens]
    openers = [index for index, seq in enumerate(lens) if (seq - 1) % page_size == 0]
    free_pages = random.Random(4).sample(range(1, 10_000), len(openers))

    with on(backend):
        slots = kernels.alloc_decode(
            torch.tensor(lens, dtype=dtype, device=device),
            torch.tensor(batch.last_locs, dtype=dtype, device=device),
            np.array(openers, dtype=np.int64),
            torch.tensor(free_pages, dtype=torch.int64, device=device),
            page_size=page_size,
        )

    assert slots.dtype == torch.int64
    assert slots.tolist() == model_extend(
        Batch(batch.prefix_lens, lens, batch.last_locs), free_pages, page_size
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 3, 33, 257])
def test_write_req_to_token(backend: str, dtype: torch.dtype, size: int) -> None:
    device = device_of(backend)
    batch = make_batch(size, 16, seed=5, longest=60 if size == 257 else 2000)
    width = max([*batch.seq_lens, 1]) + 3
    rows = make_rows(size)
    table = torch.full((2 * size + 1, width), -7, dtype=torch.int32)
    expected = table.tolist()
    prefix_slots = list(range(10_000, 10_000 + sum(batch.prefix_lens)))
    new_slots = list(range(50_000, 50_000 + sum(batch.seq_lens) - sum(batch.prefix_lens)))
    cached, new = iter(prefix_slots), iter(new_slots)
    for row, prefix, seq in zip(rows, batch.prefix_lens, batch.seq_lens, strict=True):
        expected[row][:seq] = [next(cached if token < prefix else new) for token in range(seq)]
    prefix_lens, seq_lens = (torch.tensor(values, dtype=dtype) for values in batch[:2])
    table = table.to(device)

    with on(backend):
        kernels.write_req_to_token(
            table,
            torch.tensor(rows, dtype=dtype, device=device),
            prefix_lens.to(device),
            prefix_lens,
            seq_lens.to(device),
            seq_lens,
            torch.tensor(prefix_slots, dtype=dtype, device=device),
            torch.tensor(new_slots, dtype=dtype, device=device),
        )

    assert table.tolist() == expected


@pytest.mark.parametrize(("prefix_len", "seq_len"), [(0, 5), (5, 5), (0, 0)])
def test_write_req_to_token_with_one_part_empty(backend: str, prefix_len: int, seq_len: int) -> None:
    device = device_of(backend)
    table = torch.zeros((3, 6), dtype=torch.int32, device=device)
    prefix, seq = torch.tensor([prefix_len]), torch.tensor([seq_len])

    with on(backend):
        kernels.write_req_to_token(
            table,
            torch.tensor([1], device=device),
            prefix.to(device),
            prefix,
            seq.to(device),
            seq,
            torch.arange(1, prefix_len + 1, device=device),
            torch.arange(prefix_len + 1, seq_len + 1, device=device),
        )

    assert table.tolist() == [[0] * 6, [*range(1, seq_len + 1)] + [0] * (6 - seq_len), [0] * 6]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 3, 33, 257])
def test_assign_req_to_token(backend: str, dtype: torch.dtype, size: int) -> None:
    device = device_of(backend)
    batch = make_batch(size, 16, seed=6, longest=60 if size == 257 else 2000)
    rows = make_rows(size)
    table = torch.full((2 * size + 1, max([*batch.seq_lens, 1])), -7, dtype=torch.int32)
    expected = table.tolist()
    slots = list(range(50_000, 50_000 + sum(batch.seq_lens) - sum(batch.prefix_lens)))
    new = iter(slots)
    for row, start, end in zip(rows, batch.prefix_lens, batch.seq_lens, strict=True):
        expected[row][start:end] = [next(new) for _ in range(start, end)]
    starts, ends = (torch.tensor(values, dtype=dtype) for values in batch[:2])
    table = table.to(device)

    with on(backend):
        kernels.assign_req_to_token(
            table,
            torch.tensor(rows, dtype=dtype, device=device),
            starts.to(device),
            starts,
            ends.to(device),
            ends,
            torch.tensor(slots, dtype=dtype, device=device),
        )

    assert table.tolist() == expected


@pytest.mark.parametrize("row_dtype", DTYPES)
@pytest.mark.parametrize("len_dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 3, 600])
def test_get_last_loc(backend: str, row_dtype: torch.dtype, len_dtype: torch.dtype, size: int) -> None:
    """Any mix of dtypes; an empty prefix gives -1 whatever its row holds."""
    device = device_of(backend)
    rng = random.Random(7)
    table = torch.randint(1, 100_000, (2 * size + 1, 9), dtype=torch.int32)
    rows = make_rows(size)
    lens = [rng.randrange(10) for _ in rows]

    with on(backend):
        last = kernels.get_last_loc(
            table.to(device),
            torch.tensor(rows, dtype=row_dtype, device=device),
            torch.tensor(lens, dtype=len_dtype, device=device),
        )

    assert last.dtype == len_dtype
    assert last.tolist() == [int(table[row, n - 1]) if n else -1 for row, n in zip(rows, lens, strict=True)]


@pytest.mark.parametrize("slot_dtype", DTYPES)
@pytest.mark.parametrize("value_dtype", [torch.float16, torch.bfloat16, torch.float32, torch.uint8])
@pytest.mark.parametrize("layout", ["token-major", "page-major"])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_store_kv(
    backend: str, slot_dtype: torch.dtype, value_dtype: torch.dtype, layout: str, size: int
) -> None:
    """Rows wider than a block and unequal widths; k and v are parts of one fused projection."""
    device = device_of(backend)
    heads, page_size, k_dim, v_dim = 3, 4, 200, 40
    paged = layout == "page-major"
    shape = (6, heads, page_size) if paged else (6 * page_size, heads)
    caches = [torch.randint(0, 99, (*shape, dim)).to(value_dtype) for dim in (k_dim, v_dim)]
    expected = [cache.clone() for cache in caches]
    fused = torch.randint(100, 200, (size, heads * (k_dim + v_dim))).to(value_dtype).to(device)
    k = fused[:, : heads * k_dim].view(size, heads, k_dim)
    v = fused[:, heads * k_dim :].view(size, heads, v_dim)
    slots = random.Random(8).sample(range(6 * page_size), size)
    for cache, values in zip(expected, (k, v), strict=True):
        for index, slot in enumerate(slots):
            if paged:
                cache[slot // page_size, :, slot % page_size] = values[index].cpu()
            else:
                cache[slot] = values[index].cpu()
    caches = [cache.to(device) for cache in caches]
    store = kernels.store_kv_paged if paged else kernels.store_kv

    with on(backend):
        store(caches[0], caches[1], torch.tensor(slots, dtype=slot_dtype, device=device), k, v)

    for cache, wanted in zip(caches, expected, strict=True):
        assert torch.equal(cache.cpu(), wanted)


@pytest.mark.parametrize("slot_dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 5])
def test_store_mla_kv(backend: str, slot_dtype: torch.dtype, size: int) -> None:
    device = device_of(backend)
    cache = torch.rand(24, 1, 576).to(torch.bfloat16)
    nope, rope = torch.rand(size, 1, 512).to(torch.bfloat16), torch.rand(size, 1, 64).to(torch.bfloat16)
    slots = random.Random(9).sample(range(24), size)
    expected = cache.clone()
    for index, slot in enumerate(slots):
        expected[slot] = torch.cat((nope[index], rope[index]), dim=-1)
    cache = cache.to(device)

    with on(backend):
        kernels.store_mla_kv(
            cache, torch.tensor(slots, dtype=slot_dtype, device=device), nope.to(device), rope.to(device)
        )

    assert torch.equal(cache.cpu(), expected)


@pytest.mark.parametrize("slot_dtype", DTYPES)
@pytest.mark.parametrize("shift", [-300, -1, 0, 1, 300])
def test_copy_kv_pages_reads_all_sources_before_it_writes(
    backend: str, slot_dtype: torch.dtype, shift: int
) -> None:
    """Moving 300 rows by any distance, up or down, in buffers of different rows and dtypes."""
    device = device_of(backend)
    num_rows = 12 if backend == "triton" and device == "cpu" else 300
    shift = max(-num_rows, min(num_rows, shift))
    buffers = [
        torch.randint(0, 200, (3 * num_rows, *row)).to(dtype)
        for row, dtype in [((2, 300), torch.bfloat16), ((5,), torch.uint8), ((3,), torch.float32)]
    ]
    source = torch.arange(num_rows, 2 * num_rows)
    expected = [buffer.clone() for buffer in buffers]
    for new, old in zip(expected, buffers, strict=True):
        for slot in source.tolist():
            new[slot + shift] = old[slot]
    buffers = [buffer.to(device) for buffer in buffers]

    with on(backend):
        kernels.copy_kv_pages(
            kernels.BufferTable.of(buffers),
            (source + shift).to(slot_dtype).to(device),
            source.to(slot_dtype).to(device),
        )

    for buffer, wanted in zip(buffers, expected, strict=True):
        assert torch.equal(buffer.cpu(), wanted)


def test_copy_kv_pages_of_nothing(backend: str) -> None:
    buffer = torch.arange(6, device=device_of(backend)).view(3, 2)
    none = torch.empty(0, dtype=torch.int64, device=buffer.device)

    with on(backend):
        kernels.copy_kv_pages(kernels.BufferTable.of([buffer]), none, none)

    assert buffer.flatten().tolist() == list(range(6))


@pytest.mark.parametrize(
    ("row_elements", "dtype", "word"),
    [
        (4, torch.bfloat16, torch.int64),
        (2, torch.bfloat16, torch.int32),
        (3, torch.bfloat16, torch.int16),
        (5, torch.uint8, torch.uint8),
    ],
)
def test_rows_are_copied_in_the_widest_word_that_fits(
    backend: str, row_elements: int, dtype: torch.dtype, word: torch.dtype
) -> None:
    buffer = torch.zeros((4, row_elements), dtype=dtype, device=device_of(backend))

    assert kernels.BufferTable.of([buffer]).word_dtype == word
