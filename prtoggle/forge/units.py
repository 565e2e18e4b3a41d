"""What a fix changed in one module, definition by definition, and the module's text with parts of it undone.

A function that is there before and after is a unit of its own. Everything else (imports, constants, class
bodies, new and removed definitions) is undone in the text of the whole module, or left in where it does no
harm: a name that only the fix's own code uses is not missed once that code is reverted.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.definitions import FunctionNode, locate
from prtoggle.forge.order import differences
from prtoggle.forge.standing import ScopeNode, Standing, import_key
from prtoggle.source.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPOUND = (ast.If, ast.Try, ast.With, ast.For, ast.While)


class FunctionUnit(NamedTuple):
    """A function that the fix changed: its name in the module and its lines after and before the fix.

    `number` counts the definitions of that name, from 0. `at_load_only` says that decorators changed, `first`
    is its first line (from 1) after the fix.
    """

    qualname: str
    after: list[str]
    before: list[str]
    number: int
    at_load_only: bool
    first: int


class Package(NamedTuple):
    """What is known of a module's place: its name, what else is a module, and the sources beside it."""

    module: str = ""
    is_package: bool = False
    is_module: Callable[[str], bool] = lambda _: False
    texts: Callable[[], Sequence[str]] = tuple


class Undone(NamedTuple):
    """Lines [first, last) of the module after the fix, from 0, and the lines to put there instead."""

    first: int
    last: int
    lines: tuple[str, ...]
    what: str


@dataclass(slots=True)
class Comparison:
    """A module before and after a fix.

    `stays` names what the fix added and the revert leaves in, `leaves` what of that may have an effect.
    """

    tree: ast.Module
    standing: Standing
    functions: list[FunctionUnit] = field(default_factory=list)
    undone: list[Undone] = field(default_factory=list)
    stays: list[str] = field(default_factory=list)
    leaves: list[str] = field(default_factory=list)

    def loose_text(self, after: str, *, functions: bool = False) -> str:
        """The module after the fix with everything undone but, unless they are asked for, the functions."""
        lines = split_lines(after)
        undone = list(self.undone)
        if functions:
            undone += [
                Undone(unit.first - 1, unit.first - 1 + len(unit.after), tuple(unit.before), unit.qualname)
                for unit in self.functions
            ]
        for change in sorted(undone, reverse=True):
            lines[change.first : change.last] = change.lines
        return "".join(lines)


class _Item(NamedTuple):
    """A statement of a scope with the lines that belong to it, comments above included: [first, last)."""

    node: ast.stmt
    name: str
    first: int
    last: int
    text: tuple[str, ...]
    dump: str
    skeleton: str


def compare(
    before: str, after: str, package: Package | None = None, *, imports_stay: bool = False
) -> Comparison:
    """The units in which two texts of a module differ; comments and layout make no difference.

    Where undoing these would not give back what the module did before (an order that counts, say), the whole
    module is one unit.
    """
    known = Package() if package is None else package
    old, new = ast.parse(before), ast.parse(after)
    result = Comparison(new, Standing(old, new, after, *known, imports_stay=imports_stay))
    _compare_scope(old, new, split_lines(before), split_lines(after), "", result)
    try:
        reverted = ast.parse(result.loose_text(after, functions=True))
        left = differences(old, reverted, result.standing)
    except SyntaxError:
        left = ["what surrounds it"]
    if left:
        what = f"the whole module, for the order and number of {', '.join(dict.fromkeys(left))}"
        whole = Undone(0, len(split_lines(after)), tuple(split_lines(before)), what)
        return Comparison(new, result.standing, undone=[whole])
    return result


def _compare_scope(
    old: ScopeNode,
    new: ScopeNode,
    old_lines: Sequence[str],
    new_lines: Sequence[str],
    prefix: str,
    result: Comparison,
) -> None:
    before, after = _items(old, old_lines), _items(new, new_lines)
    pairs: set[int] = set()
    for item in after:
        twin = next((other for other in before if _same_name(item, other) and id(other) not in pairs), None)
        if twin is None:
            continue
        pairs |= {id(twin), id(item)}
        if item.dump != twin.dump:
            _compare_named(twin, item, old_lines, new_lines, prefix, result)
    loose = [item for item in after if id(item) not in pairs]
    for change in _loose_changes([item for item in before if id(item) not in pairs], loose, after, before):
        _judge(*change, prefix=prefix, scopes=(old, new), result=result)


