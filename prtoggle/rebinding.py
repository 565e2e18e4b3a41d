"""Whether a definition is what its name stands for when its module has run, as far as the text tells."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from prtoggle.definitions import FunctionNode, accessor_kind, locate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def rebound_at(tree: ast.Module, qualname: str, lines: Sequence[int]) -> int:
    """The line from which the name of an edited function surely is something else; 0 where that is not sure.

    `lines` are those that are edited, from 1. A function that is decorated, or used in between, may live on.
    """
    nodes = [found.node for found in locate(tree, qualname) if isinstance(found.node, FunctionNode)]
    edited = [node for node in nodes if any(node.lineno <= line <= (node.end_lineno or 0) for line in lines)]
    later = [_rebound(tree, node) for node in edited]
    return min(later) if later and all(later) else 0


def in_a_branch(tree: ast.Module, qualname: str, line: int) -> bool:
    """Whether the function at that line is one of several of its name, of which a condition chooses."""
    nodes = [found.node for found in locate(tree, qualname) if isinstance(found.node, FunctionNode)]
    here = [node for node in nodes if node.lineno <= line <= (node.end_lineno or 0)]
    scopes = [
        scope for scope in ast.walk(tree) if isinstance(scope, (ast.Module, ast.ClassDef, FunctionNode))
    ]
    return len(nodes) > 1 and any(
        not any(node is statement for scope in scopes for statement in scope.body) for node in here
    )


def _rebound(tree: ast.Module, node: FunctionNode) -> int:
    if node.decorator_list or accessor_kind(node) != "getter":
        return 0
    for rest in _rests(tree, node):
        for statement in rest:
            if _binds_anew(statement, node.name):
                return statement.lineno
            if any(isinstance(x, ast.Name) and x.id == node.name for x in _now(statement)):
                return 0
    return 0


def _rests(scope: ast.AST, node: FunctionNode) -> Iterator[list[ast.stmt]]:
    """What stands behind the node in its block, and behind the blocks around that one in its scope."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        block = getattr(scope, name, None)
        if not isinstance(block, list):
            continue
        for position, inner in enumerate(block):
            if inner is node:
                yield block[position + 1 :]
            elif any(part is node for part in ast.walk(inner)):
                yield from _rests(inner, node)
                same_scope = not isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
                if same_scope and name in ("body", "orelse", "finalbody") and isinstance(inner, ast.stmt):
                    yield block[position + 1 :]


def _binds_anew(node: ast.stmt, name: str) -> bool:
    """Whether a statement gives the name to something that is not made from what had it, or takes it away."""
    if isinstance(node, ast.Delete):
        return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    if any(isinstance(x, ast.Name) and x.id == name and isinstance(x.ctx, ast.Load) for x in _now(node)):
        return False
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.name == name
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return any((alias.asname or alias.name.partition(".")[0]) == name for alias in node.names)
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _now(node: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement that run when it does: of a definition its decorators and defaults."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            yield from ast.walk(part)
    else:
        yield from ast.walk(node)
