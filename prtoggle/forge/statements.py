"""The statements of a module or a class with the lines that are theirs, and what makes two of them one."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Final, NamedTuple

from prtoggle.definitions import FunctionNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.forge.standing import ScopeNode

DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
COMPOUND: Final = (ast.If, ast.Try, ast.With, ast.For, ast.While)


class Item(NamedTuple):
    """A statement of a scope with the lines that belong to it, comments above included: [first, last)."""

    node: ast.stmt
    name: str
    first: int
    last: int
    text: tuple[str, ...]
    dump: str
    skeleton: str


def items_of(scope: ScopeNode, lines: Sequence[str]) -> list[Item]:
    """The statements of a scope but for its docstring, which does nothing."""
    items = []
    end = scope.body[0].lineno - 1 if scope.body else 0
    for node in scope.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            # A docstring does nothing; nobody misses the old one.
            end = node.end_lineno or node.lineno
            continue
        first = first_line(node) - 1
        # Comments directly above belong to a statement, blank lines between do not.
        while first > end and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        last = node.end_lineno or node.lineno
        items.append(
            Item(node, name_of(node), first, last, tuple(lines[first:last]), ast.dump(node), _skeleton(node))
        )
        end = last
    return items


def name_of(node: ast.stmt) -> str:
    """The name by which a definition or a plain assignment is known again; "" for other statements."""
    if isinstance(node, DEFINITIONS):
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter"):
                return f"{node.name}={'fset' if decorator.attr == 'setter' else 'fdel'}"
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


def is_same(one: Item, other: Item) -> bool:
    """Whether one is a version of the other: by name, or, without one, equal but for functions in it."""
    if not one.name:
        return one.dump == other.dump or (one.skeleton != "" and one.skeleton == other.skeleton)
    return one.name == other.name and _sort(one.node) == _sort(other.node)


def _sort(node: ast.stmt) -> str:
    if isinstance(node, ast.ClassDef):
        return "class"
    return "function" if isinstance(node, FunctionNode) else "statement"


def likeness(item: Item) -> str:
    """What pairs two versions of a statement that has no name: an import with one of the same module."""
    if isinstance(item.node, ast.ImportFrom):
        return f"from {'.' * item.node.level}{item.node.module}"
    return item.dump


def _skeleton(node: ast.stmt) -> str:
    """What is left of a compound statement without the functions in it; "" for any other."""
    if not isinstance(node, COMPOUND) or not inner_functions(node):
        return ""
    return ast.dump(_Emptied().visit(copy.deepcopy(node)))


class _Emptied(ast.NodeTransformer):
    """Takes the bodies out of functions, and keeps their names."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return ast.Name(node.name)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return ast.Name(node.name)


def inner_functions(node: ast.stmt) -> list[FunctionNode]:
    """The functions in the branches of a compound statement, not those inside of other functions."""
    found: list[FunctionNode] = []
    pending: list[ast.AST] = [node]
    while pending:
        inner = pending.pop(0)
        if isinstance(inner, FunctionNode):
            found.append(inner)
        else:
            pending = [*ast.iter_child_nodes(inner), *pending]
    return found


def named(item: Item) -> str:
    """What messages call a statement: its name, or its first line."""
    return item.name.partition("=")[0] or shown(item.node)


def shown(node: ast.stmt) -> str:
    """The first line of a statement, as Python writes it."""
    return ast.unparse(node).splitlines()[0][:60]


def first_line(node: ast.stmt) -> int:
    """The line at which a statement begins, decorators included, from 1."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def header(node: ast.ClassDef) -> str:
    """What a class says before its body, equal for two that say the same."""
    bare = copy.copy(node)
    bare.body = []
    return ast.dump(bare)


def header_lines(node: ast.ClassDef) -> tuple[int, int]:
    """The lines [first, last) of a class before its body, from 0."""
    return first_line(node) - 1, max(node.lineno, first_line(node.body[0]) - 1)
