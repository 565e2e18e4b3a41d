"""Whether a statement does nothing but bind its names: no call, no operator, no look-up that may do more."""

from __future__ import annotations

import ast
import builtins
import sys
from typing import TYPE_CHECKING, Final

from prtoggle.definitions import FunctionNode, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

# Decorators that register their function nowhere: a function that has only these may stay unused.
_SILENT: Final = (
    {"property", "cached_property", "setter", "getter", "deleter", "staticmethod", "classmethod"}
    | {"cache", "lru_cache", "wraps", "contextmanager", "asynccontextmanager", "total_ordering"}
    | {"overload", "override", "final", "abstractmethod", "dataclass"}
    | {"no_grad", "inference_mode", "jit", "njit"}
)
_OF_PROPERTIES: Final = {"setter", "getter", "deleter"}
# Calls that make a value of plain ones and do nothing else that anybody would see.
_MAKERS: Final = {"frozenset", "set", "tuple", "list", "dict", "object", "range"}
_MAKERS_OF_MODULES: Final = {("re", "compile"), ("typing", "TypeVar"), ("typing", "NewType")}
_IMPORTED_MAKERS: Final = {"TypeVar", "NewType", "ParamSpec"}
#: What leaves a trace that hardly anybody looks for; later code may have it where it needs it.
_LOGGERS: Final = ("logging", "getLogger")
_PLAIN_BASES: Final = {
    *("object", "ABC", "Generic", "Protocol", "NamedTuple", "TypedDict", "Enum", "IntEnum"),
    *(
        name
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    ),
}
_TYPES: Final = {"list", "dict", "tuple", "set", "frozenset", "type"}
_OPERATIONS: Final = (
    *(ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.JoinedStr, ast.FormattedValue),
)
_MAX_DEPTH: Final = 20


