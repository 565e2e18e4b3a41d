"""What an object holds by name, read and set."""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any


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


def restore(made: Any, state: Any) -> None:
    """What `copy` and `pickle` do with the state of an object that has no say in it."""
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state is not None:
        made.__dict__.update(state)
    for name, item in (slots or {}).items():
        setattr(made, name, item)
