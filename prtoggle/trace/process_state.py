"""Settings of the process and of the thread: two runs begin with the same ones, the program keeps its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from prtoggle.trace.differences import MISSING, Difference
from prtoggle.trace.libraries import numpy, torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Setting(NamedTuple):
    """How one setting stands, and what sets it."""

    name: str
    value: Any
    put: Callable[[Any], object]
    #: Whether it is this thread's alone.
    is_own: bool = False


def settings() -> list[Setting]:
    """How all settings stand, of the libraries that are loaded."""
    found = [Setting("the filters of warnings", (warnings.filters, [*warnings.filters]), _put_filters)]
    # One that is gone cannot be gone back to.
    with contextlib.suppress(OSError):
        found.append(Setting("the working directory", Path.cwd(), os.chdir))
    return [*found, *_of_decimals(), *_of_arrays(), *_of_tensors()]


def put_back(before: list[Setting]) -> None:
    """Let all settings be what they were when `settings` was called."""
    now = {setting.name: setting.value for setting in settings()}
    for setting in before:
        if setting.name in now and now[setting.name] != setting.value:
            setting.put(setting.value)


def difference(ours: list[Setting], theirs: list[Setting]) -> Difference | None:
    """The first setting that two runs left in two ways; those of the process only without other threads."""
    others = {setting.name: setting.value for setting in theirs}
    several = threading.active_count() > 1
    for setting in ours:
        if (several and not setting.is_own) or setting.name not in others:
            continue
        mine, other = setting.value, others[setting.name]
        if isinstance(mine, tuple) and isinstance(mine[0], list):
            # Which list it is says nothing, as long as it holds the same.
            mine, other = mine[1], other[1]
        if mine != other:
            return Difference(setting.name, *_told(mine, other))
    return None


def _told(ours: Any, theirs: Any) -> tuple[str, str]:
    if isinstance(ours, list):
        # The first filter that is another one; lists of them are long.
        pairs = itertools.zip_longest(ours, theirs, fillvalue=MISSING)
        ours, theirs = next((one, other) for one, other in pairs if one != other)
    texts = ["nothing" if value is MISSING else str(value) for value in (ours, theirs)]
    return texts[0], texts[1]


def _put_filters(value: tuple[list[Any], list[Any]]) -> None:
    held: Any = value[0]
    held[:] = value[1]
    warnings.filters = held
    # What has been warned of is looked up anew then; the next warning of a place is shown again.
    getattr(warnings, "_filters_mutated", getattr(warnings, "_filters_mutated_lock_held", list))()


def _of_decimals() -> Iterator[Setting]:
    decimal: Any = sys.modules.get("decimal")
    if hasattr(decimal, "getcontext"):
        context = decimal.getcontext()
        yield Setting("the context of decimals", _Decimals(context), lambda value: value.put(), is_own=True)


class _Decimals:
    """How a context of decimals stands."""

    _NAMES = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")

    def __init__(self, context: Any) -> None:
        self._context = context
        self._copy = context.copy()

    def _state(self) -> tuple[Any, ...]:
        flags, traps = dict(self._copy.flags), dict(self._copy.traps)
        return (*(getattr(self._copy, name) for name in self._NAMES), flags, traps)

    def put(self) -> None:
        """Let this very context be the thread's again, with what it held."""
        for name in self._NAMES:
            setattr(self._context, name, getattr(self._copy, name))
        self._context.flags.update(self._copy.flags)
        self._context.traps.update(self._copy.traps)
        sys.modules["decimal"].setcontext(self._context)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Decimals) and self._state() == other._state()

    def __hash__(self) -> int:
        return hash(self._state()[:6])

    def __str__(self) -> str:
        return str(self._copy)


def _of_arrays() -> Iterator[Setting]:
    arrays = numpy()
    if hasattr(arrays, "geterr"):
        yield Setting("numpy.geterr()", arrays.geterr(), lambda value: arrays.seterr(**value), is_own=True)


def _of_tensors() -> Iterator[Setting]:
    tensors = torch()
    if not hasattr(tensors, "set_float32_matmul_precision"):
        return
    yield Setting("torch.get_default_dtype()", tensors.get_default_dtype(), tensors.set_default_dtype)
    yield Setting("torch.is_grad_enabled()", tensors.is_grad_enabled(), tensors.set_grad_enabled, is_own=True)
    yield Setting("torch.get_num_threads()", tensors.get_num_threads(), tensors.set_num_threads)
    yield Setting(
        "torch.get_float32_matmul_precision()",
        tensors.get_float32_matmul_precision(),
        tensors.set_float32_matmul_precision,
    )
    yield Setting(
        "the determinism of torch",
        (
            tensors.are_deterministic_algorithms_enabled(),
            tensors.is_deterministic_algorithms_warn_only_enabled(),
        ),
        lambda value: tensors.use_deterministic_algorithms(value[0], warn_only=value[1]),
    )
    if hasattr(tensors, "get_default_device"):
        yield Setting("torch.get_default_device()", tensors.get_default_device(), _put_device, is_own=True)


def _put_device(device: Any) -> None:
    # Where none was set, it is the CPU; torch looks less at each call then.
    torch().set_default_device(None if str(device) == "cpu" else device)
