"""Who holds an object, by name or otherwise, and whether it can be made to hold another one.

What was bound early (`from module import name`, a dispatch dict, a callback on an instance, a closure) does
not see a new binding of the attribute. Each such holder is rebound too; a holder that cannot be rebound (a
tuple, a default argument, a bound method) is a reason to refuse, because the toggle would take effect only in
part. Local variables of running frames are left alone, like the rest of what runs at the moment of a flip.
"""

from __future__ import annotations

import gc
import sys
import weakref
from dataclasses import dataclass
from types import CellType, FrameType, FunctionType, GeneratorType, MappingProxyType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from prtoggle.dynamo import is_table_of_functions
from prtoggle.heap import keeps_families

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

_IN_FLIGHT: Final = (FrameType, GeneratorType)
# Py_TPFLAGS_INLINE_VALUES
_INLINE_VALUES: Final = 1 << 2


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One place that holds an object: `container[key]`, an attribute of a class, or a closure cell."""

    container: Any
    key: Any = None

    def get(self) -> object:
        """What the place holds now; `EMPTY` when it is gone."""
        container = self.container
        if isinstance(container, CellType):
            return container.cell_contents
        if isinstance(container, type):
            return vars(container).get(self.key, EMPTY)
        if isinstance(container, dict):
            return container.get(self.key, EMPTY)
        return container[self.key] if self.key < len(container) else EMPTY

    def put(self, value: object) -> None:
        """Make the place hold `value`."""
        container = self.container
        if isinstance(container, CellType):
            container.cell_contents = value
        elif isinstance(container, type):
            setattr(container, self.key, value)
            if vars(container).get(self.key) is not value:
                # The metaclass makes something else of what is set.
                type.__setattr__(container, self.key, value)
        else:
            container[self.key] = value

    def is_at(self, container: object, key: object) -> bool:
        """Whether it is the same place; containers are never compared by value."""
        return self.container is container and self.key == key

    def __str__(self) -> str:
        return _describe(self.container, self.key)


EMPTY: Final = object()


def exchange(places: Iterable[Place], old: object, new: object) -> None:
    """Make every place hold `new`; when one refuses, the others get `old` back and its error is raised."""
    done: list[Place] = []
    try:
        for place in places:
            place.put(new)
            done.append(place)
    except BaseException:
        for place in reversed(done):
            place.put(old)
        raise


def find(
    sought: object, *, ignore: Collection[object] = (), forget: Callable[[], object] = gc.collect
) -> tuple[list[Place], list[str]]:
    """The places that hold `sought`, and descriptions of holders that cannot be rebound.

    `ignore` are objects whose hold does not count. When there are holders that cannot be rebound, `forget` is
    called and the search made once more: they may be garbage, or caches that can be dropped.
    """
    found, others = _search(sought, ignore)
    if others:
        del found
        forget()
        gc.collect()
        found, others = _search(sought, ignore)
    return found, others


def _search(sought: object, ignore: Collection[object]) -> tuple[list[Place], list[str]]:
    places: list[Place] = []
    others: list[str] = []
    ignored = {id(item) for item in ignore}
    referrers = gc.get_referrers(sought)
    ignored |= {id(referrers), id(ignore), id(places)}
    for holder in referrers:
        if id(holder) in ignored or isinstance(holder, _IN_FLIGHT) or _is_ours(holder):
            continue
        rebindable = list(_places(holder, sought))
        places += rebindable
        if not rebindable or _holds_it_otherwise(holder, sought):
            others.append(_describe(holder, None))
    del referrers
    return places, others + _weak_holders(sought) + _signals(sought)


def _holds_it_otherwise(holder: object, sought: object) -> bool:
    """Whether a holder that can be rebound by name has the object in itself too, as `lru_cache` does."""
    if type(holder) is dict:
        return any(key is sought for key in holder)
    namespace = None if type(holder) in (CellType, list) else _instance_namespace(holder)
    if namespace is None:
        return False
    # From Python 3.13 on the values of a dict may stay within its object.
    inline = sys.version_info >= (3, 13) and type(holder).__flags__ & _INLINE_VALUES
    named = sum(value is sought for value in namespace.values()) if inline else 0
    return sum(item is sought for item in gc.get_referents(holder)) > named


def _weak_holders(sought: object) -> list[str]:
    """Descriptions of those who reach the object by a weak reference, ours aside."""
    found: list[str] = []
    references = weakref.getweakrefs(sought)
    for reference in references:
        holders = gc.get_referrers(reference)
        found += [
            f"a weak reference in {_describe(item, None)}"
            for item in holders
            if item is not references
            and not (isinstance(item, _IN_FLIGHT) or _is_ours(item) or keeps_families(item))
            and not is_table_of_functions(item)
        ]
        del holders
    return found


def _signals(sought: object) -> list[str]:
    """Descriptions of the signals that the object handles: no search finds these."""
    signals = sys.modules.get("signal")
    if signals is None:
        return []
    return [
        f"the handler of {number!r}"
        for number in signals.valid_signals()
        if signals.getsignal(number) is sought
    ]


def _is_ours(holder: object) -> bool:
    # Steps of other toggles remember what they replaced, and plans by which look-ups they found it.
    if type(holder) is tuple and len(holder) == 3 and isinstance(holder[0], (dict, MappingProxyType)):
        return isinstance(holder[1], str) and holder[0].get(holder[1]) is holder[2]
    return type(holder).__module__.startswith("prtoggle.")


def _places(holder: object, sought: object) -> Iterator[Place]:
    if type(holder) is CellType:
        yield Place(holder)
        return
    owner: object = None
    items: Iterable[tuple[object, object]] = ()
    if type(holder) is list:
        items = enumerate(holder)
    elif type(holder) is dict:
        owner, items = _class_of_namespace(holder), holder.items()
    elif (namespace := _instance_namespace(holder)) is not None:
        # From Python 3.11 on an instance may hold its attributes itself, until its dict is asked for.
        owner, items = namespace, namespace.items()
    for key, value in list(items):
        if value is sought:
            yield Place(holder if owner is None else owner, key)


def _instance_namespace(holder: object) -> dict[str, Any] | None:
    if isinstance(holder, (type, FunctionType, MethodType)):
        return None
    try:
        namespace = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return None
    return namespace if type(namespace) is dict else None


def _class_of_namespace(namespace: dict[Any, Any]) -> type | None:
    """The class whose `__dict__` this is: writing there must go through the class, which has caches."""
    if "__module__" not in namespace:
        return None
    for candidate in gc.get_referrers(namespace):
        if isinstance(candidate, type) and next(iter(gc.get_referents(vars(candidate))), None) is namespace:
            return candidate
    return None


def _describe(holder: Any, key: object) -> str:
    kind = type(holder)
    if isinstance(holder, (type, FunctionType)):
        name = f"{holder.__module__}.{holder.__qualname__}"
        return name if key is None else f"{name}.{key}"
    if kind is dict:
        module = next((m for m in list(sys.modules.values()) if _namespace(m) is holder), None)
        if module and key is None:
            return f"module {module.__name__}"
        return f"{module.__name__}.{key}" if module else f"a dict with the keys {short(list(holder)[:5])}"
    if kind is tuple and (function := _function_with_defaults(holder)) is not None:
        return f"a default argument of {function.__module__}.{function.__qualname__}"
    name = {CellType: "a closure", MethodType: "the bound method"}.get(kind, f"a {kind.__name__}:")
    return f"{name} {short(holder)}"


def _function_with_defaults(defaults: tuple[object, ...]) -> FunctionType | None:
    for candidate in gc.get_referrers(defaults):
        if isinstance(candidate, FunctionType) and candidate.__defaults__ is defaults:
            return candidate
    return None


def _namespace(module: object) -> dict[str, Any] | None:
    return vars(module) if isinstance(module, ModuleType) else None


def short(value: object) -> str:
    """The object for a message, cut to 80 characters; its own `repr` may fail."""
    try:
        text = object.__repr__(value) if hasattr(type(value), "__wrapped__") else repr(value)
    except Exception:  # noqa: BLE001  # somebody else's repr, for a message only
        text = object.__repr__(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
