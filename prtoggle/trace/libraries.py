"""torch and numpy as far as the program has loaded them; nothing is imported for tracing's sake."""

from __future__ import annotations

import sys
from typing import Any


def torch() -> Any:
    """The module, or None."""
    return sys.modules.get("torch")


def numpy() -> Any:
    """The module, or None."""
    return sys.modules.get("numpy")


def cuda() -> Any:
    """`torch.cuda` once the program has begun to use a device, or None."""
    module = getattr(torch(), "cuda", None)
    ready = getattr(module, "is_initialized", None)
    return module if ready is not None and ready() else None


def is_library(thing: object) -> bool:
    """Whether a class or function comes from the standard library."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] in sys.stdlib_module_names


def is_tensor(value: object) -> bool:
    """Whether the value is a torch tensor."""
    return isinstance(value, getattr(torch(), "Tensor", ()))


def is_array(value: object) -> bool:
    """Whether the value is a numpy array."""
    return isinstance(value, getattr(numpy(), "ndarray", ()))


def holds_objects(value: object) -> bool:
    """Whether the value is a numpy array of Python objects."""
    return is_array(value) and value.dtype.kind == "O"  # type: ignore[attr-defined]  # an array's


def is_number(value: object) -> bool:
    """Whether the value is one number of numpy's."""
    return isinstance(value, getattr(numpy(), "generic", ()))


def is_torch_setting(value: object) -> bool:
    """Whether the value is a dtype or a device."""
    return isinstance(value, (getattr(torch(), "dtype", ()), getattr(torch(), "device", ())))


def is_torch_generator(value: object) -> bool:
    """Whether the value is a generator of torch's random numbers."""
    return isinstance(value, getattr(torch(), "Generator", ()))
