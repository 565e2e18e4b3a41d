"""Names that a revert takes away and other code uses: such a fix cannot go out alone.

Looked for by name, in all files of the package: parameters that callers pass, attributes that a class no
longer sets, and module-level names that other modules import.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.drift.candidates import package_files
from prtoggle.drift.functions import definitions
from prtoggle.errors import UnsupportedTargetError
from prtoggle.source.source_text import read_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Lost(NamedTuple):
    """A name that the reverted modules lack; `owner` is the function of a parameter, or the module."""

    kind: str
    name: str
    owner: str


class _Names(NamedTuple):
    parameters: dict[str, frozenset[str]]
    attributes: frozenset[str]
    module_names: frozenset[str]


def used_later(edited: Mapping[Path, str], modules: Mapping[Path, str], folders: Sequence[Path]) -> list[str]:
    """Sentences about names that the edited texts lack and other code needs.

    `edited` maps files to their reverted text, `modules` to their names; `folders` are searched.
    """
    lost: list[Lost] = []
    texts: dict[Path, str] = {}
    for path, text in edited.items():
        before = read_source(path).text
        lost += _lost(_names(ast.parse(before)), _names(ast.parse(text)), modules[path])
        texts[path.resolve()] = text
    if not lost:
        return []
    said: dict[Lost, str] = {}
    defined: set[str] = set()
    for path, text in _texts(texts, folders):
        wanted = [item for item in lost if re.search(rf"\b{re.escape(item.name)}\b", text)]
        if wanted and (tree := _parsed(text)) is not None:
            said = _uses(tree, path, wanted) | said
            defined |= _names(tree).attributes
    # An attribute that another class has too may be the one that is meant.
    return [text for item, text in said.items() if item.kind != "attribute" or item.name not in defined]


def still_used(names: Sequence[str], edited: Mapping[Path, str], folders: Sequence[Path]) -> set[str]:
    """Those of the dotted names whose last part is read anywhere in the folders, after the revert."""
    texts = {path.resolve(): text for path, text in edited.items()}
    wanted = {name.rpartition(".")[2]: name for name in names}
    used: set[str] = set()
    for _, text in _texts(texts, folders):
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for name in wanted):
            continue
        for node in ast.walk(_parsed(text) or ast.Module([], [])):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
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
    return _Names(
        parameters, frozenset(attributes), frozenset(name for node in tree.body for name in _binds(node))
    )


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
    for node in ast.walk(tree):
        for item in lost:
            if item not in said and _is_use(node, item):
                owner = f" of {item.owner}" if item.owner else ""
                line = getattr(node, "lineno", 0)
                said[item] = (
                    f"{item.kind} {item.name}{owner} is used at {path.name}:{line}, after the revert too"
                )
    return said


def _is_use(node: ast.AST, item: Lost) -> bool:
    if item.kind == "parameter":
        return isinstance(node, ast.Call) and _calls(node, item)
    if item.kind == "attribute":
        return isinstance(node, ast.Attribute) and node.attr == item.name and isinstance(node.ctx, ast.Load)
    return (
        isinstance(node, ast.ImportFrom)
        and (node.module or "").rpartition(".")[2] == item.owner.rpartition(".")[2]
        and any(alias.name == item.name for alias in node.names)
    )


def _calls(node: ast.Call, item: Lost) -> bool:
    """Whether the call passes the parameter by name to something of the function's name."""
    owner, _, name = item.owner.rpartition(".")
    names = {name, owner.rpartition(".")[2]} if name in ("__init__", "__new__") else {name}
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return called in names and any(keyword.arg == item.name for keyword in node.keywords)
