"""What no name leads to, found on the heap: other functions of one definition, and caches around a function.

A search of the heap takes milliseconds, so reference counts are asked first: a function that only its module
or class holds, and code that only one function runs, need no search. Counting too much costs time only. What
a decorator of the program's keeps is not counted but searched for.
"""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from types import CellType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple

from prtoggle.live import find_attribute
from prtoggle.peeling import peel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.peeling import Peeled

LRU_CACHE: Final = type(functools.lru_cache(lambda: None))
# How far caches are looked for: a decorator takes three steps (cell, closure, function).
_MAX_STEPS: Final = 16
# Of how many objects the holders are asked for one by one: each costs a comparison a reference.
_FEW: Final = 16
# Descriptors that hold their function once, and that nothing else is made of.
_BUILT_IN: Final = (staticmethod, classmethod, property)
_ENDS: Final = (type, ModuleType, FrameType, GeneratorType)


def twins(function: FunctionType, ours: int = 0) -> list[FunctionType]:
    """The other functions that run the same code object: those of a `def` in a loop, and copies.

    `ours` is how many references to the code we hold ourselves.
    """
    if sys.getrefcount(function.__code__) <= _counts("").code + ours:
        return []
    code = function.__code__
    return [
        item
        for item in gc.get_referrers(code)
        if type(item) is FunctionType and item is not function and item.__code__ is code
    ]


class Families:
    """Functions that one definition made; known for good, as each soon runs a code object of its own."""

    def __init__(self) -> None:
        self._families: weakref.WeakKeyDictionary[FunctionType, weakref.WeakSet[FunctionType]] = (
            weakref.WeakKeyDictionary()
        )
        _records.add(self)

    def of(self, function: FunctionType, ours: int = 0) -> list[FunctionType]:
        """The function, and every other that its definition made; `ours` as for `twins`."""
        self.add([function, *twins(function, ours)])
        others = self._families.get(function, ())
        return [function, *(other for other in others if other is not function)]

    def add(self, functions: Sequence[FunctionType]) -> None:
        """Take note that these belong together; one alone is not worth noting."""
        if len(functions) > 1:
            family = self._families.setdefault(functions[0], weakref.WeakSet())
            for function in functions:
                family.add(function)
                self._families[function] = family

    def keeps(self, holder: object) -> bool:
        """Whether the holder is where weak references to these functions are kept here."""
        kept = [self._families, *self._families.values()]
        return any(holder is vars(record)["data"] for record in kept)


_records: weakref.WeakSet[Families] = weakref.WeakSet()


def keeps_families(holder: object) -> bool:
    """Whether the holder keeps weak references for us."""
    return any(families.keeps(holder) for families in _records)


def is_shared(found: Peeled) -> bool:
    """Whether anybody but its module or class may hold the function; to be asked right after it was found."""
    holders = found.holders
    if not holders:
        return sys.getrefcount(found.function) > _counts("").function
    kind = type(holders[0])
    if len(holders) > 1 or kind not in _BUILT_IN:
        return True
    counts = _counts(f"@{kind.__name__}\n")
    return sys.getrefcount(found.function) > counts.function or sys.getrefcount(holders[0]) > counts.holder


class _Counts(NamedTuple):
    """References to a function that was found just now and nobody shares; to its code and its descriptor."""

    code: int
    function: int
    holder: int


@functools.cache
def _counts(decorator: str) -> _Counts:
    module = ModuleType("prtoggle_sample")
    # No enclosing code holds the function's.
    exec(f"{decorator}def sample(): pass", vars(module))  # noqa: S102
    attribute = find_attribute(module, "sample", "sample")
    found = peel(attribute.raw, "sample", "sample")[0]
    holders = found.holders
    holder = sys.getrefcount(holders[0]) if holders else 0
    return _Counts(sys.getrefcount(found.function.__code__), sys.getrefcount(found.function), holder)


def caches_around(functions: Sequence[FunctionType]) -> list[functools._lru_cache_wrapper[object]]:
    """Every `functools.lru_cache` whose answers one of the functions computed, however far outside it is."""
    found: list[functools._lru_cache_wrapper[object]] = []
    level: list[object] = list(functions)
    seen = {id(item) for item in level} | {id(functions)}
    for _ in range(_MAX_STEPS):
        if not level:
            break
        seen.add(id(level))
        around = [item for item in _referrers(level) if id(item) not in seen and _leads_on(item)]
        seen.update(map(id, around))
        found += [item for item in around if isinstance(item, LRU_CACHE)]
        level = around
    return found


def _referrers(objects: Sequence[object]) -> list[object]:
    """Everything that refers to one of the objects."""
    if len(objects) <= _FEW:
        return gc.get_referrers(*objects)
    wanted = set(map(id, objects))
    return [item for item in gc.get_objects() if not wanted.isdisjoint(map(id, gc.get_referents(item)))]


def _leads_on(item: object) -> bool:
    """Whether what holds `item` may have been made from the function."""
    if isinstance(item, dict):
        # The namespace of a module holds everything.
        return "__builtins__" not in item
    return isinstance(item, (CellType, tuple, FunctionType)) or not (
        isinstance(item, _ENDS) or type(item).__module__.partition(".")[0] == "prtoggle"
    )
