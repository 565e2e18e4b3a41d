"""What a `wrap:` patch names: the wrapper function, and a place that can hold a wrapped object."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol

import wrapt

from prtoggle.errors import TargetError, TargetModuleError, UnsupportedTargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DESCRIPTORS: Final = (staticmethod, classmethod)
# Py_TPFLAGS_IMMUTABLETYPE
_IMMUTABLE_TYPE: Final = 1 << 8


class WrapperFunction(Protocol):
    """What a `wrap:` patch names; `instance` is None for a plain function, the class for a class method."""

    def __call__(
        self, wrapped: Callable[..., Any], instance: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Make the call, or do something else; what it returns is what the caller gets."""


def load_wrapper(where: str, target: str) -> WrapperFunction:
    """The object that `package.module:dotted.name` names."""
    name, _, path = where.partition(":")
    try:
        found: Any = importlib.import_module(name)
    except Exception as error:  # whatever a module raises that fails to import
        kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
        raise TargetModuleError(
            f"{target}: the module of wrap: {where} cannot be imported: {kind}{error}",
            target=target,
            module=name,
        ) from error
    for attribute in path.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError as error:
            raise TargetError(
                f"{target}: there is no {where} to wrap it with: {error}", target=target
            ) from error
    if not callable(found):
        raise UnsupportedTargetError(
            f"{target}: wrap: {where} is a {type(found).__name__}, not a function that takes (wrapped, "
            "instance, args, kwargs)",
            target=target,
        )
    try:
        inspect.signature(found).bind(None, None, (), {})
    except TypeError as error:
        raise UnsupportedTargetError(
            f"{target}: wrap: {where} cannot be called with (wrapped, instance, args, kwargs): {error}",
            target=target,
        ) from error
    except ValueError:
        # C functions may not tell what they take.
        pass
    wrapper: WrapperFunction = found
    return wrapper


def resolve(module: ModuleType, qualname: str, target: str) -> tuple[Any, str, Any]:
    """The object whose `__dict__` has the attribute, the attribute, and what it holds there."""
    try:
        parent, attribute, _ = wrapt.resolve_path(module, qualname)
        owner, attribute, _ = wrapt.resolve_owner(module, qualname)
    except wrapt.PathResolutionError as error:
        raise TargetError(f"{target}: {error}", target=target) from error
    if owner is not parent:
        raise UnsupportedTargetError(
            f"{target} is not defined by {qualname.rpartition('.')[0]} itself: name its owner, "
            f"{owner.__module__}.{owner.__qualname__}.{attribute}; every subclass sees a wrapper there.",
            target=target,
        )
    return owner, attribute, vars(owner)[attribute]


def refuse_unwrappable(owner: Any, original: Any, target: str) -> None:
    """Raise UnsupportedTargetError for an attribute whose holder or kind takes no wrapper."""
    instead = ""
    if isinstance(owner, type) and owner.__flags__ & _IMMUTABLE_TYPE:
        instead = f"attributes of the built-in class {owner.__name__} cannot be set; wrap what calls it"
    elif not isinstance(owner, (type, ModuleType)):
        instead = f"it belongs to an instance; name the class {type(owner).__qualname__}"
    elif isinstance(original, type):
        instead = (
            "it is a class, and isinstance and subclasses need the class itself; wrap its __init__ or __new__"
        )
    elif isinstance(original, property):
        instead = "it is a property; use edits: on its getter"
    elif not callable(original) and not isinstance(original, DESCRIPTORS):
        instead = f"it is a {type(original).__name__}, which is not called; use value: for it"
    if instead:
        raise UnsupportedTargetError(f"{target} cannot be wrapped: {instead}.", target=target)
