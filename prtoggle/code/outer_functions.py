"""The functions of a module that lie in no other function: the units whose code is exchanged."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from prtoggle.definitions import accessor_kind, bound_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prtoggle.definitions import FunctionNode, ScopeNode
    from prtoggle.source.source_text import ModuleSource
    from prtoggle.source.splices import Splice


def outer_functions(scope: ScopeNode, prefix: str = "") -> Iterator[tuple[str, FunctionNode]]:
    """The functions of a module and of its classes that lie in no other function, with qualified names."""
    for node in bound_in(scope):
        if isinstance(node, ast.ClassDef):
            yield from outer_functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + node.name, node


def first_line(node: FunctionNode) -> int:
    """The line that a function's code begins at: its first decorator's."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def function_around(source: ModuleSource, tree: ast.Module, splice: Splice) -> tuple[str, int] | None:
    """The name (with a property's suffix) and first line of the function that holds the whole splice."""
    for qualname, node in outer_functions(tree):
        first = first_line(node)
        begin, end = source.starts[first - 1], source.starts[node.end_lineno or node.lineno]
        if begin <= splice.start and splice.end <= end and (splice.start < end or splice.start == splice.end):
            suffix = {"setter": ".fset", "deleter": ".fdel"}.get(accessor_kind(node), "")
            return qualname + suffix, first
    return None
