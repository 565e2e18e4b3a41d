"""Whether a statement that a fix added may stay when the fix goes out: only where it provably has no effect.

An effect is whatever can be seen without using the names that the statement binds: a call, an import that
runs a module, a name that hides another one or that is found by its spelling, an entry of a class.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from prtoggle.definitions import FunctionNode, imported_module, last_name
from prtoggle.target import dotted_prefixes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ScopeNode = ast.Module | ast.ClassDef
# Decorators that register their function nowhere: a function that has only these may stay unused.
_SILENT: Final = (
    {"property", "cached_property", "setter", "getter", "deleter", "staticmethod", "classmethod"}
    | {"cache", "lru_cache", "wraps", "contextmanager", "asynccontextmanager", "total_ordering"}
    | {"overload", "override", "final", "abstractmethod", "dataclass"}
    | {"no_grad", "inference_mode", "jit", "njit"}
)
# Calls that make a value and do nothing else that anybody would see.
_MAKERS: Final = {"frozenset", "set", "tuple", "list", "dict", "object", "range", "TypeVar", "NewType"}
_MAKERS_OF_MODULES: Final = {("re", "compile"), ("logging", "getLogger"), ("typing", "TypeVar")}
_PLAIN_BASES: Final = {
    *("object", "ABC", "Generic", "Protocol", "NamedTuple", "TypedDict", "Enum", "IntEnum"),
    *(
        name
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    ),
}
_EXPRESSIONS: Final = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.UnaryOp, ast.BinOp),
    *(ast.BoolOp, ast.Compare, ast.Subscript, ast.Slice, ast.IfExp, ast.Starred, ast.JoinedStr),
    *(ast.FormattedValue, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.keyword),
)
_BY_SPELLING: Final = re.compile(r"\b(?:globals|vars|dir|locals)\s*\(|__dict__|getmembers|sys\.modules")
_ANY_SPELLING: Final = re.compile(
    _BY_SPELLING.pattern + r"|\b(?:getattr|hasattr)\(\s*[^,()]+,\s*+(?![\"']\w*[\"']\s*[,)])"
)


@dataclass(slots=True)
class Standing:
    """What has to be known of a module and its package to let a new statement stand.

    `is_module` knows the package's modules by their dotted names, `texts` reads their sources; `imports_stay`
    lets an import stand that may run a module.
    """

    before: ast.Module
    after: ast.Module
    text: str
    module: str = ""
    is_package: bool = False
    is_module: Callable[[str], bool] = lambda _: False
    texts: Callable[[], Sequence[str]] = tuple
    imports_stay: bool = False
    _loaded: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        """Modules that are imported before the fix, and by what the module is part of."""
        self._loaded = set(dotted_prefixes(self.module))
        for node in self.before.body:
            for alias in getattr(node, "names", ()):
                self._loaded |= set(self._run_by(node, alias))

    def without_leave(self) -> Standing:
        """The same, with imports held to what holds for every statement."""
        return replace(self, imports_stay=False)

    def may_stay(self, node: ast.stmt, old: ScopeNode, new: ScopeNode) -> bool:
        """Whether the statement, new in the scope, does nothing that would be missed or noticed."""
        owner = new if isinstance(new, ast.ClassDef) else None
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return owner is None and all(self._import_stays(node, alias) for alias in node.names)
        if isinstance(node, ast.If) and _is_for_typing(node):
            return owner is None
        if isinstance(node, (FunctionNode, ast.ClassDef)):
            names = [node.name]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and owner is None:
            names = [target.id for target in _targets(node) if isinstance(target, ast.Name)]
            if len(names) != len(_targets(node)):
                return False
        else:
            return isinstance(node, ast.Pass) or (
                isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            )
        there = bound(old)
        return is_inert(node) and all(
            name not in there and not _is_dunder(name) and self._unseen(name, owner) for name in names
        )

    def _unseen(self, name: str, owner: ast.ClassDef | None) -> bool:
        """Whether nothing finds the name but code that spells it."""
        quoted = re.compile(rf"[\"']{re.escape(name)}[\"']")
        if any(quoted.search(text) for text in (self.text, *self.texts())):
            return False
        if owner is None:
            stem = re.escape(self.module.rpartition(".")[2])
            starred = re.compile(rf"from\s+[\w.]*\b{stem}\s+import\s+\*" if stem else r"(?!)")
            everything = not name.startswith("_") and any(map(starred.search, self.texts()))
            mentioned = re.compile(rf"\b{stem}\b" if stem else r"(?!)")
            looked_up = _BY_SPELLING.search(self.text) or any(
                mentioned.search(text) and _BY_SPELLING.search(text) for text in self.texts()
            )
            return not everything and not hasattr(builtins, name) and not looked_up
        if owner.bases or owner.keywords or any(not is_silent(item) for item in owner.decorator_list):
            return False
        based = re.compile(rf"class\s+\w+\s*\([^)]*\b{re.escape(owner.name)}\b")
        return not any(
            based.search(text) or _ANY_SPELLING.search(text) for text in (self.text, *self.texts())
        )

    def _import_stays(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
        if getattr(node, "module", "") == "__future__" or alias.name == "*":
            return False
        if (key := import_key(node, alias)) in {
            import_key(other, one)
            for other in self.before.body
            if isinstance(other, (ast.Import, ast.ImportFrom))
            for one in other.names
        }:
            return True
        name = key[3].partition(".")[0]
        hides = name in bound(self.before) and not _brings_a_part(node, alias, self.before)
        if hides or hasattr(builtins, name):
            return False
        run = self._run_by(node, alias)
        return self.imports_stay or all(
            module in self._loaded or module.partition(".")[0] in sys.stdlib_module_names for module in run
        )

    def _run_by(self, node: ast.AST, alias: ast.alias) -> Iterator[str]:
        """The modules that an import runs where nobody has done so yet."""
        if isinstance(node, ast.Import):
            yield from dotted_prefixes(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = imported_module(node, self.module, is_package=self.is_package)
            yield from dotted_prefixes(base) if base else ()
            whole = f"{base}.{alias.name}" if base else alias.name
            if self.is_module(whole):
                yield whole


def import_key(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> tuple[str, int, str, str]:
    """What an import of one name is, whatever shares its statement: module, level, name, what it binds."""
    if isinstance(node, ast.Import):
        return ("", -1, alias.name, alias.asname or alias.name)
    return (node.module or "", node.level, alias.name, alias.asname or alias.name)


def bound(scope: ScopeNode) -> set[str]:
    """All names that the statements of a scope bind, in its branches too."""
    names: set[str] = set()
    pending: list[ast.AST] = list(scope.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (FunctionNode, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        pending += ast.iter_child_nodes(node)
    return names


def is_inert(node: ast.stmt) -> bool:
    """Whether a definition or an assignment does nothing but bind its names."""
    if isinstance(node, FunctionNode):
        arguments = node.args
        defaults = [item for item in (*arguments.defaults, *arguments.kw_defaults) if item is not None]
        return all(map(is_silent, node.decorator_list)) and all(map(_is_plain, [*defaults, *_notes(node)]))
    if isinstance(node, ast.ClassDef):
        bases = all((base.id if isinstance(base, ast.Name) else "") in _PLAIN_BASES for base in node.bases)
        return (
            bases
            and not node.keywords
            and all(map(is_silent, node.decorator_list))
            and all(isinstance(item, (ast.Pass, ast.Expr)) or is_inert(item) for item in node.body)
            and all(not isinstance(item, ast.Expr) or _is_plain(item.value) for item in node.body)
        )
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        notes = [node.annotation] if isinstance(node, ast.AnnAssign) else []
        plain = [item for item in (node.value, *notes) if item is not None]
        return all(isinstance(item, ast.Name) for item in _targets(node)) and all(map(_is_plain, plain))
    return False


def is_silent(decorator: ast.expr) -> bool:
    """Whether a decorator is one of those that register their function nowhere."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    given = [*decorator.args, *decorator.keywords] if isinstance(decorator, ast.Call) else []
    return last_name(node) in _SILENT and all(map(_is_plain, given))


