"""What a fix changed in one module, definition by definition, and the module's text with parts of it undone.

A function that is there before and after is a unit of its own. Everything else (imports, constants, class
bodies, new and removed definitions) is undone in the text of the whole module, or left in where it does no
harm: a name that only the fix's own code uses is not missed once that code is reverted.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.definitions import FunctionNode, locate
from prtoggle.forge.judging import Undone, judge, loose_changes
from prtoggle.forge.order import differences
from prtoggle.forge.standing import ScopeNode, Standing, Surroundings
from prtoggle.forge.statements import (
    COMPOUND,
    first_line,
    header,
    header_lines,
    inner_functions,
    is_same,
    items_of,
    name_of,
    shown,
)
from prtoggle.source.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.forge.statements import Item


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


def compare(
    before: str, after: str, around: Surroundings | None = None, *, lenient: bool = False
) -> Comparison:
    """The units in which two texts of a module differ; comments and layout make no difference.

    Where undoing these would not give back what the module did before (an order that counts, say), the whole
    module is one unit.
    """
    old, new = ast.parse(before), ast.parse(after)
    standing = Standing(old, new, (before, after), around or Surroundings(), lenient)
    result = Comparison(new, standing)
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
    before, after = items_of(old, old_lines), items_of(new, new_lines)
    pairs: set[int] = set()
    for item in after:
        twin = next((other for other in before if is_same(item, other) and id(other) not in pairs), None)
        if twin is None:
            continue
        pairs |= {id(twin), id(item)}
        if item.dump != twin.dump:
            _compare_named(twin, item, old_lines, new_lines, prefix, result)
    loose = [item for item in after if id(item) not in pairs]
    for change in loose_changes([item for item in before if id(item) not in pairs], loose, after, before):
        found = judge(*change, prefix=prefix, scopes=(old, new), standing=result.standing)
        result.undone += found.undone
        result.stays += found.stays
        result.leaves += found.leaves


def _compare_named(
    old: Item,
    new: Item,
    old_lines: Sequence[str],
    new_lines: Sequence[str],
    prefix: str,
    result: Comparison,
) -> None:
    qualname = prefix + new.name.partition("=")[0]
    if isinstance(old.node, ast.ClassDef) and isinstance(new.node, ast.ClassDef):
        if header(old.node) != header(new.node):
            head_old, head_new = header_lines(old.node), header_lines(new.node)
            result.undone.append(
                Undone(*head_new, tuple(old_lines[slice(*head_old)]), f"the head of {qualname}")
            )
        _compare_scope(old.node, new.node, old_lines, new_lines, f"{qualname}.", result)
        return
    if isinstance(old.node, FunctionNode) and isinstance(new.node, FunctionNode):
        _add_function(old.node, new.node, old_lines, new_lines, prefix, result)
        return
    if isinstance(old.node, COMPOUND) and old.skeleton == new.skeleton:
        # The branches are the same; only functions inside them changed.
        inner = zip(inner_functions(old.node), inner_functions(new.node), strict=True)
        for one, other in inner:
            if ast.dump(one) != ast.dump(other):
                _add_function(one, other, old_lines, new_lines, prefix, result)
        return
    result.undone.append(Undone(new.first, new.last, old.text, qualname or prefix + shown(new.node)))


def _add_function(
    old: FunctionNode,
    new: FunctionNode,
    old_lines: Sequence[str],
    new_lines: Sequence[str],
    prefix: str,
    result: Comparison,
) -> None:
    decorators = [[ast.dump(item) for item in node.decorator_list] for node in (old, new)]
    name, _, accessor = name_of(new).partition("=")
    qualname = f"{prefix}{name}.{accessor}" if accessor else prefix + name
    number = next((at for at, found in enumerate(locate(result.tree, qualname)) if found.node is new), 0)
    result.functions.append(
        FunctionUnit(
            qualname,
            list(new_lines[first_line(new) - 1 : new.end_lineno]),
            list(old_lines[first_line(old) - 1 : old.end_lineno]),
            number,
            decorators[0] != decorators[1],
            first_line(new),
        )
    )
