"""What tells a module with a fix undone from the module before the fix: more statements, or another order."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from prtoggle.definitions import FunctionNode
from prtoggle.forge.inert import Inert, imports_the_library
from prtoggle.forge.standing import ScopeNode, Standing, import_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class _Entry(NamedTuple):
    """A statement of a scope, or one name of an import; `key` is what makes two of them the same."""

    key: Any
    node: ast.stmt


def differences(before: ast.Module, reverted: ast.Module, standing: Standing) -> list[str]:
    """The statements, as text, by which the reverted module does something else than the one before the fix.

    Statements that `standing` lets stay are none, and neither is an order that cannot matter.
    """
    return list(_of_scope(before, reverted, standing, ""))


def _of_scope(old: ScopeNode, new: ScopeNode, standing: Standing, prefix: str) -> Iterator[str]:
    was, now = list(_entries(old)), list(_entries(new))
    places: dict[Any, list[int]] = defaultdict(list)
    for number, entry in enumerate(was):
        places[entry.key].append(number)
    order: list[tuple[int, ast.stmt]] = []
    for entry in now:
        if places[entry.key]:
            number = places[entry.key].pop(0)
            order.append((number, entry.node))
            if isinstance(entry.node, ast.ClassDef):
                twin = was[number].node
                assert isinstance(twin, ast.ClassDef)
                yield from _of_scope(twin, entry.node, standing, f"{prefix}{entry.node.name}.")
        elif not standing.may_stay(entry.node, old, new):
            yield prefix + _shown(entry.node)
    for left in places.values():
        yield from (prefix + _shown(was[number].node) for number in left)
    in_class = isinstance(new, ast.ClassDef)
    displaced = _displaced(order, standing.inert, in_class=in_class)
    yield from (prefix + _shown(node) for node in displaced)


def _entries(scope: ScopeNode) -> Iterator[_Entry]:
    for node in scope.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield _Entry(import_key(node, alias), ast.Import([alias]))
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                single = ast.ImportFrom(node.module, [alias], node.level)
                yield _Entry(import_key(node, alias), single)
        elif isinstance(node, ast.ClassDef):
            head = ast.ClassDef(node.name, node.bases, node.keywords, [], node.decorator_list)
            yield _Entry(("class", ast.dump(head)), node)
        else:
            yield _Entry(ast.dump(node), node)


def _displaced(order: Sequence[tuple[int, ast.stmt]], inert: Inert, *, in_class: bool) -> Iterator[ast.stmt]:
    """The statements that stand behind one which they stood before, where that can matter."""
    highest: list[tuple[int, ast.stmt]] = []
    for number, node in order:
        passed = [other for place, other in highest if place > number]
        if any(not _commute(node, other, inert, in_class=in_class) for other in passed):
            yield node
        highest.append((number, node))


def _commute(one: ast.stmt, other: ast.stmt, inert: Inert, *, in_class: bool) -> bool:
    """Whether the order of two statements makes no difference."""
    if in_class and not (isinstance(one, FunctionNode) and isinstance(other, FunctionNode)):
        return False
    return _is_free(one, inert) and _is_free(other, inert) and not (_names(one) & _names(other))


def _is_free(node: ast.stmt, inert: Inert) -> bool:
    """Whether a statement neither does nor needs anything at the moment when it runs."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return imports_the_library(node)
    if isinstance(node, FunctionNode):
        return inert.is_inert(node)
    value = getattr(node, "value", None)
    return (
        inert.is_inert(node)
        and value is not None
        and not any(isinstance(x, ast.Name) for x in ast.walk(value))
    )


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    if isinstance(node, (FunctionNode, ast.ClassDef)):
        return {node.name}
    return {x.id for x in ast.walk(node) if isinstance(x, ast.Name) and not isinstance(x.ctx, ast.Load)}


def _shown(node: ast.stmt) -> str:
    if isinstance(node, (FunctionNode, ast.ClassDef)):
        return node.name
    return ast.unparse(node).splitlines()[0][:60]
