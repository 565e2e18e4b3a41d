"""Names that a revert takes away and other code uses: such a fix cannot go out alone.

Looked for by name, in all files of the package: calls that no longer fit, attributes that a class no longer
sets, and module-level names that other modules import.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.definitions import FunctionNode, last_name
from prtoggle.drift.candidates import package_files
from prtoggle.drift.functions import definitions
from prtoggle.errors import UnsupportedTargetError
from prtoggle.forge.signatures import changed_signatures, misfit
from prtoggle.source.source_text import read_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from prtoggle.forge.signatures import Changed


class Lost(NamedTuple):
    """A name that the reverted modules lack; `owner` is the function of a parameter, the module or the class.

    A "member" is an attribute of a class without bases: what is surely such an instance needs it.
    """

    kind: str
    name: str
    owner: str


class _Names(NamedTuple):
    parameters: dict[str, frozenset[str]]
    members: frozenset[tuple[str, str]]
    attributes: frozenset[str]
    module_names: frozenset[str]


def used_later(edited: Mapping[Path, str], modules: Mapping[Path, str], folders: Sequence[Path]) -> list[str]:
    """Sentences about names that the edited texts lack and other code needs.

    `edited` maps files to their reverted text, `modules` to their names; `folders` are searched.
    """
    lost: list[Lost] = []
    changed: list[Changed] = []
    texts: dict[Path, str] = {}
    for path, text in edited.items():
        before, after = ast.parse(read_source(path).text), ast.parse(text)
        lost += _lost(_names(before), _names(after), modules[path])
        changed += changed_signatures(before, after)
        texts[path.resolve()] = text
    if not lost and not changed:
        return []
    said: dict[Lost, str] = {}
    calls: dict[str, str] = {}
    defined: set[str] = set()
    for path, text in _texts(texts, folders):
        wanted = [item for item in lost if _stands_in(item.name, text)]
        called = [item for item in changed if any(_stands_in(name, text) for name in item.names)]
        if (wanted or called) and (tree := _parsed(text)) is not None:
            said = _uses(tree, path, wanted) | said
            calls = _misfits(tree, path, called, own=path not in texts) | calls
            defined |= _names(tree).attributes
    members = {item.name for item in said if item.kind == "member"}
    # An attribute that another class has too may be the one that is meant.
    skipped = {item for item in said if item.kind == "attribute" and item.name in defined | members}
    told = {item.owner for item in said if item.kind == "parameter"}
    found = [text for item, text in said.items() if item not in skipped]
    return found + [text for owner, text in calls.items() if owner not in told]


def _stands_in(name: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _misfits(tree: ast.Module, path: Path, changed: Sequence[Changed], *, own: bool) -> dict[str, str]:
    """The first call, by the function that it is for, which does not fit once the fix is out."""
    names = frozenset(name for node in tree.body for name in _binds(node)) if own else frozenset()
    aliases = {
        alias.asname: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    said: dict[str, str] = {}
    for node in ast.walk(tree):
        item = misfit(node, changed, names, aliases)
        if item is not None:
            where = f"{path.name}:{getattr(node, 'lineno', 0)}"
            why = "fits today, and after the revert it does not, or nobody can tell"
            said.setdefault(item.owner, f"the call of {item.owner} at {where} {why}")
    return said


def still_used(names: Sequence[str], edited: Mapping[Path, str], folders: Sequence[Path]) -> set[str]:
    """Those of the dotted names whose last part is read anywhere in the folders, after the revert."""
    texts = {path.resolve(): text for path, text in edited.items()}
    wanted = {name.rpartition(".")[2]: name for name in names}
    used: set[str] = set()
    for _, text in _texts(texts, folders):
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for name in wanted):
            continue
        for node in ast.walk(_parsed(text) or ast.Module([], [])):
            name = last_name(node)
            if name in wanted and isinstance(getattr(node, "ctx", None), ast.Load):
                used.add(wanted[name])
    return used


def _texts(edited: Mapping[Path, str], folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """All files of the folders, those that the revert edits as it leaves them."""
    files = {path.resolve() for folder in folders for _, path in package_files(folder)} | set(edited)
    for path in sorted(files):
        yield path, edited[path] if path in edited else _text(path)


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _text(path: Path) -> str:
    try:
        return read_source(path).text
    except (UnsupportedTargetError, OSError):
        return ""


def _lost(before: _Names, after: _Names, module: str) -> Iterator[Lost]:
    for function, names in before.parameters.items():
        if function in after.parameters:
            yield from (Lost("parameter", name, function) for name in names - after.parameters[function])
    yield from (Lost("attribute", name, "") for name in before.attributes - after.attributes)
    yield from (Lost("member", name, owner) for owner, name in before.members - after.members)
    yield from (Lost("module name", name, module) for name in before.module_names - after.module_names)


def _names(tree: ast.Module) -> _Names:
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
            attributes |= {name for statement in definition.node.body for name in _binds(statement)}
    members = {
        (definition.node.name, name)
        for definition in found
        if isinstance(definition.node, ast.ClassDef) and not definition.node.bases
        for name in _members(definition.node)
    }
    return _Names(
        parameters,
        frozenset(members),
        frozenset(attributes),
        frozenset(name for node in tree.body for name in _binds(node)),
    )


def _members(node: ast.ClassDef) -> Iterator[str]:
    """What a class binds in its body, and its methods at their first parameter."""
    for statement in node.body:
        yield from _binds(statement)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store) and _is_self(inner.value):
            yield inner.attr


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _parameters(node: FunctionNode) -> list[str]:
    arguments = node.args
    return [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _binds(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _uses(tree: ast.Module, path: Path, lost: Sequence[Lost]) -> dict[Lost, str]:
    """The first use of each name in a module, as a sentence."""
    said: dict[Lost, str] = {}
    instances = _instances(tree) if any(item.kind == "member" for item in lost) else frozenset()
    for node in ast.walk(tree):
        for item in lost:
            if item not in said and (
                _is_use(node, item) if item.kind != "member" else _is_read(node, item, instances)
            ):
                what = f"{'attribute' if item.kind == 'member' else item.kind} {item.name}"
                what += f" of {item.owner}" if item.owner else ""
                line = getattr(node, "lineno", 0)
                said[item] = f"{what} is used at {path.name}:{line}, after the revert too"
    return said


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


def _is_read(node: ast.AST, item: Lost, instances: frozenset[tuple[str, str]]) -> bool:
    """Whether an attribute of the item's class, or of what surely is one of its instances, is read."""
    read = _read(node)
    if read is None or read[1] != item.name:
        return False
    value = read[0].func if isinstance(read[0], ast.Call) else read[0]
    name = last_name(value)
    return name == item.owner or (item.owner, name) in instances


def _instances(tree: ast.Module) -> frozenset[tuple[str, str]]:
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
