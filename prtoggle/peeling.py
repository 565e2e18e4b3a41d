"""The functions behind the decorators of a target, and what was opened to reach them.

Nothing is called, bound or evaluated on the way: descriptors and containers are opened, never triggered.
Decorators are peeled until the function appears whose code was compiled from the definition that the target
names.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections import deque
from dataclasses import dataclass
from types import CellType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Final, cast

from prtoggle.errors import UnsupportedTargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Objects whose behaviour was compiled from a function once, and does not change with it any more.
_COMPILED: Final = {
    "torch.jit": "was compiled by torch.jit.script and has no live Python body: revert before it is scripted",
    "torch._C": "is compiled TorchScript and has no live Python body: revert before it is scripted",
    "numba": "was compiled by numba: revert before its module is loaded",
    "jaxlib": "was compiled by jax.jit: revert before its module is loaded",
    "jax": "was compiled by jax.jit: revert before its module is loaded",
}

_MAX_PEELED: Final = 400
_MAX_CONTAINER: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class Peeled:
    """A function, and the objects that were opened to reach it, outermost first."""

    function: FunctionType
    holders: tuple[object, ...]


def peel(raw: object, qualname: str, target: str) -> list[Peeled]:
    """The functions behind `raw` that were compiled from a definition of that name, nearest first.

    A decorator's wrapper has a qualified name of its own in its code, whatever `functools.wraps` copied on
    it. Raises UnsupportedTargetError when a compiled object stands in the way.
    """
    return list(functions_behind(raw, target, lambda function: function.__code__.co_qualname == qualname))


def functions_behind(
    raw: object, target: str, is_wanted: Callable[[FunctionType], bool], *, through: bool = False
) -> Iterator[Peeled]:
    """Every wanted function that `raw` holds or is, nearest first; not what these hold, unless `through`."""
    seen = {id(raw)}
    pending: deque[tuple[object, tuple[object, ...]]] = deque([(raw, ())])
    while pending and len(seen) < _MAX_PEELED:
        holder, way = pending.popleft()
        if type(holder) is FunctionType and is_wanted(holder):
            yield Peeled(holder, way)
            if not through:
                continue
        refuse_compiled(holder, target)
        for inner in _inside(holder):
            if id(inner) not in seen:
                seen.add(id(inner))
                pending.append((inner, (*way, holder)))


def opened(raw: object, target: str) -> tuple[object, ...]:
    """Everything that peeling opens, `raw` first: what may derive from a function that it does not find."""
    found = [raw]
    seen = {id(raw)}
    for holder in found:
        refuse_compiled(holder, target)
        for inner in _inside(holder):
            if id(inner) not in seen and len(seen) < _MAX_PEELED:
                seen.add(id(inner))
                found.append(inner)
    return tuple(found)


def refuse_compiled(holder: object, target: str) -> None:
    """Raise UnsupportedTargetError for an object that was compiled once and cannot follow its function."""
    for kind in type(holder).__mro__[:-1]:
        home = kind.__module__
        if home in ("builtins", "functools", "types"):
            continue
        for prefix, why in _COMPILED.items():
            if home == prefix or home.startswith(prefix + "."):
                raise UnsupportedTargetError(f"{target} {why}", target=target)


def _inside(holder: object) -> Iterator[object]:
    """What a decorator may have put inside `holder`; only things that can lead to a function."""
    # Asked of the type, never by isinstance: a proxy would look up what it stands for to tell its class.
    kind = type(holder)
    if kind is FunctionType:
        assert isinstance(holder, FunctionType), holder
        yield from _callables(vars(holder).values())
        for cell in holder.__closure__ or ():
            yield from _callables(_content(cell))
    elif issubclass(kind, (staticmethod, classmethod, MethodType)):
        yield cast("MethodType", holder).__func__
    elif issubclass(kind, property):
        yield cast("property", holder).fget
    elif issubclass(kind, (functools.partial, functools.partialmethod, functools.cached_property)):
        yield cast("functools.partial[object]", holder).func
    elif not issubclass(kind, (type, ModuleType)):
        # A wrapt proxy serves `__wrapped__` from its type: a plain read. Anything else keeps it in
        # `__dict__`.
        if _defines(type(holder), "__wrapped__"):
            yield getattr(holder, "__wrapped__", None)
        yield from _callables(_instance_values(holder))


def _instance_values(holder: object) -> list[object]:
    try:
        values: dict[str, object] = object.__getattribute__(holder, "__dict__")
    except (AttributeError, TypeError):
        return _slot_values(holder)
    return [*values.values(), *_slot_values(holder)] if type(values) is dict else []


def _slot_values(holder: object) -> list[object]:
    slots = [
        slot
        for base in type(holder).__mro__
        if "__slots__" in vars(base)
        for slot in vars(base).values()
        if type(slot) is MemberDescriptorType
    ]
    values = []
    for slot in slots:
        with contextlib.suppress(AttributeError):
            values.append(slot.__get__(holder))
    return values


def _content(cell: CellType) -> list[object]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _callables(values: Iterable[object], depth: int = 2) -> Iterator[object]:
    for value in values:
        kind = type(value)
        if kind in (list, tuple, dict):
            # A decorator may keep its function in a small container.
            if depth and len(value) <= _MAX_CONTAINER:  # type: ignore[arg-type]  # one of the three
                inner = value.values() if isinstance(value, dict) else value
                yield from _callables(list(inner), depth - 1)  # type: ignore[call-overload]  # one of the three
        elif kind is FunctionType or (
            not issubclass(kind, (type, ModuleType))
            and (_defines(kind, "__call__") or _defines(kind, "__get__"))
        ):
            yield value


def _defines(kind: type, name: str) -> bool:
    return any(name in vars(base) for base in kind.__mro__)


def search_process(
    module: ModuleType, qualname: str, first_line: int | None, raw: object, target: str
) -> list[Peeled]:
    """All functions of the module with that qualified name, wherever they are: the last resort.

    For functions that a decorator put away where peeling of `raw` does not reach. Costs milliseconds per
    100,000 objects.
    """
    namespace = vars(module)
    holders = opened(raw, target)
    return [
        Peeled(item, holders)
        for item in gc.get_objects()
        if type(item) is FunctionType
        and item.__globals__ is namespace
        and item.__code__.co_qualname == qualname
        and first_line in (None, item.__code__.co_firstlineno)
    ]
