"""What the program's functions find at a place during the other run: a copy of what stood there before.

A counter of a class, or of a module whose functions the traced one calls, cannot be set back. So the other
run finds a copy there, and the program its own afterwards.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from prtoggle.trace.differences import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prtoggle.trace.reached import Place


#: A module notes there which lines have warned, so that each warns once.
WARNED: Final = "__warningregistry__"


# Py_TPFLAGS_HEAPTYPE, Py_TPFLAGS_IMMUTABLETYPE
_HEAP_TYPE: Final = 1 << 9
_IMMUTABLE: Final = 1 << 8


class Swaps:
    """Places, each with what stands there in the other run."""

    def __init__(self) -> None:
        self._before: list[tuple[Place, Any]] = []
        self._taken: set[tuple[int, str]] = set()
        #: Name, value in the program's own run and value in the other, once both have taken place.
        self.found: list[tuple[str, Any, Any]] = []

    def add(self, place: Place, value: Any) -> None:
        """Let the other run find `value` there; MISSING for nothing. The first to say so counts."""
        if (id(place.owner), place.key) not in self._taken:
            self._taken.add((id(place.owner), place.key))
            self._before.append((place, value))

    def __contains__(self, place: tuple[int, str]) -> bool:
        """Whether the place of an owner, known by its id, is taken care of."""
        return place in self._taken

    @property
    def are_seen(self) -> bool:
        """Whether a thread of the program would see what is meant for the other run."""
        return any(place.key != WARNED for place, _ in self._before) and threading.active_count() > 1

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """For the block, what the other run is to find; then what the program's own run left."""
        ours = [(place, _value_of(place)) for place, _ in self._before]
        try:
            for place, value in self._before:
                _put(place, value)
            yield
        finally:
            theirs = [_value_of(place) for place, _ in self._before]
            for place, value in ours:
                _put(place, value)
            self.found = [
                (place.label, value, other)
                for (place, value), other in zip(ours, theirs, strict=True)
                if place.key != WARNED
            ]


def _value_of(place: Place) -> Any:
    try:
        return place.value
    except (KeyError, AttributeError):
        return MISSING


def can_hold(owner: Any) -> bool:
    """Whether something else can be put at a place of that owner; a class in C may refuse it."""
    return isinstance(owner, dict) or owner.__flags__ & (_HEAP_TYPE | _IMMUTABLE) == _HEAP_TYPE


def _put(place: Place, value: Any) -> None:
    owner, key = place.owner, place.key
    if _value_of(place) is value:
        return
    if isinstance(owner, dict):
        if value is MISSING:
            del owner[key]
        else:
            owner[key] = value
    elif value is MISSING:
        type.__delattr__(owner, key)
    else:
        # Whatever the class of the class makes of it, as that of an enumeration does.
        type.__setattr__(owner, key, value)
