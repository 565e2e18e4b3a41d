"""On a GPU: the life of a request never synchronises. CUDA itself is the judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from kvcore.allocators import PagedAllocator, SWAAllocator, TokenAllocator
from tests.kvcore.allocators.factories import ints

if TYPE_CHECKING:
    from kvcore.allocators.base import TokenToKVPoolAllocator

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

LENS = {name: ints(lens) for name, lens in (("prefix", [0, 0]), ("seq", [700, 1]), ("next", [701, 2]))}


def live_and_end(
    allocator: TokenToKVPoolAllocator, lens: dict[str, torch.Tensor], none: torch.Tensor
) -> None:
    slots = allocator.alloc_extend(lens["prefix"], LENS["prefix"], lens["seq"], LENS["seq"], none, 701)
    assert slots is not None
    step = allocator.alloc_decode(lens["next"], LENS["next"], torch.stack((slots[699], slots[700])))
    assert step is not None
    allocator.free_group_begin()
    allocator.free_segment(torch.cat((slots[:700], step[:1])))
    allocator.free_segment(torch.cat((slots[700:], step[1:])))
    allocator.free_group_end()


def make_allocator(name: str) -> TokenToKVPoolAllocator:
    if name == "token":
        return TokenAllocator(4096, device="cuda")
    if name == "paged":
        return PagedAllocator(4096, 64, device="cuda")
    return SWAAllocator(4096, 2048, 64, device="cuda")


@pytest.mark.parametrize("name", ["token", "paged", "window"])
def test_a_request_lives_and_ends_without_a_synchronisation(name: str) -> None:
    allocator = make_allocator(name)
    lens = {key: values.cuda() for key, values in LENS.items()}
    none = torch.full((2,), -1, device="cuda")
    live_and_end(allocator, lens, none)  # compiles the kernels
    torch.cuda.synchronize()
    free = allocator.available_size()

    torch.cuda.set_sync_debug_mode("error")
    try:
        live_and_end(allocator, lens, none)
    finally:
        torch.cuda.set_sync_debug_mode("default")

    assert allocator.available_size() == free
