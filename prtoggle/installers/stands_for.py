"""What an expression that ran at import time may have stood for: modules and classes, nothing evaluated.

A name is asked for what it holds now and for what the module's own imports and assignments made it hold: it
may have been deleted or bound to something else since. `importlib.import_module("m")`, `__import__("m")` and
`sys.modules["m"]` are read as the modules that they give.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from prtoggle.definitions import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prtoggle.installers.import_time import ImportTime

_DEEPEST: Final = 8


class StandsFor:
    """Answers for one module."""

    def __init__(self, module: ModuleType, visited: ImportTime) -> None:
        self._module = module
        self._visited = visited

    def of(self, expression: ast.expr, depth: int = 0) -> list[Any]:
        """Every object that the expression may have stood for; none when that cannot be told."""
        if depth > _DEEPEST:
            return []
        if isinstance(expression, ast.Name):
            return [*self._held(expression.id), *self._bound(expression.id, depth)]
        if isinstance(expression, ast.Attribute):
            bases = self.of(expression.value, depth + 1)
            return [value for base in bases for value in attribute_of(base, expression.attr)]
        name = _module_named(expression)
        found = sys.modules.get(resolved(self._module, name)) if name else None
        return [] if found is None else [found]

    def _held(self, name: str) -> list[object]:
        namespace = vars(self._module)
        return [namespace[name]] if name in namespace else []

    def _bound(self, name: str, depth: int) -> Iterator[object]:
        for statement in self._visited.modules:
            for alias in statement.names:
                top = alias.name.partition(".")[0]
                if (alias.asname or top) == name:
                    yield sys.modules.get(alias.name if alias.asname else top)
        for imported, _ in self._visited.imports:
            base = sys.modules.get(resolved(self._module, "." * imported.level + (imported.module or "")))
            for alias in imported.names if base is not None else ():
                if (alias.asname or alias.name) == name:
                    yield from attribute_of(base, alias.name)
        for value in self._visited.assigned.get(name, ()):
            yield from self.of(value, depth + 1)


def attribute_of(base: object, name: str) -> list[Any]:
    """What a module or class has under that name, descriptors unopened; none for other objects."""
    if isinstance(base, type):
        owner = next((kind for kind in base.__mro__ if name in vars(kind)), None)
        return [] if owner is None else [vars(owner)[name]]
    if isinstance(base, ModuleType):
        found = vars(base).get(name, sys.modules.get(f"{base.__name__}.{name}"))
        return [] if found is None else [found]
    return []


def resolved(module: ModuleType, name: str) -> str:
    """The absolute name of a module that is named in `module`; "" when it leads out of its package."""
    package = module.__spec__.parent if module.__spec__ else module.__package__
    try:
        return importlib.util.resolve_name(name, package)
    except ImportError:
        return ""


def _module_named(expression: ast.expr) -> str:
    """The module that a call or subscript gives by its name, or ""."""
    if isinstance(expression, ast.Subscript):
        return text_of(expression.slice) if last_name(expression.value) == "modules" else ""
    if not isinstance(expression, ast.Call) or not expression.args:
        return ""
    called, name = last_name(expression.func), text_of(expression.args[0])
    if called == "__import__":
        return name.partition(".")[0]
    is_get = (
        called == "get"
        and isinstance(expression.func, ast.Attribute)
        and last_name(expression.func.value) == "modules"
    )
    return name if called == "import_module" or is_get else ""


def text_of(expression: ast.expr) -> str:
    """The string that a literal gives; "" for every other expression."""
    if isinstance(expression, ast.Constant) and isinstance(expression.value, str):
        return expression.value
    return ""


def read_by_text(expression: ast.Call | ast.Subscript) -> tuple[ast.expr | None, str] | None:
    """The object whose attribute a call or subscript reads by its name, and that name.

    The object is None for a namespace that the code itself stands in: `globals()`, `locals()`, `vars()`.
    """
    if isinstance(expression, ast.Subscript):
        return _in_namespace(expression.value, text_of(expression.slice))
    arguments = expression.args
    called = last_name(expression.func)
    if called == "getattr" and len(arguments) > 1:
        return arguments[0], text_of(arguments[1])
    if isinstance(expression.func, ast.Attribute) and arguments:
        if called in ("get", "pop", "setdefault", "__getitem__"):
            return _in_namespace(expression.func.value, text_of(arguments[0]))
        if called in ("__getattribute__", "__getattr__"):
            return (expression.func.value if len(arguments) == 1 else arguments[0]), text_of(arguments[-1])
    if (
        isinstance(expression.func, ast.Call)
        and last_name(expression.func.func) == "attrgetter"
        and arguments
    ):
        return arguments[0], text_of(expression.func.args[0]) if expression.func.args else ""
    return None


def _in_namespace(namespace: ast.expr, name: str) -> tuple[ast.expr | None, str] | None:
    if isinstance(namespace, ast.Attribute) and namespace.attr == "__dict__":
        return namespace.value, name
    if isinstance(namespace, ast.Call) and last_name(namespace.func) in ("vars", "globals", "locals"):
        return (namespace.args[0] if namespace.args else None), name
    return None


def evaluated_text(expression: ast.Call) -> str:
    """The text that a call hands to `eval` or `exec`, or ""."""
    if last_name(expression.func) in ("eval", "exec") and expression.args:
        return text_of(expression.args[0])
    return ""
