"""Whether two runs of a function came to the same: results, and what they did to what was handed in.

Two objects are the same when their types are, their contents are, and when they stand in the same places:
an object that occurs twice on one side has a counterpart that occurs twice. What a copy was made of is the
counterpart of that copy from the beginning. `__eq__` is asked of classes of the standard library and of
C extensions only, never of the program's own.
"""

from __future__ import annotations

import enum
import math
import types
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prtoggle.recompile import nested_codes
from prtoggle.trace.copying import CONSTANTS
from prtoggle.trace.libraries import is_array, is_tensor
from prtoggle.trace.members import members_of
from prtoggle.trace.numbers import first_difference
from prtoggle.trace.shortening import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType, FunctionType

#: Stands for a value that is not there.
MISSING: Final = object()
#: Asks which object it is, and nothing else.
_SAME_OBJECT: Final[object] = object.__eq__
_CONTAINERS: Final = (list, dict, set, bytearray, deque)


class Difference(NamedTuple):
    """The first place where two values differ, and what each of them has there."""

    where: str
    ours: str
    theirs: str


class NotComparedError(Exception):
    """Two values of which nobody can tell whether they are the same; the message says of which type."""


class Comparison:
    """Compares values of the program with their counterparts of another run."""

    def __init__(self, counterparts: Mapping[int, Any]) -> None:
        """`counterparts` are the copies that the other run got, by the id of the original."""
        self._theirs: dict[int, int] = {ours: id(theirs) for ours, theirs in counterparts.items()}
        self._ours: dict[int, int] = {theirs: ours for ours, theirs in self._theirs.items()}
        self._seen: set[tuple[int, int]] = set()
        # Objects that were made for comparing: their ids must not come to stand for others.
        self._kept: list[object] = []

    def first(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        """The first difference, at the place `where` or inside it; None when both are the same.

        Raises NotComparedError.
        """
        try:
            return self._pair(where, ours, theirs)
        except NotComparedError:
            raise
        except RecursionError:
            raise NotComparedError(f"{where} is nested too deeply to be compared") from None
        except Exception as error:  # whatever the classes of the program raise when looked at
            kind = type(ours).__qualname__
            raise NotComparedError(f"{where}: {kind} cannot be compared: {type(error).__name__}") from error

    def _differs(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        if type(ours) is not type(theirs):
            return _difference(where, ours, theirs)
        if type(ours) in CONSTANTS or isinstance(ours, (type, enum.Enum)):
            return None if _same_constant(ours, theirs) else _difference(where, ours, theirs)
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
        if _is_value(ours):
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
        numbers = first_difference(where, ours, theirs)
        if numbers is not None:
            return Difference(*numbers) if numbers else None
        kind = type(ours)
        for base, compare in _BY_KIND.items():
            if isinstance(ours, base):
                found = compare(self, where, ours, theirs)
                # A subclass of a container has members beside its items.
                return found or self._members(where, ours, theirs)
        if members_of(ours) or members_of(theirs):
            return self._members(where, ours, theirs)
        return self._opaque(where, ours, theirs, kind)

    def _members(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        mine, other = members_of(ours), members_of(theirs)
        for name in {**mine, **other}:
            found = self._pair(f"{where}.{name}", mine.get(name, MISSING), other.get(name, MISSING))
            if found is not None:
                return found
        return None

    def _pair(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        if ours is MISSING or theirs is MISSING:
            return _difference(where, ours, theirs)
        return self._differs(where, ours, theirs)

    def _opaque(self, where: str, ours: Any, theirs: Any, kind: type) -> Difference | None:
        """Objects without anything to look at: by what they say when they are pickled, or of themselves."""
        try:
            reduced = ours.__reduce_ex__(4), theirs.__reduce_ex__(4)
        except Exception:  # noqa: BLE001  # an object that cannot be pickled raises what it likes
            reduced = None
        if reduced is not None:
            self._kept += reduced
            found = self._sequence(f"{where} (state)", *map(_expanded, reduced))
            return None if found is None else _difference(where, ours, theirs)
        if kind.__eq__ is not _SAME_OBJECT and not hasattr(kind.__eq__, "__code__"):
            return None if ours == theirs else _difference(where, ours, theirs)
        raise NotComparedError(f"{where}: objects of type {kind.__qualname__} cannot be compared")

    def _sequence(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        for at, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            # Long lists of numbers are what is compared most; they need no text for each place.
            if type(one) in CONSTANTS and type(one) is type(other) and one == other:
                continue
            found = self._differs(f"{where}[{at}]", one, other)
            if found is not None:
                return found
        if len(ours) != len(theirs):
            return Difference(f"len({where})", str(len(ours)), str(len(theirs)))
        return None

    def _exception(self, where: str, ours: BaseException, theirs: BaseException) -> Difference | None:
        return self._sequence(f"{where}.args", ours.args, theirs.args)

    def _bytes(self, where: str, ours: bytearray, theirs: bytearray) -> Difference | None:
        return None if ours == theirs else _difference(where, ours, theirs)

    def _mapping(self, where: str, ours: dict[Any, Any], theirs: dict[Any, Any]) -> Difference | None:
        if not all(map(_is_plain_key, [*ours, *theirs])):
            # Keys that are known by their identity have counterparts: the ones at the same place.
            found = self._sequence(f"list({where})", list(ours), list(theirs))
            return found or self._sequence(
                f"list({where}.values())", list(ours.values()), list(theirs.values())
            )
        for key in {**ours, **theirs}:
            one, other = ours.get(key, MISSING), theirs.get(key, MISSING)
            if type(one) in CONSTANTS and type(one) is type(other) and one == other:
                continue
            found = self._pair(f"{where}[{shorten(key)}]", one, other)
            if found is not None:
                return found
        if list(ours) != list(theirs):
            return Difference(f"list({where})", shorten(list(ours)), shorten(list(theirs)))
        return None

    def _set(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        if all(map(_is_plain_key, [*ours, *theirs])):
            if ours == theirs:
                return None
            return Difference(where, _only(ours - theirs, ours), _only(theirs - ours, theirs))
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
        if trial._differs("", ours, theirs) is not None:
            return False
        self._theirs, self._ours = trial._theirs, trial._ours
        self._kept.append(trial)
        return True

    def _function(self, where: str, ours: FunctionType, theirs: FunctionType) -> Difference | None:
        if not _same_program(ours.__code__, theirs.__code__):
            return Difference(f"{where}.__code__", *_codes(ours.__code__, theirs.__code__))
        cells = zip(ours.__code__.co_freevars, ours.__closure__ or (), theirs.__closure__ or (), strict=False)
        for name, mine, other in cells:
            found = self._cell(f"{where}'s {name}", mine, other)
            if found is not None:
                return found
        found = self._pair(f"{where}.__defaults__", ours.__defaults__, theirs.__defaults__)
        return found or self._pair(f"{where}.__kwdefaults__", ours.__kwdefaults__, theirs.__kwdefaults__)

    def _method(self, where: str, ours: types.MethodType, theirs: types.MethodType) -> Difference | None:
        found = self._differs(f"{where}.__func__", ours.__func__, theirs.__func__)
        return found or self._differs(f"{where}.__self__", ours.__self__, theirs.__self__)

    def _builtin(self, where: str, ours: Any, theirs: Any) -> Difference | None:
        if ours.__name__ != theirs.__name__:
            return _difference(where, ours, theirs)
        return self._differs(f"{where}.__self__", ours.__self__, theirs.__self__)

    def _cell(self, where: str, ours: types.CellType, theirs: types.CellType) -> Difference | None:
        return self._pair(where, content(ours), content(theirs))


def content(cell: types.CellType) -> Any:
    """What the variable holds; a value of its own for one that is not set."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _expanded(reduced: Any) -> Any:
    """A reduced value with the items that it has left to hand out."""
    if isinstance(reduced, str):
        return [reduced]
    return [list(part) if at in (3, 4) and part is not None else part for at, part in enumerate(reduced)]


def _difference(where: str, ours: Any, theirs: Any) -> Difference:
    texts = ["nothing" if value is MISSING else shorten(value) for value in (ours, theirs)]
    if texts[0] == texts[1]:
        texts = [
            f"{text} ({type(value).__qualname__})" for text, value in zip(texts, (ours, theirs), strict=True)
        ]
    return Difference(where, texts[0], texts[1])


def _only(items: Any, whole: Any) -> str:
    if not items or len(items) == len(whole):
        return shorten(whole)
    return f"{shorten(whole)}, alone in having {shorten(items)}"


def _is_value(value: Any) -> bool:
    """Whether it makes no difference which object it is, only what it holds."""
    if isinstance(value, (tuple, frozenset, BaseException)):
        return True
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CellType)):
        return True
    parameters = getattr(type(value), "__dataclass_params__", None)
    if parameters is not None:
        return bool(parameters.frozen)
    # Objects of C types, such as dates and patterns, are values where they are no containers or arrays.
    return (
        not isinstance(value, _CONTAINERS)
        and not members_of(value)
        and not (is_tensor(value) or is_array(value))
    )


def _is_plain_key(key: Any) -> bool:
    if isinstance(key, (tuple, frozenset)):
        return all(map(_is_plain_key, key))
    return type(key) in CONSTANTS or isinstance(key, (type, enum.Enum))


def _same_constant(ours: Any, theirs: Any) -> bool:
    if ours is theirs:
        return True
    if isinstance(ours, (float, complex)):
        return ours == theirs or (_is_nan(ours) and _is_nan(theirs))
    if isinstance(ours, types.CodeType):
        return _same_program(ours, theirs)
    return bool(ours == theirs)


def _is_nan(value: complex) -> bool:
    return math.isnan(value.real) or math.isnan(value.imag)


def _same_program(ours: CodeType, theirs: CodeType) -> bool:
    """Whether two code objects do the same, wherever they stand."""
    if ours is theirs:
        return True
    same = all(
        getattr(ours, name) == getattr(theirs, name)
        for name in ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags")
    )
    if not same or len(ours.co_consts) != len(theirs.co_consts):
        return False
    plain = [
        [const for const in code.co_consts if type(const) is not types.CodeType] for code in (ours, theirs)
    ]
    return repr(plain[0]) == repr(plain[1]) and all(
        map(_same_program, nested_codes(ours), nested_codes(theirs))
    )


def _codes(ours: CodeType, theirs: CodeType) -> tuple[str, str]:
    return (
        f"{ours.co_qualname}, line {ours.co_firstlineno}",
        f"{theirs.co_qualname} with another body, line {theirs.co_firstlineno}",
    )


# The most special comes first.
_BY_KIND: Final[dict[type | tuple[type, ...], Callable[[Comparison, str, Any, Any], Difference | None]]] = {
    BaseException: Comparison._exception,  # noqa: SLF001  # its own methods, by type
    OrderedDict: Comparison._mapping,  # noqa: SLF001
    dict: Comparison._mapping,  # noqa: SLF001
    (list, tuple, deque): Comparison._sequence,  # noqa: SLF001
    (set, frozenset): Comparison._set,  # noqa: SLF001
    bytearray: Comparison._bytes,  # noqa: SLF001
    types.FunctionType: Comparison._function,  # noqa: SLF001
    types.MethodType: Comparison._method,  # noqa: SLF001
    types.BuiltinFunctionType: Comparison._builtin,  # noqa: SLF001
    types.CellType: Comparison._cell,  # noqa: SLF001
}
