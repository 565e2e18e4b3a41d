"""Why a name of a loaded module cannot be edited in place, and what to do instead."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING

from prtoggle.code.headers import AT_LOAD
from prtoggle.errors import UnsupportedTargetError

if TYPE_CHECKING:
    from prtoggle.live import Attribute


def not_editable(attribute: Attribute, module: ModuleType, target: str) -> UnsupportedTargetError:
    """The error for an attribute whose object does not run code of the module's source."""
    return UnsupportedTargetError(
        f"{target}: {_reason(attribute.raw, module, attribute.name)}", target=target
    )


def _reason(raw: object, module: ModuleType, name: str) -> str:
    inner = raw.__func__ if isinstance(raw, (staticmethod, classmethod)) else raw
    kind = type(inner)
    if isinstance(inner, FunctionType):
        return _function_reason(inner, module, name)
    if isinstance(inner, ModuleType):
        return f"{name} is the module {inner.__name__}; name something in it"
    if isinstance(inner, type):
        return f"{name} is a class that the source of {module.__name__} does not define; name a method"
    if isinstance(inner, BuiltinFunctionType) or type(inner).__name__ in _C_CALLABLES:
        return f"{name} is written in C ({kind.__name__}) and has no Python source: use wrap: on it"
    if callable(inner):
        return (
            f"{name} is an instance of {kind.__module__}.{kind.__qualname__} and has no code of its own: "
            f"name {kind.__module__}.{kind.__qualname__}.__call__ for all instances, or use wrap: on it"
        )
    return f"{name} is a {kind.__name__}, not a function; on a loaded module use value: for it, or {AT_LOAD}"


_C_CALLABLES = frozenset(
    {
        "wrapper_descriptor",
        "method_descriptor",
        "classmethod_descriptor",
        "getset_descriptor",
        "member_descriptor",
    }
)


def _function_reason(function: FunctionType, module: ModuleType, name: str) -> str:
    home = function.__globals__.get("__name__")
    code = function.__code__
    if code.co_filename.startswith("<") and not code.co_filename.startswith(("<frozen ", "<prtoggle ")):
        return (
            f"{name} has no source: it was generated ({code.co_filename}), as dataclasses do; use wrap: on it"
        )
    if home != module.__name__:
        return (
            f"{name} is only bound here and defined in {home}: name {home}.{code.co_qualname}, which changes "
            "it for everybody who uses it, or use wrap: here"
        )
    if "<lambda>" in code.co_qualname:
        return f"{name} is the lambda of line {code.co_firstlineno}, which has no name: use wrap: on it"
    return (
        f"{name} runs what is defined as {code.co_qualname} (line {code.co_firstlineno}): name "
        f"{home}.{code.co_qualname} instead, or use wrap: on it"
    )


def not_held(target: str, qualname: str, line: int) -> UnsupportedTargetError:
    """The error for a definition whose function is gone: another one of its name came later."""
    return UnsupportedTargetError(
        f"{target}: nobody holds the function that is defined as {qualname} at line {line}: another one has "
        "taken its name. Edit the one that is in force",
        target=target,
    )


def outside_functions(target: str, line: int, module: ModuleType) -> UnsupportedTargetError:
    """The error for an edit of statements that have run: those of a module or class body."""
    return UnsupportedTargetError(
        f"{target}: line {line} of {module.__file__} stands in no function: that statement ran when "
        f"{module.__name__} was loaded. For a constant use value:; else {AT_LOAD}",
        target=target,
    )
