"""Where a module's source defines a qualified name, found in its syntax tree without running anything.

A name may be defined several times: in the branches of an `if` or a `try`, or once as a property's getter
and once as its setter. Names that a statement merely binds (constants, lambdas, aliases) count too.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Kind = Literal["module", "function", "class", "assignment"]
LOCALS: Final = "<locals>"
ACCESSORS: Final = {"fget": "getter", "fset": "setter", "fdel": "deleter"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode = ast.Module | ast.ClassDef | FunctionNode
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign)


@dataclass(frozen=True, slots=True)
class TargetNode:
    """One definition of a name.

    `first_line` to `last_line` (from 1, both included) are the file's lines that an edit of it may touch,
    decorators included; a module's `last_line` is open. `scopes` are the enclosing classes and functions,
    outermost first. `note` says how the definition was found when that is not plain.
    """

    qualname: str
    kind: Kind
    node: ast.Module | ast.ClassDef | FunctionNode | ast.Assign | ast.AnnAssign
    scopes: tuple[ast.ClassDef | FunctionNode, ...]
    first_line: int
    last_line: int
    note: str = ""


def locate(tree: ast.Module, qualname: str) -> list[TargetNode]:
    """All definitions of `qualname` in the module, in source order; the module itself for an empty name.

    Understands `Class.method`, `function.<locals>.inner`, private names in both spellings, and the suffixes
    `.fget`, `.fset` and `.fdel` of a property; without a suffix a property is its getter. Empty when there is
    none.
    """
    if not qualname:
        return [TargetNode("", "module", tree, (), 1, sys.maxsize)]
    parts = [part for part in qualname.split(".") if part != LOCALS]
    accessor = ACCESSORS.get(parts[-1]) if len(parts) > 1 else None
    found = _descend(tree, (), parts)
    if not found and accessor is not None:
        found = _descend(tree, (), parts[:-1], accessor)
    return [_target_node(qualname, scopes, node) for scopes, node in found]


_Found = list[
    tuple[tuple[ast.ClassDef | FunctionNode, ...], ast.ClassDef | FunctionNode | ast.Assign | ast.AnnAssign]
]


def _descend(
    scope: ScopeNode,
    scopes: tuple[ast.ClassDef | FunctionNode, ...],
    parts: list[str],
    accessor: str = "getter",
) -> _Found:
    nodes = [node for node in bound_in(scope) if parts[0] in bound_names(node, scope)]
    if len(parts) == 1:
        chosen = [node for node in nodes if accessor_kind(node) == accessor] or (
            nodes if accessor == "getter" and not _has_accessor(nodes) else []
        )
        if accessor != "getter":
            chosen += [node for node in nodes if _accessor_value(node, accessor) is not None]
        return [(scopes, node) for node in chosen]
    found: _Found = []
    for node in nodes:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found += _descend(node, (*scopes, node), parts[1:], accessor)
    return found


def bound_in(scope: ScopeNode) -> Iterator[ast.ClassDef | FunctionNode | ast.Assign | ast.AnnAssign]:
    """The definitions and assignments of a scope itself, also in its `if`, `try`, `with` and loop blocks."""
    pending: list[ast.AST] = list(reversed(scope.body))
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, *_ASSIGNMENTS)):
            yield node
        elif isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            pending += reversed(
                [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
            )


def bound_names(node: ast.AST, scope: ScopeNode) -> list[str]:
    """The names that a definition or assignment binds, private ones of a class in both spellings."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        names = [node.name]
    else:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        names = [leaf.id for target in targets for leaf in _stored(target)]
    if isinstance(scope, ast.ClassDef):
        owner = scope.name.lstrip("_")
        names += [
            f"_{owner}{name}" for name in names if name.startswith("__") and not name.endswith("__") and owner
        ]
    return names


def _stored(target: ast.expr) -> Iterator[ast.Name]:
    if isinstance(target, ast.Name):
        yield target
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _stored(element)
    elif isinstance(target, ast.Starred):
        yield from _stored(target.value)


def last_name(node: ast.AST) -> str:
    """`c` for the expressions `c` and `a.b.c`; "" for every other."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def imported_module(node: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    """The module that an import statement of `module` names, dots resolved."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    above = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*above, *([node.module] if node.module else [])])


def accessor_kind(node: ast.AST) -> str:
    """Whether a function is decorated as a property's "setter" or "deleter"; "getter" for everything else."""
    for decorator in getattr(node, "decorator_list", ()):
        if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter"):
            return decorator.attr
    return "getter"


