"""Whether a class attribute was read when its class was made, by whatever makes and completes classes.

Rebinding the attribute does not reach what was made of it then: a field's default in a generated `__init__`,
what a metaclass, an `__init_subclass__` or a class decorator computed. Their code is asked whether it names
the attribute, or goes through all of them.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from prtoggle.recompile import all_codes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# What goes through the attributes of a class, or of the mapping that a metaclass is given, by no name.
_READERS: Final = {"vars", "__dict__", "dir", "getmembers", "__annotations__", "get_type_hints"}
_MAPPING_READERS: Final = {"items", "values", *_READERS}
# Their classes are known: by their fields, as enumerations, or for reading nothing but what is abstract.
_KNOWN: Final = {"abc", "attr", "attrs", "builtins", "dataclasses", "enum", "pydantic", "typing"}
_MAX_CALLED: Final = 50


def taken_by(owner: type, name: str) -> str | None:
    """What has read `owner.name` while a class was made, for a message; None when nothing has."""
    if name == "__slots__":
        return "the class was laid out by it when it was made"
    if name in fields(owner):
        return "it is the default of a field, which the __init__ made from it has taken already"
    for hook, readers in _hooks(owner):
        if may_read(hook, name, readers):
            return f"{hook.__qualname__} may have read it when the class was made"
    return None


def fields(owner: type) -> list[str]:
    """Names that a class decorator or base class has made fields of: dataclasses, attrs, pydantic."""
    names: list[str] = []
    for attribute in ("__dataclass_fields__", "__pydantic_fields__", "model_fields"):
        found = vars(owner).get(attribute)
        names += found if isinstance(found, dict) else ()
    attrs = vars(owner).get("__attrs_attrs__", ())
    return names + [getattr(field, "name", "") for field in attrs]


def may_read(function: object, name: str, readers: Iterable[str] = _READERS) -> bool:
    """Whether the function's code, or a function of the program that it names, may read that attribute."""
    wanted = {name, *readers}
    pending, seen = [_function(function)], set[FunctionType]()
    while pending and len(seen) < _MAX_CALLED:
        found = pending.pop()
        if found is None or found in seen or _home(found) in _KNOWN:
            continue
        seen.add(found)
        for code in all_codes(found.__code__):
            if wanted.intersection(code.co_names) or any(const == name for const in code.co_consts):
                return True
            named = [_function(found.__globals__.get(called)) for called in code.co_names]
            pending += [item for item in named if item is not None and not _is_of_python(item)]
    return False


def _hooks(owner: type) -> Iterator[tuple[FunctionType, set[str]]]:
    """What Python called to make the class and those derived from it, with what reads all there."""
    for made in (owner, *derived(owner)):
        for kind in _mro(type(made)):
            for method in ("__new__", "__init__"):
                if (hook := _function(vars(kind).get(method))) is not None:
                    yield hook, _MAPPING_READERS
        for base in made.__mro__[1:]:
            if (hook := _function(vars(base).get("__init_subclass__"))) is not None:
                yield hook, _READERS


def _mro(kind: type) -> tuple[type, ...]:
    return kind.__mro__


def derived(owner: type) -> Iterator[type]:
    """Every class that derives from it, however far."""
    kinds: list[type] = type.__subclasses__(owner)
    for kind in kinds:
        yield kind
        yield from derived(kind)


def _function(raw: Any) -> FunctionType | None:
    if isinstance(raw, (staticmethod, classmethod)):
        raw = raw.__func__
    return raw if type(raw) is FunctionType else None


def _home(function: FunctionType) -> str:
    return (function.__module__ or "").partition(".")[0]


def _is_of_python(function: FunctionType) -> bool:
    return _home(function) in sys.stdlib_module_names
