"""Which things both runs of a call share, found from the names that the function's code holds."""

from __future__ import annotations

import enum
import os
import threading
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from prtoggle.trace.libraries import is_array, is_library, is_tensor
from prtoggle.trace.shared import Watch
from prtoggle.trace.traced import attributes_set_by, is_container, names_used_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prtoggle.trace.traced import Traced

#: A name, what it stands for, and which attributes of it are watched; None for all.
_Thing: TypeAlias = "tuple[str, Any, frozenset[str] | None]"
#: Calls from function to function that are followed, for the containers that those use.
_DEPTH: Final = 3


def watches(
    everybody: Sequence[Traced], arguments: Sequence[tuple[str, Any]], uncopied: Iterable[tuple[str, Any]]
) -> list[Watch]:
    """A watch of each thing; `uncopied` are objects that stand for themselves in the other run."""
    found: dict[tuple[int, frozenset[str] | None], Watch] = {}
    for name, owner, only in _things(everybody, arguments, uncopied):
        if (id(owner), only) not in found:
            found[id(owner), only] = Watch(name, owner, only)
    return list(found.values())


def _things(
    everybody: Sequence[Traced], arguments: Sequence[tuple[str, Any]], uncopied: Iterable[tuple[str, Any]]
) -> Iterator[_Thing]:
    # The bytes behind `os.environ`, whoever changes it.
    yield "os.environ", getattr(os.environ, "_data", {}), None
    for name, value in uncopied:
        yield name, value, None
    for name, value in arguments:
        kind = value if isinstance(value, type) else type(value)
        for base in kind.__mro__ if _is_of_the_program(kind) and not _is_numbers(value) else ():
            if _is_of_the_program(base):
                yield base.__qualname__, base, None
        if isinstance(value, FunctionType):
            yield name, value, None
    for traced in everybody:
        yield from _reached(traced, _copied(traced, everybody))


def _copied(traced: Traced, everybody: Sequence[Traced]) -> set[str]:
    """The global names of the function's module that have copies in the other run."""
    return {
        name
        for one in everybody
        if one.function.__globals__ is traced.function.__globals__
        for name in one.globals_at_stake() | one.objects_at_stake()
    }


def _reached(traced: Traced, copied: set[str]) -> Iterator[_Thing]:
    namespace = traced.function.__globals__
    if "globals" in traced.names:
        shared = {key for key in namespace if key[:2] != "__"} | traced.texts
        yield "globals()", namespace, frozenset(shared - copied)
    yield from _named(namespace, traced.names - copied, traced.attributes)
    seen: set[int] = set()
    pending = _functions(namespace, traced.names)
    for _ in range(_DEPTH):
        new = [function for function in pending if id(function) not in seen]
        seen |= set(map(id, new))
        pending = []
        for function in new:
            code, others = function.__code__, function.__globals__
            names = names_used_by(code) - (copied if others is namespace else set())
            yield from _named(others, names, attributes_set_by(code))
            held = frozenset(name for name in names if is_container(others.get(name)))
            if held:
                yield "global variables", others, held
            pending += _functions(others, names)


def _named(
    namespace: dict[str, Any], names: frozenset[str] | set[str], attributes: frozenset[str]
) -> Iterator[_Thing]:
    """What of the names has attributes that a call may change."""
    for name in sorted(names & namespace.keys()):
        value = namespace[name]
        if isinstance(value, ModuleType):
            if attributes:
                yield name, value, attributes
        elif isinstance(value, type):
            if _is_of_the_program(value):
                yield name, value, None
        elif isinstance(value, FunctionType):
            if not is_library(value):
                yield name, value, None
        elif _has_attributes(value):
            yield name, value, None


def _has_attributes(value: object) -> bool:
    if isinstance(value, threading.local):
        return True
    return hasattr(value, "__dict__") and not (_is_numbers(value) or is_library(type(value)))


def _functions(namespace: dict[str, Any], names: frozenset[str] | set[str]) -> list[FunctionType]:
    found = (namespace[name] for name in sorted(names & namespace.keys()))
    return [value for value in found if isinstance(value, FunctionType) and not is_library(value)]


def _is_of_the_program(kind: type) -> bool:
    heap = kind.__flags__ & (1 << 9)
    return bool(heap) and not is_library(kind) and not issubclass(kind, enum.Enum)


def _is_numbers(value: object) -> bool:
    return is_tensor(value) or is_array(value)
