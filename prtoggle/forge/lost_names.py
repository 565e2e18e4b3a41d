"""Names that a module has today and lacks after a revert, and what needs them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.definitions import FunctionNode, last_name
from prtoggle.drift.functions import definitions
from prtoggle.forge.unseen import guarded_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


class Lost(NamedTuple):
    """A name that the reverted modules lack; `owner` is the function of a parameter, the module or the class.

    A "member" is an attribute of a class without bases: what is surely such an instance needs it.
    """

    kind: str
    name: str
    owner: str


class Names(NamedTuple):
    """The names of a module by which other code uses it."""

    parameters: dict[str, frozenset[str]]
    members: frozenset[tuple[str, str]]
    attributes: frozenset[str]
    module_names: frozenset[str]


def lost_names(before: Names, after: Names, module: str) -> Iterator[Lost]:
    """The names of a module that are not there after the revert."""
    for function, names in before.parameters.items():
        if function in after.parameters:
            yield from (Lost("parameter", name, function) for name in names - after.parameters[function])
    yield from (Lost("attribute", name, "") for name in before.attributes - after.attributes)
    yield from (Lost("member", name, owner) for owner, name in before.members - after.members)
    yield from (Lost("module name", name, module) for name in before.module_names - after.module_names)


def names_of(tree: ast.Module) -> Names:
    """What a module, its functions and its classes bind."""
    found = list(definitions(tree, ()))
    parameters = {
        definition.qualname: frozenset(_parameters(definition.node))
        for definition in found
        if isinstance(definition.node, FunctionNode)
    }
    attributes = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    for definition in found:
        if isinstance(definition.node, ast.ClassDef):
            attributes |= {name for statement in definition.node.body for name in binds(statement)}
    members = {
        (definition.node.name, name)
        for definition in found
        if isinstance(definition.node, ast.ClassDef) and _has_own_members(definition.node)
        for name in _members(definition.node)
    }
    return Names(
        parameters,
        frozenset(members),
        frozenset(attributes),
        frozenset(name for node in tree.body for name in binds(node)),
    )


def _has_own_members(node: ast.ClassDef) -> bool:
    """Whether what the class has is its own: nothing is inherited, or it is an enumeration."""
    return all("Enum" in last_name(base) or "Flag" in last_name(base) for base in node.bases)


def _members(node: ast.ClassDef) -> Iterator[str]:
    """What a class binds in its body, and its methods at their first parameter."""
    for statement in node.body:
        yield from binds(statement)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store) and _is_self(inner.value):
            yield inner.attr


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _parameters(node: FunctionNode) -> list[str]:
    arguments = node.args
    return [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def binds(node: ast.stmt) -> list[str]:
    """The names that a definition or an assignment binds."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def uses_of(
    tree: ast.Module,
    path: Path,
    lost: Sequence[Lost],
    is_older: Callable[[ast.expr | ast.stmt], bool],
) -> dict[Lost, str]:
    """The first use of each name in a module, as a sentence; older ones than the fix get by without."""
    said: dict[Lost, str] = {}
    instances = instances_in(tree) if any(item.kind == "member" for item in lost) else frozenset()
    # What is caught where the name is missing does not need it.
    guarded = {id(part) for part in guarded_parts(tree)}
    for node in ast.walk(tree):
        if not isinstance(node, (ast.expr, ast.stmt)):
            continue
        for item in lost:
            needed = item.kind == "parameter" or id(node) not in guarded
            if item not in said and needed and _uses(node, item, instances) and not is_older(node):
                what = f"{'attribute' if item.kind == 'member' else item.kind} {item.name}"
                what += f" of {item.owner}" if item.owner else ""
                said[item] = f"{what} is used at {path.name}:{node.lineno}, after the revert too"
    return said


def _uses(node: ast.AST, item: Lost, instances: frozenset[tuple[str, str]]) -> bool:
    return _is_read(node, item, instances) if item.kind == "member" else _is_use(node, item)


def _is_use(node: ast.AST, item: Lost) -> bool:
    if item.kind == "parameter":
        return isinstance(node, ast.Call) and _calls(node, item)
    if item.kind == "attribute":
        read = _read(node)
        return read is not None and read[1] == item.name
    return (
        isinstance(node, ast.ImportFrom)
        and (node.module or "").rpartition(".")[2] == item.owner.rpartition(".")[2]
        and any(alias.name == item.name for alias in node.names)
    )


def _read(node: ast.AST) -> tuple[ast.expr, str] | None:
    """The object and the attribute that an expression reads, by a dot or by getattr without a default."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        return node.value, node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        match node.args:
            case [value, ast.Constant(value=str(name))]:
                return value, name
    return None


def _looked_up(node: ast.AST) -> tuple[ast.expr, str] | None:
    """The same for a look-up in square brackets, by which enumerations give their members."""
    match node:
        case ast.Subscript(value=value, slice=ast.Constant(value=str(name)), ctx=ast.Load()):
            return value, name
    return None


def _is_read(node: ast.AST, item: Lost, instances: frozenset[tuple[str, str]]) -> bool:
    """Whether an attribute of the item's class, or of what surely is one of its instances, is read."""
    read = _read(node) or _looked_up(node)
    if read is None or read[1] != item.name:
        return False
    value = read[0].func if isinstance(read[0], ast.Call) else read[0]
    name = last_name(value)
    return name == item.owner or (item.owner, name) in instances


def instances_in(tree: ast.Module) -> frozenset[tuple[str, str]]:
    """(class, name) of the names that are made by a call of the class, or annotated with it."""
    found: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            owner = last_name(node.value.func)
            found |= {(owner, target.id) for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.arg) and isinstance(node.annotation, ast.Name):
            found.add((node.annotation.id, node.arg))
    return frozenset(found)


def _calls(node: ast.Call, item: Lost) -> bool:
    """Whether the call passes the parameter by name to something of the function's name."""
    owner, _, name = item.owner.rpartition(".")
    names = {name, owner.rpartition(".")[2]} if name in ("__init__", "__new__") else {name}
    return last_name(node.func) in names and any(keyword.arg == item.name for keyword in node.keywords)
