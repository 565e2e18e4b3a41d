"""What an object holds beside its members and items: what its C base keeps, read through that base.

`class Token(str)` is a text with members; a `random.Random` keeps its numbers where no attribute shows them.
Nothing that the program's own classes define is called.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from pathlib import PurePath
from types import GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any, Final

from prtoggle.trace.counting import period_of
from prtoggle.trace.libraries import is_library
from prtoggle.trace.members import members_of

if TYPE_CHECKING:
    from collections.abc import Callable

#: How the value of a builtin type is read from an object of a subclass.
_READERS: Final[dict[type, Callable[[Any], dict[str, Any]]]] = {
    str: lambda value: {"(text)": str.__str__(value)},
    int: lambda value: {"(number)": int.__int__(value)},
    float: lambda value: {"(number)": float.__float__(value)},
    complex: lambda value: {"(number)": complex.__complex__(value)},
    bytes: lambda value: {"(bytes)": bytes.__getitem__(value, slice(None))},
    property: lambda value: {name: getattr(value, name) for name in ("fget", "fset", "fdel", "__doc__")},
    PurePath: lambda value: {"(path)": PurePath.__str__(value)},
    deque: lambda value: {"maxlen": value.maxlen},
    defaultdict: lambda value: {"default_factory": value.default_factory},
    staticmethod: lambda value: {"__func__": value.__func__},
    classmethod: lambda value: {"__func__": value.__func__},
    itertools.count: lambda value: {"(next)": repr(value)},
    itertools.cycle: lambda value: {"(next)": period_of(value)},
}
#: Items that are compared one by one, and what of an object all objects have.
_COMPARED: Final = (list, tuple, dict, set, frozenset, bytearray, BaseException)
_OF_C: Final = (MethodDescriptorType, WrapperDescriptorType)
_STATES: Final = ("__reduce_ex__", "__reduce__", "__getstate__")
#: Of an exception: told otherwise, of the place rather than the error, or any object of the program.
_NO_CONTENTS: Final = frozenset({"args", "obj", "__dict__", "__weakref__", "__traceback__"})


def contents_of(value: Any) -> dict[str, Any]:
    """The parts that the first base of C or of the standard library keeps, by a name for each."""
    for base in type(value).__mro__[:-1]:
        reader = _READERS.get(base)
        if reader is not None:
            return reader(value)
        if base in _COMPARED:
            break
        for name in _STATES:
            method = vars(base).get(name)
            if method is not None and (isinstance(method, _OF_C) or is_library(base)):
                state = method(value, 4) if name == "__reduce_ex__" else method(value)
                return {"(state)": expanded(state)}
    return {}


def own_members(value: Any) -> dict[str, Any]:
    """The members, without those of a path: a path keeps there what it has worked out of its text."""
    members = members_of(value)
    if not isinstance(value, PurePath):
        return members
    library = {name for base in type(value).__mro__ if is_library(base) for name in vars(base)}
    return {name: item for name, item in members.items() if name not in library}


def attributes_of(error: BaseException) -> dict[str, Any]:
    """What an exception of C keeps beside its arguments, such as a file name; and what it came from."""
    found: dict[str, Any] = {}
    for base in type(error).__mro__:
        for name, item in vars(base).items():
            if type(item) in (MemberDescriptorType, GetSetDescriptorType) and name not in _NO_CONTENTS:
                found.setdefault(name, getattr(error, name, None))
    return found


def expanded(reduced: Any) -> Any:
    """A reduced value with the items that it has left to hand out."""
    if not isinstance(reduced, tuple):
        return [reduced]
    return [list(part) if at in (3, 4) and part is not None else part for at, part in enumerate(reduced)]
