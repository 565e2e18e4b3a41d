"""Which backends the parity tests run on here, and on which device."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch

from kvcore import kernels

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
BACKENDS = ["torch", "triton"] if INTERPRETED or torch.cuda.is_available() else ["torch"]
"""Triton needs a CUDA device, or its interpreter: test_interpreter.py runs the same tests once more in there."""


def device_of(backend: str) -> str:
    """Interpreted kernels and the torch forms work on the CPU, compiled ones on the GPU."""
    return "cuda" if backend == "triton" and not INTERPRETED else "cpu"


def on(backend: str) -> AbstractContextManager[None]:
    return kernels.force_backend("triton" if backend == "triton" else "torch")
