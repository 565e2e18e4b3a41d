"""One function that is traced: its two variants, and what of its surroundings they could change."""

from __future__ import annotations

import dis
import functools
import inspect
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from prtoggle.recompile import all_codes
from prtoggle.trace.constants import CONSTANTS
from prtoggle.trace.kinds import can_change, draws_numbers
from prtoggle.trace.libraries import is_array, is_library, is_tensor
from prtoggle.trace.members import members_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CellType, CodeType

    from prtoggle.installers.base import Variant

_CONTAINERS: Final = frozenset({list, dict, set, bytearray, deque, defaultdict, OrderedDict, Counter})
_GLOBAL: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"})
_ATTRIBUTE: Final = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_CODE: Final = (FunctionType, BuiltinFunctionType, MethodType)
#: Functions whose names are kept in mind.
_CODES: Final = 4096
_REBOUND: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})


@dataclass(eq=False)
class Traced:
    """A live function, and its two variants.

    `targets` are those of the specs that led to it, `name` is what reports call it.
    """

    function: FunctionType
    name: str
    toggles: tuple[str, ...]
    targets: tuple[str, ...]
    fixed: Variant
    reverted: Variant
    #: Whether the program goes on with what the fixed variant gives, or with the reverted one.
    continues_fixed: bool = True
    calls: int = 0
    #: Global names that the variants use; attributes that they set; texts in them.
    names: frozenset[str] = field(init=False)
    attributes: frozenset[str] = field(init=False)
    texts: frozenset[str] = field(init=False)
    _rebound: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        used: set[str] = set()
        rebound: set[str] = set()
        for variant in (self.fixed, self.reverted):
            for opcode, name in _name_uses(variant.code):
                used.add(name)
                if opcode in _REBOUND:
                    rebound.add(name)
        self.names, self._rebound = frozenset(used), frozenset(rebound)
        codes = self.fixed.code, self.reverted.code
        self.attributes = frozenset().union(*map(attributes_set_by, codes))
        self.texts = frozenset().union(*map(_texts_of, codes))

    @property
    def cells(self) -> tuple[CellType, ...]:
        """The variables of the enclosing scope that the function shares."""
        return self.function.__closure__ or ()

    def globals_at_stake(self) -> set[str]:
        """The global names whose values a call may change: rebound ones, and containers and arrays."""
        namespace = self.function.__globals__
        used = self.names & namespace.keys()
        return set(self._rebound) | {name for name in used if is_container(namespace[name])}

    def objects_at_stake(self) -> set[str]:
        """The other global names whose values can change, as far as copies of them can be made."""
        namespace = self.function.__globals__
        used = self.names & namespace.keys()
        return {name for name in used if _is_object(namespace[name])} - self.globals_at_stake()

    @property
    def binds_alike(self) -> bool:
        """Whether both variants take the same parameters with the same defaults."""
        fixed, reverted = self.fixed, self.reverted
        return (
            _parameters(fixed.code) == _parameters(reverted.code)
            and fixed.defaults is reverted.defaults
            and fixed.kwdefaults is reverted.kwdefaults
        )

    def own_function(self) -> FunctionType:
        """The variant that the program goes on with, as it would be without tracing."""
        variant = self.fixed if self.continues_fixed else self.reverted
        return self._made(variant, self.function.__globals__, self.function.__closure__)

    def other_function(self, namespace: dict[str, Any], cells: tuple[CellType, ...]) -> FunctionType:
        """The other variant, in surroundings of its own."""
        variant = self.reverted if self.continues_fixed else self.fixed
        return self._made(variant, namespace, cells or None)

    def _made(
        self, variant: Variant, namespace: dict[str, Any], cells: tuple[CellType, ...] | None
    ) -> FunctionType:
        function = self.function
        # The program may have changed the defaults of its function since.
        carrier: Any = function if variant is self.fixed else None
        defaults = variant.defaults if carrier is None else carrier.__defaults__
        made = FunctionType(variant.code, namespace, function.__name__, defaults, cells)
        made.__kwdefaults__ = variant.kwdefaults if carrier is None else carrier.__kwdefaults__
        made.__qualname__ = function.__qualname__
        return made


def _parameters(code: CodeType) -> tuple[object, ...]:
    starred = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    named = sum(counts[::2]) + (code.co_flags & starred).bit_count()
    return (*counts, code.co_flags & starred, code.co_varnames[:named])


def _name_uses(code: CodeType) -> Iterator[tuple[str, str]]:
    for inner in all_codes(code):
        for instruction in dis.get_instructions(inner):
            if instruction.opname in _GLOBAL:
                yield instruction.opname, str(instruction.argval)


@functools.lru_cache(maxsize=_CODES)
def names_used_by(code: CodeType) -> frozenset[str]:
    """The global names in the code, and in functions that it makes."""
    return frozenset(name for _, name in _name_uses(code))


@functools.lru_cache(maxsize=_CODES)
def names_bound_by(code: CodeType) -> frozenset[str]:
    """The global names that the code, or a function that it makes, binds or deletes."""
    return frozenset(name for opcode, name in _name_uses(code) if opcode in _REBOUND)


@functools.lru_cache(maxsize=_CODES)
def attributes_set_by(code: CodeType) -> frozenset[str]:
    """The attributes that the code sets or deletes, of whatever object."""
    steps = (step for inner in all_codes(code) for step in dis.get_instructions(inner))
    return frozenset(str(step.argval) for step in steps if step.opname in _ATTRIBUTE)


def _texts_of(code: CodeType) -> frozenset[str]:
    return frozenset(
        const for inner in all_codes(code) for const in inner.co_consts if isinstance(const, str)
    )


def is_container(value: Any) -> bool:
    """Whether the value is of a kind that holds others, or numbers, and can always be copied itself."""
    return type(value) in _CONTAINERS or is_tensor(value) or is_array(value)


def _is_object(value: Any) -> bool:
    """Whether the value is an object with members of its own, or a container of another kind."""
    if isinstance(value, (type, ModuleType, FunctionType)) or type(value) in CONSTANTS:
        return False
    if isinstance(value, (tuple, *_CONTAINERS)) or can_change(value):
        return True
    # One without members is often known by which object it is, and stands for itself.
    is_own = not isinstance(value, _CODE) and not is_library(type(value))
    return is_own and not draws_numbers(value) and bool(members_of(value))