def _notes(node: FunctionNode) -> list[ast.expr]:
    arguments = node.args
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    notes = [item.annotation for item in every if item is not None]
    return [item for item in (*notes, node.returns) if item is not None]


def _is_plain(node: ast.AST) -> bool:
    """Whether an expression calls nothing but what makes a value."""
    if isinstance(node, ast.Lambda):
        return True
    if isinstance(node, ast.Call):
        function = node.func
        made = isinstance(function, ast.Name) and function.id in _MAKERS
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            made = (function.value.id, function.attr) in _MAKERS_OF_MODULES
        return made and all(map(_is_plain, [*node.args, *node.keywords]))
    return isinstance(node, _EXPRESSIONS) and all(map(_is_plain, ast.iter_child_nodes(node)))


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return list(node.targets) if isinstance(node, ast.Assign) else [node.target]


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_for_typing(node: ast.If) -> bool:
    """Whether a branch holds imports for type checkers only, and none for the rest."""
    imports = all(isinstance(item, (ast.Import, ast.ImportFrom)) for item in node.body)
    return last_name(node.test) == "TYPE_CHECKING" and imports and not node.orelse


def _brings_a_part(node: ast.Import | ast.ImportFrom, alias: ast.alias, before: ast.Module) -> bool:
    """Whether `import a.b` adds to an `import a` that is there: both bind the same package."""
    top = alias.name.partition(".")[0]
    return (
        isinstance(node, ast.Import)
        and alias.asname is None
        and any(
            isinstance(other, ast.Import)
            and any(one.asname is None and one.name.partition(".")[0] == top for one in other.names)
            for other in before.body
        )
    )