def _compare_named(
    old: _Item,
    new: _Item,
    old_lines: Sequence[str],
    new_lines: Sequence[str],
    prefix: str,
    result: Comparison,
) -> None:
    qualname = prefix + new.name.partition("=")[0]
    if isinstance(old.node, ast.ClassDef) and isinstance(new.node, ast.ClassDef):
        if _header(old.node) != _header(new.node):
            head_old, head_new = _header_lines(old.node), _header_lines(new.node)
            result.undone.append(
                Undone(*head_new, tuple(old_lines[slice(*head_old)]), f"the head of {qualname}")
            )
        _compare_scope(old.node, new.node, old_lines, new_lines, f"{qualname}.", result)
        return
    if isinstance(old.node, FunctionNode) and isinstance(new.node, FunctionNode):
        _add_function(old.node, new.node, old_lines, new_lines, prefix, result)
        return
    if isinstance(old.node, _COMPOUND) and old.skeleton == new.skeleton:
        # The branches are the same; only functions inside them changed.
        inner = zip(_inner_functions(old.node), _inner_functions(new.node), strict=True)
        for one, other in inner:
            if ast.dump(one) != ast.dump(other):
                _add_function(one, other, old_lines, new_lines, prefix, result)
        return
    result.undone.append(Undone(new.first, new.last, old.text, qualname or prefix + _shown(new.node)))


def _add_function(
    old: FunctionNode,
    new: FunctionNode,
    old_lines: Sequence[str],
    new_lines: Sequence[str],
    prefix: str,
    result: Comparison,
) -> None:
    decorators = [[ast.dump(item) for item in node.decorator_list] for node in (old, new)]
    name, _, accessor = _name(new).partition("=")
    qualname = f"{prefix}{name}.{accessor}" if accessor else prefix + name
    number = next((at for at, found in enumerate(locate(result.tree, qualname)) if found.node is new), 0)
    result.functions.append(
        FunctionUnit(
            qualname,
            list(new_lines[_first(new) - 1 : new.end_lineno]),
            list(old_lines[_first(old) - 1 : old.end_lineno]),
            number,
            decorators[0] != decorators[1],
            _first(new),
        )
    )


def _inner_functions(node: ast.stmt) -> list[FunctionNode]:
    """The functions in the branches of a compound statement, not those inside of other functions."""
    found: list[FunctionNode] = []
    pending: list[ast.AST] = [node]
    while pending:
        inner = pending.pop(0)
        if isinstance(inner, FunctionNode):
            found.append(inner)
        else:
            pending = [*ast.iter_child_nodes(inner), *pending]
    return found


