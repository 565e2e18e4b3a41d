"""Names that an edit leaves undefined: found before the first call, not by it."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import symtable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import CodeType

    from prtoggle.source.source_text import ModuleSource
    from prtoggle.source.splices import Splice

# What the interpreter itself defines in a module or in a class body.
_IMPLICIT = frozenset(dir(builtins)) | {
    "__annotate__",
    "__annotations__",
    "__builtins__",
    "__cached__",
    "__class__",
    "__classdict__",
    "__conditional_annotations__",
    "__debug__",
    "__doc__",
    "__file__",
    "__firstlineno__",
    "__loader__",
    "__module__",
    "__name__",
    "__package__",
    "__path__",
    "__qualname__",
    "__spec__",
    "__static_attributes__",
    "__type_params__",
}


_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_STORES = frozenset({"STORE_GLOBAL"})


def undefined_names(source: ModuleSource, edited_text: str, splices: Sequence[Splice] = ()) -> list[str]:
    """The names that the edited module uses without defining them, and the original did not; sorted.

    Both texts have to be valid Python. Looked at are all scopes, so a local variable whose assignment an edit
    removes is found too. A name counts as defined when the module assigns or imports it anywhere (an import
    for type checkers alone does not count). A module with a star import may get names that its text does not
    show: nothing is reported for it.
    """
    if not splices and source.text == edited_text:
        return []
    before, after = _undefined(source.text, source.path), _undefined(edited_text, source.path)
    return sorted({name for _, name in after - before})


@functools.lru_cache(maxsize=32)
def _undefined(text: str, path: str) -> frozenset[tuple[str, str]]:
    top = symtable.symtable(text, path, "exec")
    defined = {symbol.get_name() for symbol in top.get_symbols() if _binds(symbol)}
    tables = list(_tables(top, ""))
    for _, table in tables:
        defined |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_declared_global() and _binds(symbol)
        }
    if "import *" in text or "TYPE_CHECKING" in text:
        tree = ast.parse(text)
        if "*" in _bound(tree):
            return frozenset()
        defined -= _for_checkers_only(tree)
    return frozenset(
        (scope, symbol.get_name())
        for scope, table in tables
        for symbol in table.get_symbols()
        if symbol.is_referenced()
        and (symbol.is_global() or table is top)
        and symbol.get_name() not in defined
        and symbol.get_name() not in _IMPLICIT
    )


def _binds(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _tables(table: symtable.SymbolTable, prefix: str) -> Iterator[tuple[str, symtable.SymbolTable]]:
    yield prefix, table
    for child in table.get_children():
        yield from _tables(child, f"{prefix}.{child.get_name()}")


def _for_checkers_only(tree: ast.Module) -> set[str]:
    """The names that only an `if TYPE_CHECKING:` block at module level binds."""
    inside: set[str] = set()
    outside: set[str] = set()
    for statement in tree.body:
        guarded = isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)
        if guarded and isinstance(statement, ast.If) and not isinstance(statement.test, ast.UnaryOp):
            inside.update(*map(_bound, statement.body))
            outside.update(*map(_bound, statement.orelse))
        else:
            outside.update(_bound(statement))
    return inside - outside


def _bound(scope: ast.AST) -> set[str]:
    """The names that a module-level statement (or the whole module) binds there; "*" for a star import."""
    names: set[str] = set()
    pending = [scope]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        else:
            pending += ast.iter_child_nodes(node)
    return names


def undefined_in_code(
    original: CodeType, edited: CodeType, namespace: Mapping[str, Any], changed: str | None = None
) -> list[str]:
    """The global names that the edited code loads, the original did not, and `namespace` and builtins lack.

    For live code, where the module's own dictionary is the truth. `changed` is the text that was taken out
    and put in: no name outside of it can have become undefined, and it costs next to nothing when it holds
    no unknown one.
    """
    suspects = {name for name in _all_names(edited) if name not in namespace and name not in _IMPLICIT}
    if changed is not None:
        suspects = {name for name in suspects if name in changed or _is_mangled(name)}
    if not suspects:
        return []
    return sorted(_uses(edited, suspects) - _uses(original, suspects) - _uses(edited, suspects, _STORES))


def _is_mangled(name: str) -> bool:
    """Whether the text may spell the name otherwise, as it does a private name in a class."""
    return name.startswith("_") or not name.isascii()


def _all_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, type(code)):
            yield from _all_names(const)


def _uses(code: CodeType, among: set[str], how: frozenset[str] = _LOADS) -> set[str]:
    """Those of the names that the code, or code nested in it, loads (or stores) as globals."""
    found = {
        instruction.argval for instruction in dis.get_instructions(code) if instruction.opname in how
    } & among
    for const in code.co_consts:
        if isinstance(const, type(code)):
            found |= _uses(const, among, how)
    return found
