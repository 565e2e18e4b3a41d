"""Whether two runs of a function came to the same: results, and what they did to what was handed in.

Two objects are the same when their types are, their contents are, and when they stand in the same places:
an object that occurs twice on one side has a counterpart that occurs twice. What a copy was made of is the
counterpart of that copy from the beginning. `__eq__` is asked of classes of the standard library and of
C extensions only, never of the program's own.
"""

from __future__ import annotations

import re
import types
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final

from prtoggle.trace.aliasing import Aliases
from prtoggle.trace.comparing_classes import are_one_class
from prtoggle.trace.comparing_functions import compare_builtin, compare_cell, compare_function, compare_method
from prtoggle.trace.contents import attributes_of, contents_of, expanded, own_members
from prtoggle.trace.differences import MISSING, Difference, difference, only
from prtoggle.trace.libraries import holds_objects
from prtoggle.trace.numbers import first_difference
from prtoggle.trace.sameness import (
    PLAIN,
    is_constant,
    is_plain_key,
    is_sentinel,
    is_value,
    same_constant,
    typed,
)
from prtoggle.trace.shortening import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Asks which object it is, and nothing else.
_SAME_OBJECT: Final[object] = object.__eq__
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]+")


class NotComparedError(Exception):
    """Two values of which nobody can tell whether they are the same; the message says of which type."""


