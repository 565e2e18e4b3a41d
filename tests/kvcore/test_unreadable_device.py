"""The guard catches what would wait for a device, and lets pass what would not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from kvcore.kernels.addressing import upload
from tests.kvcore.unreadable_device import UNREADABLE, DeviceReadError, no_device_reads

if TYPE_CHECKING:
    from collections.abc import Callable


def assign_scalar(x: torch.Tensor) -> None:
    x[x] = 0


def assign_by_mask(x: torch.Tensor) -> None:
    x[x > 0] = 0


WAITS: dict[str, Callable[[torch.Tensor], object]] = {
    "item": lambda x: x[0].item(),
    "int": lambda x: int(x[0]),
    "truth": lambda x: bool(x[0] > 0),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "numpy": lambda x: x.numpy(),
    "nonzero": lambda x: x.nonzero(),
    "unique": torch.unique,
    "mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "assign by mask": assign_by_mask,
    "assign scalar": assign_scalar,
    "fill from a scalar tensor": lambda x: x.copy_(torch.tensor(1)),
    "upload a list": lambda _: torch.tensor([1, 2], device=UNREADABLE),
    "blocking upload": lambda _: torch.arange(3).to(UNREADABLE),
    "mixed devices": lambda x: x + torch.tensor(1),
}


@pytest.mark.parametrize("name", WAITS)
def test_what_waits_is_caught(name: str) -> None:
    x = torch.empty(8, dtype=torch.int64, device=UNREADABLE)

    with no_device_reads(), pytest.raises((DeviceReadError, NotImplementedError, RuntimeError, TypeError)):
        WAITS[name](x)


def test_what_does_not_wait_passes() -> None:
    x = torch.empty(8, dtype=torch.int64, device=UNREADABLE)
    rows = torch.empty((4, 2), dtype=torch.int32, device=UNREADABLE)

    with no_device_reads():
        x[2:4] = x[:2] // 2 + 1
        x.index_fill_(0, x[x], 0)
        x.scatter_(0, x, x)
        rows.view(-1)[upload(np.arange(3), UNREADABLE)].masked_fill_(x[:3] <= 0, -1)
        torch.arange(8, device=UNREADABLE).index_select(0, x).to(torch.int32)
        torch.arange(5).sum().item()
