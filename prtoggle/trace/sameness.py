"""Which values are known by what they hold, and whether two of those that hold nothing else are the same."""

from __future__ import annotations

import enum
import gc
import math
import sys
import types
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from prtoggle.recompile import nested_codes
from prtoggle.trace.constants import CONSTANTS
from prtoggle.trace.libraries import is_array, is_tensor
from prtoggle.trace.members import members_of

if TYPE_CHECKING:
    from types import CodeType

#: Values whose `==`, between two of the same type, says all that there is to say.
PLAIN: Final = CONSTANTS - {range, slice, property, types.CodeType}
_CONSTANTS: Final = CONSTANTS - {property}
_CONTAINERS: Final = (list, dict, set, bytearray, deque)
_PROGRAM: Final = (
    "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags", "co_exceptiontable",
    "co_argcount", "co_posonlyargcount", "co_kwonlyargcount",
)  # fmt: skip
# Py_TPFLAGS_HEAPTYPE
_HEAP_TYPE: Final = 1 << 9
_FUNCTIONS: Final = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CellType)


def is_constant(value: Any) -> bool:
    """Whether nothing of the value can change, and nothing of it is to be looked into."""
    return type(value) in _CONSTANTS or isinstance(value, (type, enum.Enum))


def is_value(value: Any) -> bool:
    """Whether it makes no difference which object it is, only what it holds."""
    if isinstance(value, (tuple, frozenset, BaseException, *_FUNCTIONS)):
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


def is_sentinel(value: Any) -> bool:
    """Whether it is known by nothing but its identity, and stands in a module or a class under a name."""
    kind: Any = type(value)
    if kind.__eq__ is not object.__eq__ or not (kind is object or kind.__flags__ & _HEAP_TYPE):
        return False
    return any(
        type(holder) is dict and ("__module__" in holder or "__loader__" in holder)
        for holder in gc.get_referrers(value)
    )


def is_plain_key(key: Any) -> bool:
    """Whether a key of a dict or an element of a set is found by what it is, not by which object it is."""
    if type(key) in (tuple, frozenset):
        return all(map(is_plain_key, key))
    return type(key) in CONSTANTS or isinstance(key, (type, enum.Enum))


def typed(key: Any) -> Any:
    """A plain key with its type: `1`, `1.0` and `True` are one key to a dict, and three here."""
    kind = type(key)
    if kind is tuple or kind is frozenset:
        return kind, kind(map(typed, key))
    if kind is slice or kind is range:
        return kind, typed((key.start, key.stop, key.step))
    return kind, key


def same_constant(ours: Any, theirs: Any) -> bool:
    """Whether two values of one constant type are the same; NaN is NaN."""
    if ours is theirs:
        return True
    if isinstance(ours, complex):
        return _same_float(ours.real, theirs.real) and _same_float(ours.imag, theirs.imag)
    if isinstance(ours, float):
        return _same_float(ours, theirs)
    if isinstance(ours, types.CodeType):
        return same_program(ours, theirs)
    if isinstance(ours, (range, slice)):
        return bool(typed(ours) == typed(theirs))
    return bool(ours == theirs)


def _same_float(ours: float, theirs: float) -> bool:
    return ours == theirs or (math.isnan(ours) and math.isnan(theirs))


def is_made_by_a_call(kind: type) -> bool:
    """Whether a class cannot be found by its name, as one that a function makes anew each time."""
    found: Any = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is not kind


def same_program(ours: CodeType, theirs: CodeType) -> bool:
    """Whether two code objects do the same, wherever they stand."""
    if ours is theirs:
        return True
    same = all(getattr(ours, name) == getattr(theirs, name) for name in _PROGRAM)
    if not same or len(ours.co_consts) != len(theirs.co_consts):
        return False
    plain = [
        [const for const in code.co_consts if type(const) is not types.CodeType] for code in (ours, theirs)
    ]
    return repr(plain[0]) == repr(plain[1]) and all(
        map(same_program, nested_codes(ours), nested_codes(theirs))
    )