class Comparison:
    """Compares values of the program with their counterparts of another run."""

    def __init__(self, counterparts: Mapping[int, Any], originals: Sequence[Any] = ()) -> None:
        """`counterparts` are the copies that the other run got, by the id of the original.

        `originals` are the arrays and tensors among them.
        """
        self._theirs: dict[int, int] = {ours: id(theirs) for ours, theirs in counterparts.items()}
        self._ours: dict[int, int] = {theirs: ours for ours, theirs in self._theirs.items()}
        self._aliases = Aliases(originals, counterparts)
        self.classes: set[tuple[type, type]] = set()
        self._seen: set[tuple[int, int]] = set()
        # Objects that were made for comparing: their ids must not come to stand for others.
        self._kept: list[object] = []

    def first(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        """The first difference, at the place `where` or inside it; None when both are the same.

        Raises NotComparedError.
        """
        try:
            return self.pair(where, ours, theirs)
        except NotComparedError:
            raise
        except RecursionError:
            raise NotComparedError(f"{where} is nested too deeply to be compared") from None
        except Exception as error:  # whatever the classes of the program raise when looked at
            kind = type(ours).__qualname__
            raise NotComparedError(f"{where}: {kind} cannot be compared: {type(error).__name__}") from error

    def differs(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        """The same as `first` for a part of what is compared; raises whatever comes up."""
        same = are_one_class(self, type(ours), type(theirs))
        if same and isinstance(ours, type):
            same = are_one_class(self, ours, theirs)
        elif same and is_constant(ours):
            same = same_constant(ours, theirs)
        if not same:
            return difference(where, ours, theirs)
        if is_constant(ours):
            return None
        moved = self._other_object(where, ours, theirs)
        if moved is not None:
            return moved
        if (id(ours), id(theirs)) in self._seen:
            return None
        self._seen.add((id(ours), id(theirs)))
        self._kept += (ours, theirs)
        if ours is theirs:
            return None
        return self._inside(where, ours, theirs)

    def _other_object(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        """A difference when one of the two is known as the counterpart of something else."""
        if is_value(ours):
            return None
        known = self._theirs.get(id(ours), id(theirs)) == id(theirs)
        if known and self._ours.get(id(theirs), id(ours)) == id(ours):
            self._theirs[id(ours)] = id(theirs)
            self._ours[id(theirs)] = id(ours)
            return None
        return Difference(f"{where} (which object it is)", *self._standing(ours, theirs))

    def _standing(self, ours: Any, theirs: Any) -> tuple[str, str]:
        texts = []
        for known, value in ((self._theirs, ours), (self._ours, theirs)):
            stands = "one that also stands elsewhere" if id(value) in known else "another one"
            texts.append(f"{shorten(value)}, {stands}")
        return texts[0], texts[1]

    def _inside(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        if holds_objects(ours) and ours.shape == theirs.shape:
            return self._sequence(f"{where}.flat", ours.ravel().tolist(), theirs.ravel().tolist())
        numbers = first_difference(where, ours, theirs)
        if numbers is not None:
            found = Difference(*numbers) if numbers else self._aliases.difference(where, ours, theirs)
            return found or self._parts(where, own_members(ours), own_members(theirs))
        for base, compare in _BY_KIND.items():
            if isinstance(ours, base):
                # A subclass of a container has members beside its items.
                return compare(self, where, ours, theirs) or self._beside(where, ours, theirs)
        if own_members(ours) or own_members(theirs):
            return self._beside(where, ours, theirs)
        mine = contents_of(ours)
        if not mine:
            return self._opaque(where, ours, theirs, type(ours))
        found = self._parts(where, mine, contents_of(theirs))
        # The whole tells more than a part of its state, unless it reads alike.
        return found and (found if shorten(ours) == shorten(theirs) else difference(where, ours, theirs))

    def _beside(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        """The members, and what a base keeps beside them."""
        found = self._parts(where, own_members(ours), own_members(theirs))
        return found or self._parts(where, contents_of(ours), contents_of(theirs))

    def _parts(self, where: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Difference | None:
        for name in {**ours, **theirs}:
            place = f"{where} {name}" if name.startswith("(") else f"{where}.{name}"
            found = self.pair(place, ours.get(name, MISSING), theirs.get(name, MISSING))
            if found is not None:
                return found
        return None

    def pair(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        """The same as `differs`; either of the two may be MISSING."""
        if ours is MISSING or theirs is MISSING:
            return difference(where, ours, theirs)
        return self.differs(where, ours, theirs)

    def _opaque(self, where: str, ours: Any, theirs: Any, kind: type) -> Difference | None:
        """Objects without anything to look at: by what they say when they are pickled, or of themselves."""
        is_copy = self._theirs.get(id(ours)) == id(theirs)
        if not is_copy and (is_sentinel(ours) or is_sentinel(theirs)):
            return Difference(f"{where} (which object it is)", repr(ours), repr(theirs))
        try:
            reduced = ours.__reduce_ex__(4), theirs.__reduce_ex__(4)
        except Exception:  # noqa: BLE001  # an object that cannot be pickled raises what it likes
            reduced = None
        if reduced is not None:
            self._kept += reduced
            found = self._sequence(f"{where} (state)", *map(expanded, reduced))
            return None if found is None else difference(where, ours, theirs)
        if kind.__eq__ is not _SAME_OBJECT and not hasattr(kind.__eq__, "__code__"):
            return None if ours == theirs else difference(where, ours, theirs)
        raise NotComparedError(f"{where}: objects of type {kind.__qualname__} cannot be compared")

    def _sequence(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        for at, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            # Long lists of numbers are what is compared most; they need no text for each place.
            if type(one) in PLAIN and type(one) is type(other) and one == other:
                continue
            found = self.differs(f"{where}[{at}]", one, other)
            if found is not None:
                return found
        if len(ours) != len(theirs):
            return Difference(f"len({where})", str(len(ours)), str(len(theirs)))
        return None

    def _view(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        return self._sequence(f"list({where})", list(ours), list(theirs))

    def _exception(self, where: str, ours: BaseException, theirs: BaseException) -> Difference | None:
        found = self._sequence(f"{where}.args", ours.args, theirs.args)
        found = found or self._parts(where, attributes_of(ours), attributes_of(theirs))
        if found is None and isinstance(type(ours).__str__, types.FunctionType):
            texts = [_ADDRESS.sub("0x", str(error)) for error in (ours, theirs)]
            found = None if texts[0] == texts[1] else difference(f"str({where})", *texts)
        return found

    def _bytes(self, where: str, ours: bytearray, theirs: bytearray) -> Difference | None:
        return None if ours == theirs else difference(where, ours, theirs)

    def _mapping(self, where: str, ours: dict[Any, Any], theirs: dict[Any, Any]) -> Difference | None:
        if not all(map(is_plain_key, [*ours, *theirs])):
            # Keys that are known by their identity have counterparts: the ones at the same place.
            found = self._sequence(f"list({where})", list(ours), list(theirs))
            return found or self._sequence(
                f"list({where}.values())", list(ours.values()), list(theirs.values())
            )
        for key in {**ours, **theirs}:
            one, other = ours.get(key, MISSING), theirs.get(key, MISSING)
            if type(one) in PLAIN and type(one) is type(other) and one == other:
                continue
            found = self.pair(f"{where}[{shorten(key)}]", one, other)
            if found is not None:
                return found
        if list(map(typed, ours)) != list(map(typed, theirs)):
            return Difference(f"list({where})", shorten(list(ours)), shorten(list(theirs)))
        return None

    def _set(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        if all(map(is_plain_key, [*ours, *theirs])):
            mine, other = set(map(typed, ours)), set(map(typed, theirs))
            if mine == other:
                return None
            return Difference(where, only(ours - theirs, ours), only(theirs - ours, theirs))
        if len(ours) != len(theirs):
            return Difference(f"len({where})", str(len(ours)), str(len(theirs)))
        # Elements whose counterparts are known; of the others, each has to find one of its kind.
        left = {id(item): item for item in theirs}
        unknown = [item for item in ours if left.pop(self._theirs.get(id(item), 0), MISSING) is MISSING]
        for item in unknown:
            match = next((key for key, other in left.items() if self._could_be(item, other)), None)
            if match is None:
                return Difference(f"{where} (an element)", shorten(item), shorten(list(left.values())))
            del left[match]
        return None

    def _could_be(self, ours: Any, theirs: Any) -> bool:
        trial = Comparison({})
        trial._theirs, trial._ours = dict(self._theirs), dict(self._ours)  # one of this class
        if trial.differs("", ours, theirs) is not None:
            return False
        self._theirs, self._ours = trial._theirs, trial._ours
        self._kept.append(trial)
        return True


# The most special comes first.
_BY_KIND: Final[dict[type | tuple[type, ...], Callable[[Comparison, str, Any, Any], Difference | None]]] = {
    BaseException: Comparison._exception,  # noqa: SLF001  # its own methods, by type
    OrderedDict: Comparison._mapping,  # noqa: SLF001
    dict: Comparison._mapping,  # noqa: SLF001
    (list, tuple, deque): Comparison._sequence,  # noqa: SLF001
    (set, frozenset): Comparison._set,  # noqa: SLF001
    bytearray: Comparison._bytes,  # noqa: SLF001
    types.MappingProxyType: Comparison._mapping,  # noqa: SLF001
    (type({}.keys()), type({}.values()), type({}.items())): Comparison._view,  # noqa: SLF001
    types.FunctionType: compare_function,
    types.MethodType: compare_method,
    types.BuiltinFunctionType: compare_builtin,
    types.CellType: compare_cell,
}
