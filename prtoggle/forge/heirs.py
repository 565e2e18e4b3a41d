"""Calls that make an instance of a class without naming the class: in its heirs, and in itself."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from prtoggle.definitions import FunctionNode, last_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CLASS: Final = re.compile(r"^[ \t]*class\s+(\w+)\s*\(([^)]*)\)", re.MULTILINE)
_MAKERS: Final = ("__init__", "__new__")


class Heirs(NamedTuple):
    """A class and its heirs by name: `all` of them, and those whose instances are `made` as its own are."""

    all: frozenset[str]
    made: frozenset[str]


def heirs_of(owner: str, texts: Sequence[str]) -> Heirs:
    """Looked for in the texts, by name."""
    bases = {name: set(re.findall(r"\w+", given)) for text in texts for name, given in _CLASS.findall(text)}
    every = {owner}
    while more := {name for name, given in bases.items() if given & every} - every:
        every |= more
    own = {
        node.name
        for text in texts
        if any(re.search(rf"\bclass\s+{name}\b", text) for name in every - {owner})
        for node in ast.walk(_parsed(text))
        if isinstance(node, ast.ClassDef) and any(_makes(statement) for statement in node.body)
    }
    made = {owner}
    while more := {name for name, given in bases.items() if name not in own and given & made} - made:
        made |= more
    return Heirs(frozenset(every), frozenset(made))


def made_otherwise(tree: ast.Module, heirs: Mapping[str, Heirs]) -> dict[int, str]:
    """The class, by the id of each call that makes an instance of it without naming it."""
    found: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for call in (part for part in ast.walk(node) if isinstance(part, ast.Call)):
                for owner, known in heirs.items():
                    if _is_of(call.func, node, owner, known):
                        found[id(call)] = owner
        elif isinstance(node, ast.Call):
            for owner, known in heirs.items():
                if last_name(node.func) in known.made or _is_explicit(node.func, known):
                    found.setdefault(id(node), owner)
    return found


def _is_of(function: ast.expr, scope: ast.ClassDef, owner: str, known: Heirs) -> bool:
    """Whether a call in a class is an heir's `super().__init__`, or `cls(...)` of the owner."""
    above = {last_name(base) for base in scope.bases}
    if isinstance(function, ast.Attribute) and function.attr in _MAKERS:
        through = function.value
        return (
            isinstance(through, ast.Call) and last_name(through.func) == "super" and bool(above & known.all)
        )
    inside = scope.name == owner or scope.name in known.made
    own = last_name(function) in ("cls", "__class__")
    own = own or (
        isinstance(function, ast.Call) and last_name(function.func) == "type" and len(function.args) == 1
    )
    return inside and own


def _is_explicit(function: ast.expr, known: Heirs) -> bool:
    """`Owner.__init__(self, ...)`."""
    named = isinstance(function, ast.Attribute) and function.attr in _MAKERS
    return named and last_name(getattr(function, "value", function)) in known.made


def _makes(node: ast.stmt) -> bool:
    return isinstance(node, FunctionNode) and node.name in _MAKERS


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])
