"""Guard of 30892: an extend that is short of pages never reaches the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kvcore import kernels
from kvcore.allocators.paged import PagedAllocator

if TYPE_CHECKING:
    import pytest


def test_a_short_extend_is_refused_before_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = []

    def spy(*_arguments: object, **_options: object) -> torch.Tensor:
        launched.append(1)
        return torch.zeros(12, dtype=torch.int64)

    monkeypatch.setattr(kernels, "alloc_extend", spy)
    allocator = PagedAllocator(8, 4, device="cpu")
    none, lens = torch.tensor([0]), torch.tensor([12])
    assert allocator.alloc_extend(none, none, lens, lens, torch.tensor([-1]), 12) is None
    assert not launched, "the kernel was launched with a free list that is too short"
    assert allocator.available_size() == 8
