"""The code that a traced function may run beside its own, and the places that this code names.

Followed are functions that it calls by their names, of its own module and of modules of the program, and
methods of classes that it names or is handed, some calls deep.
"""

from __future__ import annotations

import functools
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prtoggle.recompile import all_codes
from prtoggle.trace.kinds import is_of_program
from prtoggle.trace.traced import names_used_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType

    from prtoggle.trace.traced import Traced

#: Calls from function to function that are followed.
_DEPTH: Final = 3
#: Functions that are followed at most, for each call.
_MOST: Final = 200
_CODES: Final = 4096


class Step(NamedTuple):
    """Code that may run, and the global variables that it sees."""

    code: CodeType
    namespace: dict[str, Any]
    #: Whether it is a variant of a traced function.
    is_traced: bool


class Place(NamedTuple):
    """Where a value is held: by a key of a dict, or by an attribute of a class or object."""

    label: str
    owner: Any
    key: str

    @property
    def value(self) -> Any:
        """What is there now; raises KeyError or AttributeError where nothing is."""
        return self.owner[self.key] if isinstance(self.owner, dict) else vars(self.owner)[self.key]


class Reached:
    """Code that may run in one call, and the classes whose attributes it may use."""

    def __init__(self, everybody: Sequence[Traced], classes: Iterable[type]) -> None:
        """`classes` are those of the arguments."""
        #: The variants of the traced functions, then what they may call.
        self.steps = [
            Step(variant.code, traced.function.__globals__, is_traced=True)
            for traced in everybody
            for variant in (traced.fixed, traced.reverted)
        ]
        self._classes: dict[type, None] = {}
        self._add_classes(classes)
        self._seen = {id(traced.function) for traced in everybody}
        latest = self.steps
        for _ in range(_DEPTH):
            for step in latest:
                self._add_classes(map(_class_of, _globals(step)))
            called = [function for step in latest for function in self._called(step)]
            latest = [self._next(function) for function in called if self._is_new(function)]
            self.steps = [*self.steps, *latest]

    def _add_classes(self, classes: Iterable[type]) -> None:
        own = (base for kind in classes for base in kind.__mro__ if is_of_program(base))
        self._classes.update(dict.fromkeys(own))

    def _is_new(self, function: FunctionType) -> bool:
        return id(function) not in self._seen and len(self._seen) < _MOST

    def _next(self, function: FunctionType) -> Step:
        self._seen.add(id(function))
        return Step(function.__code__, function.__globals__, is_traced=False)

    def _called(self, step: Step) -> Iterator[FunctionType]:
        """The functions that the code may call by a name that it holds."""
        for value in _globals(step):
            yield from _functions_in(value)
            if isinstance(value, type):
                yield from _functions_in(vars(value).get("__init__"))
        for owner in self._owners(step):
            for key in names_in(step.code) & vars(owner).keys():
                yield from _functions_in(vars(owner)[key])

    def _owners(self, step: Step) -> Iterator[Any]:
        """The classes and modules that an attribute which the code names may be one of."""
        yield from self._classes
        for value in _globals(step):
            if isinstance(value, ModuleType) and is_of_program(value):
                yield value

    def places(self) -> Iterator[tuple[Place, Step]]:
        """What the code of each step names: global variables, and attributes of classes and modules."""
        for step in self.steps:
            for name in sorted(names_used_by(step.code) & step.namespace.keys()):
                yield Place(f"global variable {name}", step.namespace, name), step
            for owner in self._owners(step):
                for key in sorted(names_in(step.code) & vars(owner).keys()):
                    place = vars(owner) if isinstance(owner, ModuleType) else owner
                    name = getattr(owner, "__qualname__", owner.__name__)
                    yield Place(f"{name}.{key}", place, key), step


def _globals(step: Step) -> list[Any]:
    return [step.namespace[name] for name in sorted(names_used_by(step.code) & step.namespace.keys())]


def _class_of(value: Any) -> type:
    return value if isinstance(value, type) else type(value)


@functools.lru_cache(maxsize=_CODES)
def names_in(code: CodeType) -> frozenset[str]:
    """All global and attribute names in the code, and in functions that it makes."""
    return frozenset(name for inner in all_codes(code) for name in inner.co_names)


def _functions_in(value: Any) -> Iterator[FunctionType]:
    """The function behind a value, under what methods and caches are wrapped into."""
    for _ in range(_DEPTH):
        reader = next((read for kind, read in _WITHIN.items() if isinstance(value, kind)), None)
        if reader is None:
            break
        value = reader(value)
    if isinstance(value, FunctionType) and is_of_program(value):
        yield value


_WITHIN: Final[dict[Any, Callable[[Any], Any]]] = {
    property: lambda value: value.fget,
    (staticmethod, classmethod, MethodType): lambda value: value.__func__,
    functools._lru_cache_wrapper: lambda value: value.__wrapped__,  # noqa: SLF001  # what `lru_cache` makes
}
