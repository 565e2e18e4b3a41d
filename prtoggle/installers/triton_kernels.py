"""Which objects of Triton's a process holds, and which of them were made from a function."""

from __future__ import annotations

import gc
import sys
from types import CellType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def classes(module: str, *names: str) -> tuple[type, ...]:
    """Those of the classes that exist: none where the module is not loaded."""
    loaded = sys.modules.get(module)
    found = (getattr(loaded, name, None) for name in names)
    return tuple(kind for kind in found if isinstance(kind, type))


def kernels_of_process() -> Iterator[Any]:
    """Every `JITCallable` of the process: a closure's kernels are in no registry, so the heap is searched."""
    kinds = classes("triton.runtime.jit", "JITCallable", "JITFunction")
    for candidate in gc.get_objects():
        # type() and not isinstance(): a lazy proxy would load what it stands for when asked for its class.
        if issubclass(type(candidate), kinds):
            yield candidate


def with_kernels(holders: Sequence[object], function: FunctionType) -> Sequence[object]:
    """The holders, and whatever else of Triton was made from the same function, which comes last.

    An autotuner refers to the function past the kernel, and one kernel may have several autotuners; a kernel
    that `triton.jit(body)` made under another name holds the function, which does not lead there. The heap is
    searched only where one of the holders is Triton's, or the function's module has something of it.
    """
    if not any(map(_is_tritons, holders)) and not _may_hold_kernels(function):
        return holders
    return [*holders, *_made_from(function, {id(holder) for holder in holders})]


def is_kernels(function: FunctionType) -> bool:
    """Whether a kernel was made from the function, which keeps its source."""
    return _may_hold_kernels(function) and bool(_made_from(function, set()))


def _may_hold_kernels(function: FunctionType) -> bool:
    """Whether its module or its cells have anything of Triton's, as a kernel and whoever makes one do."""
    if not classes("triton.runtime.jit", "JITFunction"):
        return False
    cells = [cell for cell in function.__closure__ or () if cell != CellType()]
    values = [*function.__globals__.values(), *(cell.cell_contents for cell in cells)]
    return any(map(_is_tritons, values))


def _is_tritons(thing: object) -> bool:
    # Asked of the exact type: a proxy, or a module that loads lazily, would load to answer.
    kind = type(thing)
    if kind is ModuleType:
        name = vars(thing).get("__name__")
    else:
        name = vars(thing).get("__module__") if issubclass(kind, type) else kind.__module__
        if kind is FunctionType:
            assert isinstance(thing, FunctionType), thing
            name = thing.__module__
    return isinstance(name, str) and name.partition(".")[0] == "triton"


def _made_from(function: FunctionType, known: set[int]) -> list[object]:
    """What the heap holds of Triton's that was made from the function; kernels come last."""
    tuners = classes("triton.runtime.autotuner", "Autotuner")
    kernels = (
        *classes("triton.runtime.jit", "JITCallable", "JITFunction"),
        *classes("triton.runtime.interpreter", "InterpretedFunction"),
    )
    found = [
        item
        for item in gc.get_objects()
        if issubclass(type(item), (*tuners, *kernels))
        and (vars(item).get("fn") is function or vars(item).get("base_fn") is function)
        and id(item) not in known
    ]
    return sorted(found, key=lambda item: issubclass(type(item), kernels))
