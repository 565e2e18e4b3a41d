"""A target in the running process: who owns the attribute, and the function behind its decorators.

Nothing is called, bound or evaluated on the way: attributes are read from `__dict__`, properties and
descriptors are opened, never triggered. Decorators are peeled until the function appears whose code was
compiled from the definition that the target names.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from types import CellType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from prtoggle.errors import TargetError, UnsupportedTargetError
from prtoggle.spelling import near_names, or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ACCESSORS: Final = ("fget", "fset", "fdel")

# Objects whose behaviour was compiled from a function once, and does not change with it any more.
_COMPILED: Final = {
    "torch.jit": "was compiled by torch.jit.script and has no live Python body: revert before it is scripted",
    "torch._C": "is compiled TorchScript and has no live Python body: revert before it is scripted",
    "numba": "was compiled by numba: revert before its module is loaded",
    "jaxlib": "was compiled by jax.jit: revert before its module is loaded",
    "jax": "was compiled by jax.jit: revert before its module is loaded",
}

_EARLY: Final = "arm the toggle before the module is loaded (set PRTOGGLE, or revert before the import)"

_MAX_PEELED: Final = 400
_MAX_CONTAINER: Final = 32

Trail = tuple[tuple[Mapping[str, object], str, object], ...]


class Attribute(NamedTuple):
    """Where a name lives: `vars(owner)[name]` is `raw`, with descriptors unopened."""

    owner: ModuleType | type
    name: str
    raw: object
    # Every look-up on the way, to see later whether the name still leads here.
    trail: Trail


@dataclass(frozen=True, slots=True, eq=False)
class Peeled:
    """A function, and the objects that were opened to reach it, outermost first."""

    function: FunctionType
    holders: tuple[object, ...]


def find_attribute(module: ModuleType, qualname: str, target: str) -> Attribute:
    """The attribute that `qualname` names in the loaded module.

    A trailing `.fget`, `.fset` or `.fdel` opens the property. Raises TargetError when there is none,
    UnsupportedTargetError for what a class only inherits, and for attributes of instances.
    """
    owner: ModuleType | type = module
    found: Attribute | None = None
    trail: Trail = ((sys.modules, module.__name__, module),)
    for name in qualname.split("."):
        if found is not None:
            if type(found.raw) is property and name in ACCESSORS:
                accessor = getattr(found.raw, name)
                if accessor is None:
                    raise TargetError(f"{target}: property {found.name} has no {name}", target=target)
                return found._replace(raw=accessor)
            owner = _as_owner(found, name, target)
        found = _own_attribute(owner, name, target, trail)
        trail = found.trail
    assert found is not None, qualname
    return found


def _as_owner(found: Attribute, name: str, target: str) -> type:
    raw = found.raw
    if isinstance(raw, type):
        return raw
    kind = type(raw)
    instead = f"{kind.__module__}.{kind.__qualname__}.{name}"
    raise UnsupportedTargetError(
        f"{target}: {found.name} is not a class but an instance of {kind.__qualname__}; "
        f"name the class's attribute instead, such as {instead}",
        target=target,
    )


def still_leads(trail: Trail) -> bool:
    """Whether every look-up on the way still gives what it gave."""
    return all(namespace.get(name) is value for namespace, name, value in trail)


def code_qualname(qualname: str) -> str:
    """The qualified name that the code of `qualname` carries: no property suffix, private names unmangled."""
    names = qualname.split(".")
    if names[-1] in ACCESSORS and len(names) > 1:
        names.pop()
    for at in range(1, len(names)):
        mangled = f"_{names[at - 1].lstrip('_')}__"
        if names[at].startswith(mangled) and not names[at].endswith("__"):
            names[at] = names[at][len(mangled) - 2 :]
    return ".".join(names)


def _own_attribute(owner: ModuleType | type, name: str, target: str, trail: Trail) -> Attribute:
    namespace = vars(owner)
    if name == "__new__" and type(owner).__module__ == "enum":
        # The one that stands there now is the enumeration's own, which looks members up.
        raise UnsupportedTargetError(
            f"{target}: __new__ of an enumeration makes its members when the class is created, and never "
            f"again; {_EARLY}",
            target=target,
        )
    for spelling in _spellings(owner, name):
        if spelling in namespace:
            raw = namespace[spelling]
            return Attribute(owner, spelling, raw, (*trail, (namespace, spelling, raw)))
    if isinstance(owner, type):
        own = f"class {owner.__qualname__}"
        if name in vars(owner).get("__dataclass_fields__", ()):
            raise UnsupportedTargetError(
                f"{target}: {name} is a field of the data{own}, whose __init__ has taken its default; "
                f"{_EARLY}",
                target=target,
            )
        for base in owner.__mro__[1:]:
            if name in vars(base):
                if (base.__module__, base.__qualname__) == (owner.__module__, owner.__qualname__):
                    raise UnsupportedTargetError(
                        f"{target}: {own} only inherits {name} from another class of its own name, which no "
                        f"name leads to; {_EARLY}",
                        target=target,
                    )
                raise UnsupportedTargetError(
                    f"{target}: {own} only inherits {name} from {base.__qualname__}, "
                    "and an edit there changes every subclass; to do that, name the owner: "
                    f"{base.__module__}.{base.__qualname__}.{name}",
                    target=target,
                )
    near = near_names(name, [known for known in namespace if isinstance(known, str)])
    raise TargetError(f"{target}: {_name_of(owner)} has no {name}{or_none(near)}", target=target, near=near)


def _spellings(owner: ModuleType | type, name: str) -> list[str]:
    if isinstance(owner, type) and name.startswith("__") and not name.endswith("__"):
        return [f"_{owner.__name__.lstrip('_')}{name}", name]
    return [name]


def _name_of(owner: ModuleType | type) -> str:
    return f"class {owner.__qualname__}" if isinstance(owner, type) else f"module {owner.__name__}"


def peel(raw: object, qualname: str, target: str) -> list[Peeled]:
    """The functions behind `raw` that were compiled from a definition of that name, nearest first.

    A decorator's wrapper has a qualified name of its own in its code, whatever `functools.wraps` copied on
    it. Raises UnsupportedTargetError when a compiled object stands in the way.
    """
    return list(functions_behind(raw, target, lambda function: function.__code__.co_qualname == qualname))


def functions_behind(
    raw: object, target: str, is_wanted: Callable[[FunctionType], bool], *, through: bool = False
) -> Iterator[Peeled]:
    """Every wanted function that `raw` holds or is, nearest first; not what these hold, unless `through`."""
    seen = {id(raw)}
    pending: deque[tuple[object, tuple[object, ...]]] = deque([(raw, ())])
    while pending and len(seen) < _MAX_PEELED:
        holder, way = pending.popleft()
        if type(holder) is FunctionType and is_wanted(holder):
            yield Peeled(holder, way)
            if not through:
                continue
        refuse_compiled(holder, target)
        for inner in _inside(holder):
            if id(inner) not in seen:
                seen.add(id(inner))
                pending.append((inner, (*way, holder)))


def opened(raw: object, target: str) -> tuple[object, ...]:
    """Everything that peeling opens, `raw` first: what may derive from a function that it does not find."""
    found = [raw]
    seen = {id(raw)}
    for holder in found:
        refuse_compiled(holder, target)
        for inner in _inside(holder):
            if id(inner) not in seen and len(seen) < _MAX_PEELED:
                seen.add(id(inner))
                found.append(inner)
    return tuple(found)


def refuse_compiled(holder: object, target: str) -> None:
    """Raise UnsupportedTargetError for an object that was compiled once and cannot follow its function."""
    for kind in type(holder).__mro__[:-1]:
        home = kind.__module__
        if home in ("builtins", "functools", "types"):
            continue
        for prefix, why in _COMPILED.items():
            if home == prefix or home.startswith(prefix + "."):
                raise UnsupportedTargetError(f"{target} {why}", target=target)


def _inside(holder: object) -> Iterator[object]:
    """What a decorator may have put inside `holder`; only things that can lead to a function."""
    # Asked of the type, never by isinstance: a proxy would look up what it stands for to tell its class.
    kind = type(holder)
    if kind is FunctionType:
        assert isinstance(holder, FunctionType), holder
        yield from _callables(vars(holder).values())
        for cell in holder.__closure__ or ():
            yield from _callables(_content(cell))
    elif issubclass(kind, (staticmethod, classmethod, MethodType)):
        yield cast("MethodType", holder).__func__
    elif issubclass(kind, property):
        yield cast("property", holder).fget
    elif issubclass(kind, (functools.partial, functools.partialmethod, functools.cached_property)):
        yield cast("functools.partial[object]", holder).func
    elif not issubclass(kind, (type, ModuleType)):
        # A wrapt proxy serves `__wrapped__` from its type: a plain read. Anything else keeps it in
        # `__dict__`.
        if _defines(type(holder), "__wrapped__"):
            yield getattr(holder, "__wrapped__", None)
        yield from _callables(_instance_values(holder))


def _instance_values(holder: object) -> list[object]:
    try:
        values: dict[str, object] = object.__getattribute__(holder, "__dict__")
    except (AttributeError, TypeError):
        return _slot_values(holder)
    return [*values.values(), *_slot_values(holder)] if type(values) is dict else []


def _slot_values(holder: object) -> list[object]:
    slots = [
        slot
        for base in type(holder).__mro__
        if "__slots__" in vars(base)
        for slot in vars(base).values()
        if type(slot) is MemberDescriptorType
    ]
    values = []
    for slot in slots:
        with contextlib.suppress(AttributeError):
            values.append(slot.__get__(holder))
    return values


def _content(cell: CellType) -> list[object]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _callables(values: Iterable[object], depth: int = 2) -> Iterator[object]:
    for value in values:
        kind = type(value)
        if kind in (list, tuple, dict):
            # A decorator may keep its function in a small container.
            if depth and len(value) <= _MAX_CONTAINER:  # type: ignore[arg-type]  # one of the three
                inner = value.values() if isinstance(value, dict) else value
                yield from _callables(list(inner), depth - 1)  # type: ignore[call-overload]  # one of the three
        elif kind is FunctionType or (
            not issubclass(kind, (type, ModuleType))
            and (_defines(kind, "__call__") or _defines(kind, "__get__"))
        ):
            yield value


def _defines(kind: type, name: str) -> bool:
    return any(name in vars(base) for base in kind.__mro__)


def search_process(
    module: ModuleType, qualname: str, first_line: int | None, raw: object, target: str
) -> list[Peeled]:
    """All functions of the module with that qualified name, wherever they are: the last resort.

    For functions that a decorator put away where peeling of `raw` does not reach. Costs milliseconds per
    100,000 objects.
    """
    namespace = vars(module)
    holders = opened(raw, target)
    return [
        Peeled(item, holders)
        for item in gc.get_objects()
        if type(item) is FunctionType
        and item.__globals__ is namespace
        and item.__code__.co_qualname == qualname
        and first_line in (None, item.__code__.co_firstlineno)
    ]
