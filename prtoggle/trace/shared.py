"""What both runs share because it cannot be copied, watched: a call that changes it is not taken for equal.

Watched are attributes of classes, functions, modules and objects that the function names or is handed, the
variables of the environment, and containers that functions which it calls use as globals. What the other run
alone has changed is put back.
"""

from __future__ import annotations

import threading
from collections import deque
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final

from prtoggle.trace.comparing import Comparison, NotComparedError
from prtoggle.trace.constants import CONSTANTS
from prtoggle.trace.copying import Copier, NotCopiedError
from prtoggle.trace.differences import MISSING
from prtoggle.trace.members import members_of

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Bytes of containers that are looked into, for each thing that is watched.
_MAX_BYTES: Final = 1 << 20
_NO_STATE: Final = (FunctionType, staticmethod, classmethod, property, MemberDescriptorType)


class Watch:
    """The attributes of one thing that both runs share, as they stood when this was made."""

    def __init__(self, name: str, owner: Any, only: frozenset[str] | None = None) -> None:
        """`owner` has attributes, or is a dict; `only` these of its names are watched."""
        self._name = name
        self._owner = owner
        self._only = only
        self._copier = Copier(_MAX_BYTES)
        self._before = self._state()
        self._copies = {key: self._copy(value) for key, value in self._before.items()}
        self._items = {key: _items(value) for key, value in self._before.items()}

    def changed(self) -> str | None:
        """The first attribute that is not what it was; None when all are."""
        now = self._state()
        return next((self._told(key) for key in {**self._before, **now} if self._is_changed(key, now)), None)

    def put_back(self) -> bool:
        """Let all attributes be what they were, as far as their own items; whether that was enough."""
        now = self._state()
        for key in {**self._before, **now}:
            if self._is_changed(key, now):
                self._restore(key)
        return self.changed() is None

    def _told(self, key: str) -> str:
        return f"{self._name}[{key!r}]" if isinstance(self._owner, dict) else f"{self._name}.{key}"

    def _state(self) -> dict[str, Any]:
        owner = self._owner
        state = owner if isinstance(owner, dict) else {**members_of(owner), **getattr(owner, "__dict__", {})}
        return {key: value for key, value in list(state.items()) if self._is_watched(key, value)}

    def _is_watched(self, key: Any, value: object) -> bool:
        if not isinstance(key, (str, bytes)):
            return False
        if self._only is not None:
            return key in self._only
        return not (isinstance(self._owner, type) and (str(key)[:2] == "__" or isinstance(value, _NO_STATE)))

    def _copy(self, value: Any) -> Any:
        if type(value) in CONSTANTS or not isinstance(value, (list, dict, set, deque, bytearray, tuple)):
            return MISSING
        try:
            return self._copier.copy(value)
        except NotCopiedError:
            return MISSING

    def _is_changed(self, key: str, now: Mapping[str, Any]) -> bool:
        value, before = now.get(key, MISSING), self._before.get(key, MISSING)
        if value is not before:
            return type(value) not in CONSTANTS or type(value) is not type(before) or value != before
        copy = self._copies.get(key, MISSING)
        if copy is MISSING or copy is value:
            return False
        memo = self._copier.memo
        counterparts = {key: made for key, made in memo.items() if key != id(memo)}
        try:
            return Comparison(counterparts, self._copier.originals).first(key, value, copy) is not None
        except NotComparedError:
            return False

    def _restore(self, key: str) -> None:
        owner, before = self._owner, self._before.get(key, MISSING)
        if isinstance(owner, dict):
            if before is MISSING:
                del owner[key]
            else:
                owner[key] = before
        elif before is MISSING:
            delattr(owner, key)
        else:
            setattr(owner, key, before)
        items: Any = self._items.get(key)
        if isinstance(before, (list, bytearray)):
            before[:] = items
        elif isinstance(before, (dict, set, deque)):
            before.clear()
            (before.extend if isinstance(before, deque) else before.update)(items)


def first_changed(watches: list[Watch]) -> str | None:
    """What of all that is watched has changed first."""
    return next(filter(None, (watch.changed() for watch in watches)), None)


def put_back(watches: list[Watch]) -> str:
    """Undo what the other run changed, and say in a few words what became of that."""
    if threading.active_count() > 1:
        return "it stays changed, for another thread may have done it"
    done = [watch.put_back() for watch in watches if watch.changed()]
    return "it was put back" if all(done) else "it could not be put back"


def _items(value: Any) -> Any:
    return value.copy() if isinstance(value, (list, dict, set, deque, bytearray)) else None
