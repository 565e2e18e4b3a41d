"""Random numbers: two runs get the same ones, and the program gets those that it would have got."""

from __future__ import annotations

import random
from typing import Any

from prtoggle.trace.libraries import cuda, numpy, torch


def saved() -> list[tuple[Any, Any]]:
    """How the generators of the process stand: for each, what puts it back, and its state.

    Those of `random`, of numpy and of torch, on the CPU and on CUDA, where they are loaded. A generator that
    the program made itself is copied with whoever holds it.
    """
    states: list[tuple[Any, Any]] = [(random.setstate, random.getstate())]
    arrays: Any = getattr(numpy(), "random", None)
    if hasattr(arrays, "set_state"):
        states.append((arrays.set_state, arrays.get_state()))
    tensors: Any = torch()
    if hasattr(tensors, "set_rng_state"):
        states.append((tensors.set_rng_state, tensors.get_rng_state()))
    devices = cuda()
    if devices is not None:
        states.append((devices.set_rng_state_all, devices.get_rng_state_all()))
    return states


def put_back(states: list[tuple[Any, Any]]) -> None:
    """Let the generators stand as they stood when `saved` was called."""
    for restore, state in states:
        restore(state)


def captured_on_cuda() -> bool:
    """Whether this thread is recording a CUDA graph, which a second run would go into."""
    devices = cuda()
    return devices is not None and bool(devices.is_current_stream_capturing())
