"""What a statement of a module or a class does to a name when it runs: leave it, take it, or nobody knows."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

from prtoggle.definitions import FunctionNode, last_name


class Fate(IntEnum):
    """What becomes of a name; of two that are possible the greater is the worse."""

    KEPT = 0
    MAYBE = 1
    GONE = 2


#: Whether an import of that name (or a star import) binds it; None where nobody can tell.
Brings = Callable[[ast.Import | ast.ImportFrom, str], bool | None]

_KNOWN = {True: Fate.GONE, None: Fate.MAYBE, False: Fate.KEPT}


def fate(node: ast.stmt, name: str, brings: Brings) -> Fate:
    """What the statement does to a name, or to `Class.name` from outside of the class.

    A statement that makes the new value of the old one keeps it.
    """
    if isinstance(node, (FunctionNode, ast.ClassDef)):
        return _of_definition(node, name, brings)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return max((_of_import(node, alias, name, brings) for alias in node.names), default=Fate.KEPT)
    if list(_blocks(node)):
        return max(_of_head(node, name), _of_blocks(node, name, brings))
    return _of_plain(node, name)


def _of_definition(node: FunctionNode | ast.ClassDef, name: str, brings: Brings) -> Fate:
    owner, _, last = name.rpartition(".")
    if isinstance(node, ast.ClassDef) and owner and node.name == owner:
        # Another class of the name, made of the old one or not, that has such a member itself.
        return _of_block(node.body, last, brings)
    mine = node.name == name and not _read_by_the_head(node, name)
    return Fate.GONE if mine else _stored_inside(node, name)


def _of_plain(node: ast.stmt, name: str) -> Fate:
    if isinstance(node, ast.Delete):
        return Fate.GONE if any(_is_it(target, name) for target in node.targets) else Fate.KEPT
    if any(_reads(part, name) for part in ast.walk(node)):
        # `f = jit(f)` makes the new one of the old; of `f, g = g, f` that is not said.
        swaps = isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Tuple, ast.List))
        return Fate.MAYBE if swaps and _stores(node, name) else Fate.KEPT
    return Fate.GONE if _stores(node, name) else _by_spelling(node, name)


def of_module(tree: ast.Module, name: str, brings: Brings) -> Fate:
    """Whether a module binds a name at all: GONE stands for yes, KEPT for no."""
    return max((fate(node, name, brings) for node in tree.body), default=Fate.KEPT)


def exported_names(tree: ast.Module) -> set[str] | None:
    """What `__all__` lists, where it is given once and plainly; else None."""
    found = [
        node.value
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and _stores(node, "__all__")
    ]
    if len(found) != 1 or not isinstance(found[0], (ast.List, ast.Tuple)):
        return None
    names = [item.value for item in found[0].elts if isinstance(item, ast.Constant)]
    return {str(name) for name in names} if len(names) == len(found[0].elts) else None


def _of_import(node: ast.Import | ast.ImportFrom, alias: ast.alias, name: str, brings: Brings) -> Fate:
    if alias.name == "*":
        return _KNOWN[brings(node, name)] if not name.startswith("_") and "." not in name else Fate.KEPT
    # Binds it, or ends the module: either way what follows finds the import's.
    return Fate.GONE if (alias.asname or alias.name.partition(".")[0]) == name else Fate.KEPT


def _blocks(node: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        if block := getattr(node, field, None):
            yield block
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def _of_head(node: ast.stmt, name: str) -> Fate:
    """What the first line of a compound statement does: `with ... as name`, `for name in`."""
    if isinstance(node, (ast.With, ast.AsyncWith)):
        taken = any(item.optional_vars and _stores(item.optional_vars, name) for item in node.items)
        return Fate.GONE if taken else Fate.KEPT
    if isinstance(node, (ast.For, ast.AsyncFor)) and _stores(node.target, name):
        runs = isinstance(node.iter, (ast.Tuple, ast.List, ast.Set)) and node.iter.elts
        return Fate.GONE if runs else Fate.MAYBE
    patterns = [case.pattern for case in getattr(node, "cases", ())]
    caught = [handler.name for handler in getattr(node, "handlers", ())]
    captured = [getattr(part, "name", None) for pattern in patterns for part in ast.walk(pattern)]
    return Fate.MAYBE if name in (*caught, *captured) else Fate.KEPT


def _of_blocks(node: ast.stmt, name: str, brings: Brings) -> Fate:
    every = [_of_block(block, name, brings) for block in _blocks(node)]
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return every[0]
    if isinstance(node, ast.If):
        if last_name(node.test) == "TYPE_CHECKING":
            return _of_block(node.orelse, name, brings)
        if isinstance(node.test, ast.Constant):
            return _of_block(node.body if node.test.value else node.orelse, name, brings)
        return min(every) if len(every) > 1 and min(every) is Fate.GONE else min(max(every), Fate.MAYBE)
    if isinstance(node, (ast.Try, ast.TryStar)):
        return _of_try(node, name, brings)
    return min(max(every), Fate.MAYBE)


def _of_try(node: ast.Try | ast.TryStar, name: str, brings: Brings) -> Fate:
    if _of_block(node.finalbody, name, brings) is Fate.GONE:
        return Fate.GONE
    whole = _of_block([*node.body, *node.orelse], name, brings)
    caught = [_of_block(handler.body, name, brings) for handler in node.handlers]
    if all(isinstance(part, (ast.Import, ast.ImportFrom)) for part in node.body):
        found = [_is_found(part, brings) for part in node.body]
        if all(item is True for item in found):
            return whole
        if any(item is False for item in found):
            return max(caught, default=Fate.KEPT)
    raises = [bool(handler.body) and isinstance(handler.body[-1], ast.Raise) for handler in node.handlers]
    if whole is Fate.GONE and all(
        known is Fate.GONE or out for known, out in zip(caught, raises, strict=True)
    ):
        return Fate.GONE
    return min(max([whole, *caught]), Fate.MAYBE)


def _is_found(node: ast.stmt, brings: Brings) -> bool | None:
    """Whether an import succeeds, where that is known."""
    assert isinstance(node, (ast.Import, ast.ImportFrom))
    known = [brings(node, alias.name) for alias in node.names if alias.name != "*"]
    if any(item is False for item in known):
        return False
    return True if known and all(known) else None


def _of_block(block: Sequence[ast.stmt], name: str, brings: Brings) -> Fate:
    return max((fate(node, name, brings) for node in block), default=Fate.KEPT)


def _stores(node: ast.AST, name: str) -> bool:
    """Whether the node, or a part of it, binds the (dotted) name."""
    owner, _, last = name.rpartition(".")
    for part in ast.walk(node):
        if isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Store):
            if _is_it(part, name):
                return True
        elif (
            isinstance(part, ast.Call)
            and last_name(part.func) in ("setattr", "delattr")
            and len(part.args) > 1
        ):
            where = ast.unparse(part.args[0])
            spelt = isinstance(part.args[1], ast.Constant) and part.args[1].value == last
            if spelt and where == (owner or "sys.modules[__name__]"):
                return True
    return False


def _by_spelling(node: ast.stmt, name: str) -> Fate:
    """What an assignment to `globals()` does to a name of the module."""
    for part in ast.walk(node):
        if isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Load) and _is_space(part.value):
            spelt = isinstance(part.slice, ast.Constant)
            if not spelt:
                return Fate.MAYBE
            if part.slice.value == name:  # type: ignore[attr-defined]
                return Fate.GONE
        elif isinstance(part, ast.Call) and _is_update(part.func):
            return _of_update(part, name)
    return Fate.KEPT


def _is_update(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "update" and _is_space(function.value)


def _of_update(call: ast.Call, name: str) -> Fate:
    known: set[object] = {keyword.arg for keyword in call.keywords}
    for given in call.args:
        if not isinstance(given, ast.Dict) or any(not isinstance(key, ast.Constant) for key in given.keys):
            return Fate.MAYBE
        known |= {key.value for key in given.keys if isinstance(key, ast.Constant)}
    if name in known:
        return Fate.GONE
    return Fate.MAYBE if None in known else Fate.KEPT


def _is_space(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in ("globals", "vars") and not node.args


def _stored_inside(node: ast.stmt, name: str) -> Fate:
    """Whether a function or class may rebind the name when it is run: `global name`."""
    said = any(isinstance(part, ast.Global) and name in part.names for part in ast.walk(node))
    return Fate.MAYBE if said and _stores(node, name) else Fate.KEPT


def _read_by_the_head(node: FunctionNode | ast.ClassDef, name: str) -> bool:
    heads: list[ast.expr] = list(node.decorator_list)
    if isinstance(node, ast.ClassDef):
        heads += [*node.bases, *(keyword.value for keyword in node.keywords)]
    else:
        heads += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    return any(_reads(part, name) for head in heads for part in ast.walk(head))


def _reads(node: ast.AST, name: str) -> bool:
    return _is_it(node, name) and isinstance(getattr(node, "ctx", None), ast.Load)


def _is_it(node: ast.AST, name: str) -> bool:
    """Whether an expression is the (dotted) name."""
    owner, _, last = name.rpartition(".")
    if isinstance(node, ast.Name):
        return node.id == name
    return bool(owner) and isinstance(node, ast.Attribute) and node.attr == last and _is_it(node.value, owner)
