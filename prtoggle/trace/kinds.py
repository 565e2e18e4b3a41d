"""Kinds of things of libraries and of C: which of them can change, and which draw random numbers."""

from __future__ import annotations

import contextvars
import enum
import random
import re
import struct
import sys
import threading
import types
import weakref
from collections import deque
from functools import _lru_cache_wrapper, cached_property, partialmethod, singledispatchmethod
from typing import Any, Final

from prtoggle.trace.constants import CONSTANTS
from prtoggle.trace.libraries import is_array, is_library, is_tensor, numpy, torch
from prtoggle.trace.members import members_of

#: Nothing of these changes, or nothing that a run would see afterwards: locks are free again.
_SETTLED: Final = (
    types.FunctionType, types.CodeType, type, types.ModuleType, types.GenericAlias, enum.Enum,
    classmethod, property, types.MemberDescriptorType, types.GetSetDescriptorType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    contextvars.ContextVar, contextvars.Token, re.Pattern, re.Match, struct.Struct, weakref.ref,
    threading.local, type(threading.Lock()), type(threading.RLock()), _lru_cache_wrapper,
    cached_property, partialmethod, singledispatchmethod,
)  # fmt: skip
_BOUND: Final = (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)
# Py_TPFLAGS_HEAPTYPE
_HEAP_TYPE: Final = 1 << 9
_POINTER: Final = struct.calcsize("P")


def draws_numbers(value: object) -> bool:
    """Whether the value is a generator of random numbers whose state can be read and set."""
    if isinstance(value, random.Random):
        return not isinstance(value, random.SystemRandom)
    arrays: Any = getattr(numpy(), "random", None)
    kinds = [getattr(arrays, name, ()) for name in ("Generator", "RandomState", "BitGenerator")]
    return isinstance(value, (*kinds, getattr(torch(), "Generator", ())))


def held_by(value: Any) -> Any:
    """What a bound method is bound to, or a static one made of; any other value itself."""
    if isinstance(value, staticmethod):
        return held_by(value.__func__)
    return value.__self__ if isinstance(value, _BOUND) else value


def can_change(value: Any) -> bool:
    """Whether the value is of a library or of C, and may keep something that a call changes.

    Containers, arrays and tensors are left out, as are objects of the program's own classes without a base
    of C, and generators of random numbers: their members, items and states are looked at.
    """
    held = held_by(value)
    if held is not value:
        return held is not None and not draws_numbers(held) and can_change(held)
    if type(value) in CONSTANTS or isinstance(value, (*_SETTLED, *_executors())) or draws_numbers(value):
        return False
    if is_tensor(value) or is_array(value) or isinstance(value, (*_CONTAINERS, *_TEXTS)):
        return False
    if type(value) is object or (_is_of_python(type(value)) and not members_of(value)):
        # It is known by which object it is.
        return False
    return is_library(type(value)) or not _is_of_python(type(value))


def is_all_members(value: Any) -> bool:
    """Whether all that an object of a library keeps are members, which can be watched one by one."""
    inside = members_of(value).values()
    return _is_of_python(type(value)) and not any(
        can_change(item) and not isinstance(item, threading.Condition) for item in inside
    )


def _is_of_python(kind: Any) -> bool:
    """Whether a class is written in Python, with no base that is written in C but `object`."""
    made = kind.__new__
    if not kind.__flags__ & _HEAP_TYPE or not (made is object.__new__ or type(made) is types.FunctionType):
        return False
    # A pointer for each slot, for `__dict__` and for weak references; more is what code in C keeps.
    slots = sum(
        type(item) is types.MemberDescriptorType for base in kind.__mro__ for item in vars(base).values()
    )
    return bool(kind.__basicsize__ <= object.__basicsize__ + (slots + 2) * _POINTER)


def _executors() -> tuple[type, ...]:
    """Work that is handed to them is followed."""
    base = getattr(sys.modules.get("concurrent.futures._base"), "Executor", None)
    return () if base is None else (base,)


#: Looked at item by item, with subclasses.
_CONTAINERS: Final = (tuple, frozenset, list, dict, set, bytearray, deque)
_TEXTS: Final = (str, bytes, int, float, complex, BaseException)


def is_of_program(thing: Any) -> bool:
    """Whether a module, class or function is not of the standard library, nor of one of arrays."""
    name = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", "")
    top = str(name).partition(".")[0]
    return top not in sys.stdlib_module_names and top not in _LIBRARIES


_LIBRARIES: Final = frozenset({"numpy", "torch", "triton", "scipy", "pandas"})