def _accessor_value(node: ast.AST, accessor: str) -> ast.expr | None:
    """What `p = property(get, set)` or `p = p.setter(set)` takes as that accessor; None without one."""
    call = node.value if isinstance(node, _ASSIGNMENTS) else None
    if not isinstance(call, ast.Call):
        return None
    if isinstance(call.func, ast.Attribute):
        return call.args[0] if call.func.attr == accessor and call.args else None
    if not (isinstance(call.func, ast.Name) and call.func.id == "property"):
        return None
    position = list(ACCESSORS.values()).index(accessor)
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    given = call.args[position : position + 1]
    return given[0] if given else named.get(list(ACCESSORS)[position])


def _has_accessor(nodes: list[ast.ClassDef | FunctionNode | ast.Assign | ast.AnnAssign]) -> bool:
    return any(accessor_kind(node) != "getter" for node in nodes)


def _target_node(
    qualname: str,
    scopes: tuple[ast.ClassDef | FunctionNode, ...],
    node: ast.ClassDef | FunctionNode | ast.Assign | ast.AnnAssign,
    note: str = "",
) -> TargetNode:
    decorators = [] if isinstance(node, _ASSIGNMENTS) else node.decorator_list
    kind: Kind = (
        "assignment"
        if isinstance(node, _ASSIGNMENTS)
        else "class"
        if isinstance(node, ast.ClassDef)
        else "function"
    )
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return TargetNode(qualname, kind, node, scopes, first, node.end_lineno or node.lineno, note)


def region_end(target: TargetNode, lines: Sequence[str]) -> int:
    """The last of the file's `lines` that an edit may touch: comments that end the body belong to it."""
    last = min(target.last_line, len(lines))
    if target.kind not in ("function", "class"):
        return last
    column = getattr(target.node, "col_offset", 0)
    for number in range(last + 1, len(lines) + 1):
        line = lines[number - 1].lstrip()
        if line and (not line.startswith("#") or len(lines[number - 1]) - len(line) <= column):
            break
        last = number if line else last
    return last


def made_from(tree: ast.Module, target: TargetNode) -> list[TargetNode]:
    """The functions that an assigned name may stand for, nearest guess first.

    `b = a` stands for `a`; `b = decorate(a)` for `a`; `b = make(...)` for what `make` defines inside and
    returns. Empty for anything else: the source of the value cannot be told without running it.
    """
    if not isinstance(target.node, _ASSIGNMENTS) or target.node.value is None:
        return []
    scope: ScopeNode = target.scopes[-1] if target.scopes else tree
    value = target.node.value
    names = [value.id] if isinstance(value, ast.Name) else []
    if isinstance(value, ast.Call):
        names = [argument.id for argument in _given(target, value) if isinstance(argument, ast.Name)]
    found = [
        node
        for name in names
        for node in _functions(scope, target.scopes, name) or _functions(tree, (), name)
    ]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        for maker in _functions(scope, target.scopes, value.func.id) or _functions(tree, (), value.func.id):
            found += _returned_functions(maker)
    return found


def _given(target: TargetNode, call: ast.Call) -> list[ast.expr]:
    """The arguments that the target may stand for: of a property only the one that it means."""
    accessor = ACCESSORS.get(target.qualname.rpartition(".")[2], "getter")
    chosen = _accessor_value(target.node, accessor)
    if chosen is not None:
        return [chosen]
    if isinstance(call.func, ast.Attribute) and call.func.attr in ACCESSORS.values():
        return []
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _functions(
    scope: ScopeNode, scopes: tuple[ast.ClassDef | FunctionNode, ...], name: str
) -> list[TargetNode]:
    prefix = "".join(f"{_qual(outer)}." for outer in scopes)
    return [
        _target_node(prefix + name, scopes, node, note=f"defined as {prefix}{name}")
        for node in bound_in(scope)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
    ]


def _returned_functions(maker: TargetNode) -> list[TargetNode]:
    function = maker.node
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)), function
    returned = {
        node.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Name)
    }
    scopes = (*maker.scopes, function)
    return [node for name in sorted(returned) for node in _functions(function, scopes, name)]


def _qual(scope: ast.ClassDef | FunctionNode) -> str:
    return scope.name if isinstance(scope, ast.ClassDef) else f"{scope.name}.{LOCALS}"