class Inert:
    """What is known of a module's names, to tell what its statements do.

    `lenient` lets loggers be made.
    """

    def __init__(self, tree: ast.Module, *, lenient: bool = False) -> None:
        self._lenient = lenient
        self._modules: set[str] = set()
        self._notes_are_texts = False
        self._imports: dict[str, str] = {}
        self._values: dict[str, list[ast.expr | None]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                bound = {(alias.asname or alias.name).partition(".")[0]: alias.name for alias in node.names}
                self._imports |= bound
                self._modules |= set(bound)
            elif isinstance(node, ast.ImportFrom):
                self._notes_are_texts |= node.module == "__future__" and any(
                    alias.name == "annotations" for alias in node.names
                )
                whole = f"{'.' * node.level}{node.module or ''}"
                self._imports |= {alias.asname or alias.name: f"{whole}.{alias.name}" for alias in node.names}
        for node in tree.body:
            for name, value in _assigned(node):
                self._values.setdefault(name, []).append(value)
        self._classes = {
            node.name: node for node in tree.body if isinstance(node, ast.ClassDef) and not node.keywords
        }

    def is_inert(self, node: ast.stmt) -> bool:
        """Whether a definition or an assignment does nothing but bind its names."""
        if isinstance(node, FunctionNode):
            silent = all(map(self.is_silent, node.decorator_list))
            return silent and self._are_plain(_defaults(node.args)) and all(map(self._is_note, _notes(node)))
        if isinstance(node, ast.ClassDef):
            return (
                all(self._is_plain_base(base) for base in node.bases)
                and not node.keywords
                and all(map(self.is_silent, node.decorator_list))
                and all(map(self._is_inert_in_class, node.body))
            )
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            if isinstance(node, ast.AnnAssign) and not self._is_note(node.annotation):
                return False
            named = all(isinstance(item, ast.Name) for item in targets_of(node))
            return named and (node.value is None or self._is_plain(node.value))
        return False

    def is_silent(self, decorator: ast.expr) -> bool:
        """Whether a decorator is one of those that register their function nowhere."""
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        given = (
            [*decorator.args, *(item.value for item in decorator.keywords)]
            if isinstance(decorator, ast.Call)
            else []
        )
        name = last_name(node)
        if isinstance(node, ast.Attribute):
            known = name in _OF_PROPERTIES or _root(node) in self._imports
        else:
            # A function of the module's own may be called so.
            known = name in self._imports or (hasattr(builtins, name) and name not in self._values)
        return name in _SILENT and known and self._are_plain(given)

    def _is_inert_in_class(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.Expr):
            return isinstance(node.value, ast.Constant)
        return isinstance(node, ast.Pass) or self.is_inert(node)

    def _is_plain_base(self, base: ast.expr) -> bool:
        name = base.id if isinstance(base, ast.Name) else ""
        return name in _PLAIN_BASES and name not in self._values and name not in self._classes

    def _are_plain(self, nodes: list[ast.expr]) -> bool:
        return all(map(self._is_plain, nodes))

    def _is_plain(self, node: ast.AST) -> bool:
        """Whether an expression runs no code but what makes a value of known ones."""
        match node:
            case ast.Lambda():
                plain = self._are_plain(_defaults(node.args))
            case ast.Call():
                given = [*node.args, *(item.value for item in node.keywords)]
                plain = self._is_maker(node.func) and all(map(self._is_literal, given))
            case ast.Attribute():
                plain = self._has_plain_attributes(node)
            case ast.Subscript():
                plain = self._is_type(node.value) and self._is_note(node.slice)
            case ast.Starred():
                plain = self._is_literal(node.value)
            case ast.Tuple() | ast.List() | ast.Set():
                plain = self._are_plain(node.elts)
            case ast.Dict():
                plain = all(key is not None and self._is_plain(key) for key in node.keys)
                plain = plain and self._are_plain(node.values)
            case _:
                plain = isinstance(node, ast.Name) or self._is_number(node)
        return plain

    def _is_maker(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Name):
            builtin = function.id in _MAKERS and function.id not in self._values
            return builtin or (function.id in _IMPORTED_MAKERS and function.id in self._imports)
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            pair = (self._imports.get(function.value.id, ""), function.attr)
            return pair in _MAKERS_OF_MODULES or (self._lenient and pair == _LOGGERS)
        return False

    def _is_literal(self, node: ast.AST) -> bool:
        """Whether a value is written down, or the name of one that is: going through it does nothing."""
        if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Call)):
            return self._is_plain(node)
        return self._is_number(node) or (isinstance(node, ast.Name) and node.id == "__name__")

    def _is_number(self, node: ast.AST, depth: int = 0) -> bool:
        """Whether an expression is a number, a text or a truth value, whose operators do nothing else."""
        if isinstance(node, ast.Constant) or depth > _MAX_DEPTH:
            return isinstance(node, ast.Constant)
        if isinstance(node, ast.Name):
            values = self._values.get(node.id, [])
            known = bool(values) and node.id not in self._imports
            return known and all(value is not None and self._is_number(value, depth + 1) for value in values)
        if isinstance(node, ast.Attribute):
            return self._imports.get(_root(node), "") in ("math", "sys") and isinstance(node.value, ast.Name)
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        return isinstance(node, _OPERATIONS) and all(self._is_number(part, depth + 1) for part in parts)

    def _has_plain_attributes(self, node: ast.Attribute) -> bool:
        """Whether an attribute is one of an imported module, or of a plain class of this one."""
        root = _root(node)
        if root in self._imports:
            # What is imported from a module may be an object, whose attributes may do anything.
            return root in self._modules or root[:1].isupper()
        owner = self._classes.get(root)
        return owner is not None and isinstance(node.value, ast.Name) and not owner.decorator_list

    def _is_type(self, node: ast.expr) -> bool:
        """Whether what is put before square brackets is a type: a look-up in it makes another type."""
        if isinstance(node, ast.Name) and node.id in _TYPES:
            return node.id not in self._values
        home = self._imports.get(_root(node), "").partition(".")[0]
        return home in ("typing", "typing_extensions", "collections", "types")

    def _is_note(self, node: ast.AST) -> bool:
        """Whether an annotation is made of names, attributes, brackets and bars, or is never evaluated."""
        if self._notes_are_texts or (isinstance(node, ast.Attribute) and _root(node) in self._imports):
            return True
        if isinstance(node, ast.Subscript):
            known = _root(node.value) in {*self._imports, *self._classes, *_TYPES}
            return known and self._is_note(node.slice)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._is_note(node.left) and self._is_note(node.right)
        if isinstance(node, (ast.Tuple, ast.List)):
            return all(map(self._is_note, node.elts))
        if isinstance(node, ast.Starred):
            return self._is_note(node.value)
        return self._is_plain(node)


def imports_the_library(node: ast.Import | ast.ImportFrom) -> bool:
    """Whether an import is of the standard library only."""
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    library = all(name.partition(".")[0] in sys.stdlib_module_names for name in names)
    return library and not getattr(node, "level", 0)


def targets_of(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    """What an assignment gives a value."""
    return list(node.targets) if isinstance(node, ast.Assign) else [node.target]


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a statement binds, with their value where that is written down."""
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        for target in targets_of(node):
            if isinstance(target, ast.Name):
                yield target.id, node.value
            else:
                yield from ((part.id, None) for part in ast.walk(target) if isinstance(part, ast.Name))
        return
    if isinstance(node, (FunctionNode, ast.ClassDef)):
        yield node.name, None
    if not isinstance(node, FunctionNode):
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
                yield part.id, None


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _defaults(arguments: ast.arguments) -> list[ast.expr]:
    return [item for item in (*arguments.defaults, *arguments.kw_defaults) if item is not None]


def _notes(node: FunctionNode) -> list[ast.expr]:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    notes = [item.annotation for item in every if item is not None]
    return [item for item in (*notes, node.returns) if item is not None]
