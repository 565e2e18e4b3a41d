"""Functions that a revert makes something else of, and later uses of them that no call at its place tells.

A function that takes something else may be called through a table, another name or a pool; one that is no
generator any more is used otherwise wherever it is used. A use that is older than the fix fits the old one.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from prtoggle.definitions import FunctionNode, last_name
from prtoggle.drift.functions import definitions
from prtoggle.forge.lost_names import binds, instances_in
from prtoggle.forge.unseen import plain_uses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.forge.signatures import Changed

_WHAT: Final = {
    "property": "a property",
    "cached_property": "a property",
    "staticmethod": "a static method",
    "classmethod": "a class method",
    "contextmanager": "a context manager",
    "asynccontextmanager": "a context manager",
}


class Altered(NamedTuple):
    """A function that is something else after the revert: its qualified name, its module, what it is today.

    `calls_too` says that every use counts, not only those that pass the function on.
    """

    owner: str
    module: str
    what: str
    calls_too: bool

    @property
    def name(self) -> str:
        """By what it is used: its own name, for what makes instances that of the class."""
        outer, _, name = self.owner.rpartition(".")
        return outer.rpartition(".")[2] if name in ("__init__", "__new__") and outer else name

    @property
    def is_member(self) -> bool:
        """Whether it is used through an object."""
        return "." in self.owner and self.name == self.owner.rpartition(".")[2]


def altered_functions(
    today: ast.Module, reverted: ast.Module, module: str, changed: Sequence[Changed]
) -> Iterator[Altered]:
    """Those of a module: of another kind, or taking less."""
    before, after = _kinds(today), _kinds(reverted)
    other = {name for name, what in before.items() if name in after and after[name] != what}
    yield from (Altered(name, module, _said(before[name]), calls_too=True) for name in sorted(other))
    for item in changed:
        if item.owner not in other and not item.takes_as_much:
            yield Altered(item.owner, module, "takes what it did not", calls_too=False)


def _kinds(tree: ast.Module) -> dict[str, frozenset[str]]:
    return {
        definition.qualname: frozenset(_kind(definition.node))
        for definition in definitions(tree, ())
        if isinstance(definition.node, FunctionNode) and not definition.qualname.endswith((".fset", ".fdel"))
    }


def _kind(node: FunctionNode) -> Iterator[str]:
    if isinstance(node, ast.AsyncFunctionDef):
        yield "a coroutine"
    if any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in _own(node)):
        yield "a generator"
    for decorator in node.decorator_list:
        name = last_name(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if name in _WHAT:
            yield _WHAT[name]


def _own(node: FunctionNode) -> Iterator[ast.AST]:
    """The parts of a function but for those of functions in it."""
    pending: list[ast.AST] = list(node.body)
    while pending:
        part = pending.pop()
        yield part
        if not isinstance(part, (*FunctionNode.__args__, ast.ClassDef, ast.Lambda)):
            pending += ast.iter_child_nodes(part)


def _said(kind: frozenset[str]) -> str:
    return f"is {' and '.join(sorted(kind))}" if kind else "is a plain function"


def has_another(tree: ast.Module, item: Altered) -> bool:
    """Whether another class of a module has a member of the name."""
    owner = item.owner.rpartition(".")[0].rpartition(".")[2]
    return item.is_member and any(
        isinstance(node, ast.ClassDef)
        and node.name != owner
        and any(item.name in binds(statement) for statement in node.body)
        for node in ast.walk(tree)
    )


def other_uses(tree: ast.Module, item: Altered, *, own: bool) -> Iterator[tuple[ast.expr, bool]]:
    """The uses of an altered function in a module, which may be its `own`, that count.

    With each, whether it surely is one; of a member, it may be one of another class.
    """
    instances = instances_in(tree)
    outer = item.owner.rpartition(".")[0].rpartition(".")[2]
    names, modules = _names(tree, item, own=own)
    counted = set() if item.calls_too else _called(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or (id(node) in counted and not isinstance(node, ast.Call)):
            continue
        owner, name = _read(node)
        if owner is None:
            used = name in names
        elif item.is_member:
            used = name == item.name
        else:
            used = name == item.name and last_name(owner) in modules
        if used:
            name = last_name(owner.func if isinstance(owner, ast.Call) else owner) if owner else ""
            sure = not item.is_member or name == outer or (outer, name) in instances
            yield node, sure


def _read(node: ast.expr) -> tuple[ast.expr | None, str]:
    """The object and the name that an expression reads; no object for a plain name."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return None, name
        case ast.Attribute(value=value, attr=name, ctx=ast.Load()):
            return value, name
        case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(name)), *_]):
            return value, name
    return None, ""


def _called(tree: ast.Module) -> set[int]:
    """Where a function is called at its place, or not used as one: calls are checked against signatures."""
    plain = {id(node) for parent in ast.walk(tree) for node in plain_uses(parent)}
    bases = {id(base) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases}
    return plain | bases


def _names(tree: ast.Module, item: Altered, *, own: bool) -> tuple[set[str], set[str]]:
    """By which names a module has the function, and by which its module."""
    stem = item.module.rpartition(".")[2]
    names = {item.name} if own and not item.is_member else set()
    modules = {stem}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == item.name and (node.module or "").rpartition(".")[2] in (stem, ""):
                    names.add(alias.asname or alias.name)
                elif alias.name == stem:
                    modules.add(alias.asname or alias.name)
        elif isinstance(node, ast.Import):
            modules |= {alias.asname for alias in node.names if alias.asname and alias.name == item.module}
    return (names if not item.is_member else set()), modules
