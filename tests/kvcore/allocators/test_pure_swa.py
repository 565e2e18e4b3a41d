"""One pool in both roles."""

from __future__ import annotations

import pytest
import torch

from kvcore.allocators import PureSWAAllocator
from tests.kvcore.allocators.factories import admit, ints


def test_the_mapping_is_the_identity_and_both_sizes_are_the_pools() -> None:
    swa = PureSWAAllocator(5, device="cpu")

    assert swa.translate_loc_from_full_to_swa(ints([1, 5, -1])).tolist() == [1, 5, -1]
    admit(swa, 2)
    assert swa.full_available_size() == swa.swa_available_size() == swa.available_size() == 3


@pytest.mark.parametrize("evicted", [0, 2, 4])
def test_a_finished_row_frees_around_what_left_the_window(evicted: int) -> None:
    swa = PureSWAAllocator(5, device="cpu")
    row = admit(swa, 4)
    swa.free_swa_segment(row[:evicted])

    swa.free_segment(row, swa_evicted=evicted)

    assert sorted(swa.free_pages.tolist()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("method", ["free", "free_swa"])
def test_marks_of_evicted_tokens_are_dropped(method: str) -> None:
    swa = PureSWAAllocator(5, device="cpu")
    row = admit(swa, 3)

    getattr(swa, method)(torch.cat((ints([0, -1]), row)))

    assert sorted(swa.free_pages.tolist()) == [1, 2, 3, 4, 5]
