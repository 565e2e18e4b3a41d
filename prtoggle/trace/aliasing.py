"""Which arrays and tensors share memory: a view of an argument differs from an equal copy of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prtoggle.trace.differences import Difference
from prtoggle.trace.libraries import is_array, is_tensor
from prtoggle.trace.shortening import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Aliases:
    """The memories of one run, each with those that stand for it in the other.

    A copy of two views of one array may be two arrays: what was handed in can have several counterparts.
    """

    def __init__(self, originals: Iterable[Any], counterparts: Mapping[int, Any]) -> None:
        """`originals` were handed in, or are anything else; `counterparts` are their copies, by id."""
        self._theirs: dict[int, set[int]] = {}
        self._ours: dict[int, set[int]] = {}
        self._inputs: set[int] = set()
        # How much further the place in our memory lies than that in theirs, by the pair of both.
        self._shifts: dict[tuple[int, int], set[int]] = {}
        for value in originals:
            if id(value) in counterparts and memory_of(value) is not None:
                self._inputs.add(id(value))
                self._pair(value, counterparts[id(value)])

    def difference(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        """A difference when one side shares memory with something that the other does not share it with."""
        mine, other = memory_of(ours), memory_of(theirs)
        if mine is None or other is None or id(ours) in self._inputs:
            return None
        if other in self._theirs.get(mine, {other}) and mine in self._ours.get(other, {mine}):
            return self._elsewhere(where, ours, theirs)
        texts = [
            f"{shorten(value)}, {'sharing memory with another' if key in known else 'with memory of its own'}"
            for value, key, known in ((ours, mine, self._theirs), (theirs, other, self._ours))
        ]
        return Difference(f"{where} (whose memory it is)", *texts)

    def _elsewhere(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        """A difference when both are views of one memory, but not of the same elements of it."""
        known = self._shifts.get((memory_of(ours) or 0, memory_of(theirs) or 0))
        if known and _place_of(ours) - _place_of(theirs) not in known:
            texts = [f"{shorten(value)} at byte {_place_of(value)}" for value in (ours, theirs)]
            return Difference(f"{where} (which elements it is a view of)", *texts)
        self._pair(ours, theirs)
        return None

    def _pair(self, ours: Any, theirs: Any) -> None:
        mine, other = memory_of(ours), memory_of(theirs)
        if mine is not None and other is not None:
            self._theirs.setdefault(mine, set()).add(other)
            self._ours.setdefault(other, set()).add(mine)
            self._shifts.setdefault((mine, other), set()).add(_place_of(ours) - _place_of(theirs))


def memory_of(value: Any) -> int | None:
    """A number for the memory that an array or tensor lies in; None for anything else, or no memory."""
    if is_array(value):
        return id(_owner_of(value))
    if not is_tensor(value):
        return None
    try:
        return int(value.untyped_storage().data_ptr()) or None
    except (RuntimeError, NotImplementedError):
        return None


def _owner_of(array: Any) -> Any:
    """What owns the memory of an array, at the end of a chain of views."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def _place_of(value: Any) -> int:
    """The byte of its memory at which the first element lies; of an array, from its owner's first one."""
    if is_tensor(value):
        return int(value.storage_offset() * value.element_size())
    owner = _owner_of(value)
    start: int = value.__array_interface__["data"][0]
    return start - (int(owner.__array_interface__["data"][0]) if is_array(owner) else 0)
