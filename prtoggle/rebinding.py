"""Whether a definition is what its name stands for when its module has run, as far as the text tells."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from prtoggle.bindings import Fate, fate
from prtoggle.definitions import FunctionNode, accessor_kind, locate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.bindings import Brings

Defined = FunctionNode | ast.ClassDef


def rebound_at(
    tree: ast.Module, qualname: str, lines: Sequence[int], brings: Brings = lambda *_: None
) -> int:
    """The line from which the name of an edited function surely is something else; 0 where that is not sure.

    `lines` are those that are edited, from 1; `brings` says what imports bind. A function that is decorated,
    or used in between, may live on.
    """
    later = [_rebound(tree, node, qualname, brings) for node in _edited(tree, qualname, lines)]
    sure = [line for line, known in later if known is Fate.GONE]
    return min(sure) if sure and len(sure) == len(later) else 0


def may_be_rebound_at(
    tree: ast.Module, qualname: str, lines: Sequence[int], brings: Brings = lambda *_: None
) -> int:
    """The line that gives the name of an edited function to something else, if it runs; 0 without one."""
    later = [_rebound(tree, node, qualname, brings) for node in _edited(tree, qualname, lines)]
    return next((line for line, known in later if known is not Fate.KEPT), 0)


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


def _edited(tree: ast.Module, qualname: str, lines: Sequence[int]) -> list[FunctionNode]:
    nodes = [found.node for found in locate(tree, qualname) if isinstance(found.node, FunctionNode)]
    return [node for node in nodes if any(node.lineno <= line <= (node.end_lineno or 0) for line in lines)]


def _rebound(tree: ast.Module, node: FunctionNode, qualname: str, brings: Brings) -> tuple[int, Fate]:
    """The first line that takes the function's name, or that of a class around it, and how sure that is."""
    if accessor_kind(node) != "getter" or (node.name == "_" and node.decorator_list):
        # An implementation that a dispatch keeps needs no name.
        return 0, Fate.KEPT
    maybe = 0
    for name, rest in _names(tree, node, qualname):
        line, known = _taken(rest, name, brings)
        if known is Fate.GONE:
            return line, known
        maybe = maybe or line
    return maybe, Fate.MAYBE if maybe else Fate.KEPT


def _names(
    tree: ast.Module, node: FunctionNode, qualname: str
) -> Iterator[tuple[str, tuple[Defined, list[list[ast.stmt]]]]]:
    """The names that lead to the function, innermost first: its own, its class's, and `Class.function`."""
    yield node.name, (node, list(_rests(tree, node)))
    owners = [
        scope
        for scope in ast.walk(tree)
        if isinstance(scope, ast.ClassDef) and any(part is node for part in ast.walk(scope))
    ]
    if len(owners) == 1 and qualname == f"{owners[0].name}.{node.name}":
        behind = list(_rests(tree, owners[0]))
        yield qualname, (node, behind)
        yield owners[0].name, (owners[0], behind)


def _taken(rest: tuple[Defined, list[list[ast.stmt]]], name: str, brings: Brings) -> tuple[int, Fate]:
    """The first statement that gives the name to something else; not sure behind one that used the name."""
    node, blocks = rest
    # A decorator, or whoever used the function in between, may hold it.
    used = bool(node.decorator_list)
    maybe = 0
    for statement in (statement for block in blocks for statement in block):
        known = fate(statement, name, brings)
        if known is Fate.GONE:
            return (maybe or statement.lineno), Fate.MAYBE if used else Fate.GONE
        maybe = maybe or (statement.lineno if known is Fate.MAYBE else 0)
        if known is Fate.KEPT and _uses(statement, name):
            used = True
            if _makes_of_it(statement, name):
                # What the name stands for now is made of the function.
                return maybe, Fate.MAYBE if maybe else Fate.KEPT
    return maybe, Fate.MAYBE if maybe else Fate.KEPT


def _uses(statement: ast.stmt, name: str) -> bool:
    return any(reads(part, name) for part in _now(statement))


def _makes_of_it(statement: ast.stmt, name: str) -> bool:
    """Whether a statement that uses the name binds it as well: `f = jit(f)`, `@f.register` of a `def f`."""
    own = getattr(statement, "name", "")
    targets = [*getattr(statement, "targets", ()), getattr(statement, "target", None)]
    return own == name or any(target is not None and ast.unparse(target) == name for target in targets)


def reads(node: ast.AST, name: str) -> bool:
    """Whether the node is a read of the (dotted) name."""
    owner, _, last = name.rpartition(".")
    if not owner:
        return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    read = isinstance(node, ast.Attribute) and node.attr == last and isinstance(node.ctx, ast.Load)
    return read and ast.unparse(node.value) == owner  # type: ignore[attr-defined]


def _rests(scope: ast.AST, node: ast.AST) -> Iterator[list[ast.stmt]]:
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


def _now(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a statement that run when it does: of a function its decorators and defaults."""
    pending: list[ast.AST] = [node]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            pending += [*part.args.defaults, *filter(None, part.args.kw_defaults)]
            pending += getattr(part, "decorator_list", [])
        else:
            pending += ast.iter_child_nodes(part)
