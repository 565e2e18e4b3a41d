"""The one place that decides where a kernel runs: Triton for CUDA tensors, torch for all others.

Triton is optional and slow to import, so kernels are loaded when the first of them is launched.
"""

from __future__ import annotations

import functools
import importlib
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

Backend = Literal["torch", "triton"]

_forced: ContextVar[Backend | None] = ContextVar("kvcore_kernel_backend", default=None)


def runs_on_triton(tensor: torch.Tensor) -> bool:
    """Whether a kernel over ``tensor`` is Triton's; the answer for a CPU tensor is no, unless forced."""
    forced = _forced.get()
    if forced is not None:
        return forced == "triton"
    return tensor.is_cuda


@contextmanager
def force_backend(backend: Backend) -> Iterator[None]:
    """Run all kernels of this context on ``backend``.

    "triton" on CPU tensors needs Triton's interpreter: TRITON_INTERPRET=1 in the environment before the
    first launch. "torch" on CUDA tensors works everywhere.
    """
    token = _forced.set(backend)
    try:
        yield
    finally:
        _forced.reset(token)


def packed(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors with their elements next to each other, as kernels address them: themselves, or copies."""
    return tuple(tensor.contiguous() for tensor in tensors)


@functools.cache
def load_kernel(module: str, name: str) -> Any:
    """The ``@triton.jit`` function ``name`` of ``kvcore.kernels.<module>``; imports Triton the first time."""
    return getattr(importlib.import_module(f"kvcore.kernels.{module}"), name)