class _Emptied(ast.NodeTransformer):
    """Takes the bodies out of functions, and keeps their names."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return ast.Name(node.name)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return ast.Name(node.name)


def _items(scope: ast.Module | ast.ClassDef, lines: Sequence[str]) -> list[_Item]:
    items = []
    end = scope.body[0].lineno - 1 if scope.body else 0
    for node in scope.body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            # A docstring does nothing; nobody misses the old one.
            end = node.end_lineno or node.lineno
            continue
        first = _first(node) - 1
        # Comments directly above belong to a statement, blank lines between do not.
        while first > end and lines[first - 1].lstrip().startswith("#"):
            first -= 1
        last = node.end_lineno or node.lineno
        items.append(
            _Item(node, _name(node), first, last, tuple(lines[first:last]), ast.dump(node), _skeleton(node))
        )
        end = last
    return items


def _skeleton(node: ast.stmt) -> str:
    """What is left of a compound statement without the functions in it; "" for any other."""
    if not isinstance(node, _COMPOUND) or not _inner_functions(node):
        return ""
    return ast.dump(_Emptied().visit(copy.deepcopy(node)))


def _name(node: ast.stmt) -> str:
    """The name by which a definition or a plain assignment is known again; "" for other statements."""
    if isinstance(node, _DEFINITIONS):
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter"):
                return f"{node.name}={'fset' if decorator.attr == 'setter' else 'fdel'}"
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


def _same_name(one: _Item, other: _Item) -> bool:
    if not one.name:
        return one.dump == other.dump or (one.skeleton != "" and one.skeleton == other.skeleton)
    return one.name == other.name and _sort(one.node) == _sort(other.node)


def _sort(node: ast.stmt) -> str:
    if isinstance(node, ast.ClassDef):
        return "class"
    return "function" if isinstance(node, FunctionNode) else "statement"


def _loose_changes(
    before: list[_Item], after: list[_Item], all_after: list[_Item], all_before: list[_Item]
) -> Iterator[tuple[list[_Item], list[_Item], int]]:
    """Statements that went, statements that came in their place, and the line where they belong."""
    blocks = SequenceMatcher(
        None, [_likeness(item) for item in before], [_likeness(item) for item in after], autojunk=False
    )
    for kind, first, last, begin, end in blocks.get_opcodes():
        if kind == "equal":
            for old, new in zip(before[first:last], after[begin:end], strict=True):
                if old.dump != new.dump:
                    yield [old], [new], new.first
            continue
        gone, come = before[first:last], after[begin:end]
        at = come[0].first if come else _place_of(gone[0], all_before, all_after)
        yield gone, come, at


def _likeness(item: _Item) -> str:
    """What pairs two versions of a statement that has no name: an import with one of the same module."""
    if isinstance(item.node, ast.ImportFrom):
        return f"from {'.' * item.node.level}{item.node.module}"
    return item.dump


def _place_of(item: _Item, before: list[_Item], after: list[_Item]) -> int:
    """The line of the new text at which a removed statement stood: after the neighbour that is left."""
    position = next(index for index, other in enumerate(before) if other is item)
    for neighbour in reversed(before[:position]):
        twin = next((other for other in after if _same_name(neighbour, other)), None)
        if twin is not None:
            return twin.last
    return after[0].first if after else 0


def _judge(
    gone: list[_Item],
    come: list[_Item],
    at: int,
    *,
    prefix: str,
    scopes: tuple[ScopeNode, ScopeNode],
    result: Comparison,
) -> None:
    """What to do about loose statements: leave new ones in where that is harmless, undo the rest."""
    old_names = {name for item in gone for name in _import_names(item)}
    kept = bool(gone) and all(_imports(item) for item in gone) and _bound(gone) <= _bound(come)
    harmful = [
        item
        for item in come
        if not result.standing.may_stay(item.node, *scopes)
        # An import that brings nothing but names which the old ones bring stands in their place.
        or (not kept and _imports(item) and set(_import_names(item)) <= old_names)
    ]
    for item in (item for item in come if item not in harmful):
        proved = result.standing.without_leave().may_stay(item.node, *scopes)
        (result.stays if proved else result.leaves).append(prefix + _named(item))
    result.undone += [Undone(item.first, item.last, (), prefix + _named(item)) for item in harmful]
    if not gone or (kept and not harmful):
        return
    text: list[str] = []
    for item in gone:
        # A definition that is put back stands apart from its neighbours, as it did.
        text += ["\n", *item.text] if isinstance(item.node, _DEFINITIONS) else item.text
    names = ", ".join(prefix + _named(item) for item in gone)
    if harmful:
        last = result.undone.pop()
        result.undone.append(Undone(last.first, last.last, tuple(text), names))
        return
    # After what stays: where both bind one name, the old statement has to win.
    place = come[-1].last if come else at
    result.undone.append(Undone(place, place, tuple(text), names))


def _named(item: _Item) -> str:
    return item.name.partition("=")[0] or _shown(item.node)


def _shown(node: ast.stmt) -> str:
    return ast.unparse(node).splitlines()[0][:60]


def _imports(item: _Item) -> bool:
    return isinstance(item.node, (ast.Import, ast.ImportFrom))


def _import_names(item: _Item) -> list[str]:
    """The names that an import binds."""
    if not isinstance(item.node, (ast.Import, ast.ImportFrom)):
        return []
    return [(alias.asname or alias.name).partition(".")[0] for alias in item.node.names]


def _bound(items: Sequence[_Item]) -> set[tuple[str, int, str, str]]:
    return {
        import_key(item.node, alias)
        for item in items
        if isinstance(item.node, (ast.Import, ast.ImportFrom))
        for alias in item.node.names
    }


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _header(node: ast.ClassDef) -> str:
    bare = copy.copy(node)
    bare.body = []
    return ast.dump(bare)


def _header_lines(node: ast.ClassDef) -> tuple[int, int]:
    """The lines [first, last) of a class before its body, from 0."""
    return _first(node) - 1, max(node.lineno, _first(node.body[0]) - 1)
