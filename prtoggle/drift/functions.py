"""The definitions of a module with the lines that are theirs, and what makes two of them the same."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.definitions import ScopeNode, TargetNode, accessor_kind, bound_in, locate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.source.source_text import ModuleSource

_ACCESSOR = {"setter": ".fset", "deleter": ".fdel"}


class Definition(NamedTuple):
    """A function or class of a module, and its lines with their ends, decorators included.

    `first` is the number (from 1) of its first line.
    """

    qualname: str
    node: ast.stmt
    first: int
    lines: list[str]

    @property
    def name(self) -> str:
        """The last part of the qualified name."""
        return self.qualname.rpartition(".")[2]


def definitions(tree: ast.Module, lines: Sequence[str]) -> Iterator[Definition]:
    """All functions and classes of a module and of its classes, not those inside of functions."""
    pending: list[tuple[ScopeNode, str]] = [(tree, "")]
    while pending:
        scope, prefix = pending.pop(0)
        for node in bound_in(scope):
            if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            qualname = f"{prefix}{node.name}{_ACCESSOR.get(accessor_kind(node), '')}"
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield Definition(qualname, node, first, list(lines[first - 1 : node.end_lineno]))
            if isinstance(node, ast.ClassDef):
                pending.append((node, f"{qualname}."))


def definition_at(
    source: ModuleSource, tree: ast.Module, qualname: str, number: int = 0
) -> Definition | None:
    """The definition of that name; of several the one with that number, or the last."""
    found = [node for node in locate(tree, qualname) if isinstance(node.node, ast.stmt)]
    if not qualname or not found:
        return None
    return of_node(source, found[min(number, len(found) - 1)])


def of_node(source: ModuleSource, found: TargetNode) -> Definition:
    """A located definition with its lines; the module itself is all lines."""
    if isinstance(found.node, ast.Module):
        return Definition("", ast.Pass(), 1, list(source.lines))
    lines = source.lines[found.first_line - 1 : found.last_line]
    return Definition(found.qualname, found.node, found.first_line, lines)


def shape(node: ast.AST) -> str:
    """What a definition does, whatever its name: equal for two that differ in name, layout and comments.

    Docstrings are comments here: they are indented with the code around them.
    """
    bare = copy.copy(node)
    if hasattr(bare, "name"):
        bare.name = "_"
    if any(_docstring(inner) for inner in ast.walk(node)):
        bare = copy.deepcopy(bare)
        for inner in ast.walk(bare):
            if _docstring(inner):
                del inner.body[0]  # type: ignore[attr-defined]
    return ast.dump(bare)


def _docstring(node: ast.AST) -> bool:
    if (
        not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module))
        or not node.body
    ):
        return False
    first = node.body[0]
    return (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )


def parsed_block(lines: Sequence[str]) -> ast.stmt | None:
    """The syntax node of a definition's own lines, at any indentation; None when they are no Python."""
    first = next((line for line in lines if line.strip()), "")
    indented = first[:1] in " \t"
    try:
        body = ast.parse(("if 1:\n" if indented else "") + "".join(lines)).body
    except (SyntaxError, ValueError):
        return None
    if indented and isinstance(body[0], ast.If):
        body = body[0].body
    return body[0] if len(body) == 1 else None
