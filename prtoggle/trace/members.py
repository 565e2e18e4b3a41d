"""What an object holds by name, read and set."""

from __future__ import annotations

import sys
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def members_of(value: object) -> dict[str, Any]:
    """The values of `__dict__` and of all slots that are set; nothing of its class is called."""
    found: dict[str, Any] = {}
    try:
        namespace = object.__getattribute__(value, "__dict__")
    except AttributeError:
        namespace = None
    if isinstance(namespace, dict):
        found.update(namespace)
    for base in type(value).__mro__:
        if "__slots__" not in vars(base):
            continue
        for name, slot in vars(base).items():
            if type(slot) is MemberDescriptorType:
                try:
                    found.setdefault(name, slot.__get__(value))
                except AttributeError:
                    continue
    return found


def is_known_by_name(value: object) -> bool:
    """Whether it holds nothing, and a name in the module of its class leads to it: which one matters."""
    kind: Any = type(value)
    if (
        kind.__eq__ is not object.__eq__
        or kind.__reduce_ex__ is not object.__reduce_ex__
        or members_of(value)
    ):
        return False
    names = getattr(sys.modules.get(kind.__module__), "__dict__", {})
    return any(item is value for item in list(names.values()))


def restore_causes(made: Any, error: BaseException, copied: Callable[[Any], Any]) -> None:
    """Give the copy of an exception those that it came from, which `copy` and `pickle` leave out."""
    made.__context__ = copied(error.__context__)
    made.__cause__ = copied(error.__cause__)
    made.__suppress_context__ = error.__suppress_context__


def restore(made: Any, state: Any) -> None:
    """What `copy` and `pickle` do with the state of an object that has no say in it."""
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state is not None:
        made.__dict__.update(state)
    for name, item in (slots or {}).items():
        setattr(made, name, item)
