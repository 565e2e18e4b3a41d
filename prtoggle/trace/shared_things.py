"""Which things both runs of a call share, found from the names that the function's code holds."""

from __future__ import annotations

import enum
import os
import threading
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from prtoggle.trace.libraries import is_array, is_library, is_tensor
from prtoggle.trace.shared import Watch
from prtoggle.trace.traced import attributes_set_by, is_container, names_used_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prtoggle.trace.reached import Step
    from prtoggle.trace.traced import Traced

#: A name, what it stands for, and which attributes of it are watched; None for all.
_Thing: TypeAlias = "tuple[str, Any, frozenset[str] | None]"


def watches(
    everybody: Sequence[Traced],
    followed: Sequence[Step],
    arguments: Sequence[tuple[str, Any]],
    uncopied: Iterable[tuple[str, Any]],
) -> list[Watch]:
    """A watch of each thing. `followed` is the code that may run, `uncopied` stands for itself in both."""
    found: dict[tuple[int, frozenset[str] | None], Watch] = {}
    for name, owner, only in _things(everybody, followed, arguments, uncopied):
        if (id(owner), only) not in found:
            found[id(owner), only] = Watch(name, owner, only)
    return list(found.values())


def _things(
    everybody: Sequence[Traced],
    followed: Sequence[Step],
    arguments: Sequence[tuple[str, Any]],
    uncopied: Iterable[tuple[str, Any]],
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
    copied: dict[int, set[str]] = {}
    for traced in everybody:
        copied[id(traced.function.__globals__)] = _copied(traced, everybody)
        yield from _reached(traced, copied[id(traced.function.__globals__)])
    for step in followed:
        if not step.is_traced:
            yield from _of_step(step, copied.get(id(step.namespace), set()))


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


def _of_step(step: Step, copied: set[str]) -> Iterator[_Thing]:
    names = names_used_by(step.code) - copied
    yield from _named(step.namespace, names, attributes_set_by(step.code))
    held = frozenset(name for name in names if is_container(step.namespace.get(name)))
    if held:
        yield "global variables", step.namespace, held


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
            yield from _of_class(name, value)
        elif isinstance(value, FunctionType):
            if not is_library(value):
                yield name, value, None
        elif _has_attributes(value):
            yield name, value, None


def _of_class(name: str, kind: type) -> Iterator[_Thing]:
    if isinstance(kind, enum.EnumMeta):
        members: list[enum.Enum] = list(kind.__members__.values())
        for member in members:
            yield f"{kind.__qualname__}.{member.name}", member, None
    elif _is_of_the_program(kind):
        yield name, kind, None


def _has_attributes(value: object) -> bool:
    if isinstance(value, threading.local):
        return True
    return hasattr(value, "__dict__") and not (_is_numbers(value) or is_library(type(value)))


def _is_of_the_program(kind: type) -> bool:
    heap = kind.__flags__ & (1 << 9)
    return bool(heap) and not is_library(kind) and not issubclass(kind, enum.Enum)


def _is_numbers(value: object) -> bool:
    return is_tensor(value) or is_array(value)
