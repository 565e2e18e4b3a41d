"""Random numbers: two runs get the same ones, and the program gets those that it would have got."""

from __future__ import annotations

import copy
import random
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from prtoggle.trace.differences import Difference
from prtoggle.trace.libraries import cuda, is_array, is_tensor, is_torch_generator, numpy, torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class State(NamedTuple):
    """How one generator stands, and what puts it back."""

    generator: str
    restore: Callable[[Any], object]
    state: Any


def saved(own: Iterable[tuple[str, Any]] = ()) -> list[State]:
    """How the generators of the process stand.

    Those of `random`, of numpy and of torch, on the CPU and on CUDA, where they are loaded; and `own`, which
    the program made and holds where nothing is copied, each with its name.
    """
    states = [State("random", random.setstate, random.getstate())]
    arrays: Any = getattr(numpy(), "random", None)
    if hasattr(arrays, "set_state"):
        states.append(State("numpy.random", arrays.set_state, arrays.get_state()))
    tensors: Any = torch()
    if hasattr(tensors, "set_rng_state"):
        states.append(State("torch", tensors.set_rng_state, tensors.get_rng_state()))
    devices = cuda()
    if devices is not None:
        states.append(State("torch.cuda", devices.set_rng_state_all, devices.get_rng_state_all()))
    return states + [_state_of(name, generator) for name, generator in own]


def _state_of(name: str, generator: Any) -> State:
    if isinstance(generator, random.Random):
        return State(name, generator.setstate, generator.getstate())
    if is_torch_generator(generator):
        return State(name, generator.set_state, generator.get_state())
    if hasattr(generator, "set_state"):
        return State(name, generator.set_state, generator.get_state(legacy=False))
    bits = getattr(generator, "bit_generator", generator)
    # The dict holds arrays of its own, which go on with the generator.
    return State(name, lambda state: setattr(bits, "state", state), copy.deepcopy(bits.state))


def put_back(states: list[State]) -> None:
    """Let the generators stand as they stood when `saved` was called."""
    for state in states:
        state.restore(state.state)


def difference(ours: list[State], theirs: list[State]) -> Difference | None:
    """A difference when two runs left a generator in two states: the next numbers will be others.

    None while the program has other threads, which may have drawn meanwhile.
    """
    if threading.active_count() > 1:
        return None
    others = {state.generator: state.state for state in theirs}
    for state in ours:
        if state.generator in others and not _same(state.state, others[state.generator]):
            return Difference(f"random numbers of {state.generator}", "drawn so far", "drawn otherwise")
    return None


def _same(ours: Any, theirs: Any) -> bool:
    if is_tensor(ours):
        return bool((ours == theirs).all())
    if is_array(ours):
        return bool(ours.tobytes() == theirs.tobytes())
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(_same(item, theirs[key]) for key, item in ours.items())
    if isinstance(ours, list) or (isinstance(ours, tuple) and any(map(is_array, ours))):
        return len(ours) == len(theirs) and all(map(_same, ours, theirs))
    return bool(ours == theirs)


def captured_on_cuda() -> bool:
    """Whether this thread is recording a CUDA graph, which a second run would go into."""
    devices = cuda()
    return devices is not None and bool(devices.is_current_stream_capturing())
