"""Where in a syntax tree a probe for an edit belongs: at which statement, in which function."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from prtoggle.definitions import FunctionNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prtoggle.installers.base import Spot


class Block(Protocol):
    """A place that a probe's node can be put into and taken out of, any number of times."""

    def insert(self, node: ast.expr) -> None:
        """Put the node there; the tree must not hold it yet."""

    def remove(self, node: ast.expr) -> None:
        """Take the node out; the tree is as it was before `insert`."""


@dataclass(slots=True, eq=False)
class StatementBlock:
    """Right before or right after one statement of a block; the probe has that statement's line."""

    block: list[ast.stmt]
    anchor: ast.stmt
    after: bool = False

    def insert(self, node: ast.expr) -> None:
        """Put the node there, as a statement."""
        statement = ast.Expr(node)
        for part in ast.walk(statement):
            _at_line(part, self.anchor)
        position = _index(self.block, self.anchor)
        self.block.insert(position + 1 if self.after else position, statement)

    def remove(self, node: ast.expr) -> None:
        """Take the node's statement out."""
        (statement,) = [item for item in self.block if isinstance(item, ast.Expr) and item.value is node]
        del self.block[_index(self.block, statement)]


@dataclass(slots=True, eq=False)
class LambdaBlock:
    """The expression of a lambda: evaluated after the probe, as the second of a pair."""

    node: ast.Lambda

    def insert(self, node: ast.expr) -> None:
        """Put the node before the expression."""
        body = self.node.body
        pair = ast.Tuple([node, body], ast.Load())
        self.node.body = ast.Subscript(pair, ast.Constant(1), ast.Load())
        for part in (self.node.body, pair, *ast.walk(self.node.body.slice), *ast.walk(node)):
            ast.copy_location(part, body)

    def remove(self, node: ast.expr) -> None:
        """Leave the expression alone again; other probes of the same lambda stay."""
        outer: ast.Lambda | ast.Tuple = self.node
        while True:
            pair = outer.body if isinstance(outer, ast.Lambda) else outer.elts[1]
            assert isinstance(pair, ast.Subscript), ast.dump(pair)
            assert isinstance(pair.value, ast.Tuple), ast.dump(pair)
            first, rest = pair.value.elts
            if first is node:
                break
            outer = pair.value
        if isinstance(outer, ast.Lambda):
            outer.body = rest
        else:
            outer.elts[1] = rest


@dataclass(frozen=True, slots=True)
class Location:
    """Where an edit is reached, and where the function that it is in is called (None: in no function)."""

    reached: Block
    called: Block | None
    function: FunctionNode | ast.Lambda | None
    # Whether no instruction is there: behind the last statement of a block, where a deleted one stood, or at
    # a docstring.
    is_block_end: bool = False
    # How many lines the statement has that is reached.
    height: int = 1


def locate_spot(tree: ast.AST, spot: Spot) -> Location | None:
    """The location of a spot; None when no statement stands at its lines."""
    statements = list(_statements(tree, ()))
    found = _of_deletion(statements, spot) if spot.indent is not None else _of_text(statements, spot)
    if found is None:
        return None
    found = _inside_target(found, statements, spot)
    function = _function(found.scopes)
    if function is None:
        lambdas = _lambdas(found.statement, spot)
        if lambdas:
            return Location(LambdaBlock(lambdas[0]), LambdaBlock(lambdas[0]), lambdas[0])
        return Location(_before(found), None, None, found.is_silent, found.last - found.first + 1)
    height = found.last - found.first + 1
    return Location(_before(found), start_of(function), function, found.is_silent, height)


def start_of(function: FunctionNode) -> StatementBlock:
    """The beginning of the body, behind a docstring."""
    body = function.body
    first = body[0]
    if _is_text(first):
        return StatementBlock(body, body[1]) if len(body) > 1 else StatementBlock(body, first, after=True)
    return StatementBlock(body, first)


@dataclass(frozen=True, slots=True, eq=False)
class _Statement:
    """A statement, the block that it is in, the scopes around it, and whether the probe comes behind it."""

    statement: ast.stmt
    block: list[ast.stmt]
    scopes: tuple[ast.AST, ...]
    after: bool = False

    @property
    def first(self) -> int:
        return _first_line(self.statement)

    @property
    def last(self) -> int:
        return self.statement.end_lineno or self.statement.lineno

    @property
    def is_silent(self) -> bool:
        return self.after or _is_text(self.statement) or _is_left_out(self.statement)


def _before(found: _Statement) -> StatementBlock:
    # A docstring is one as the first statement only.
    return StatementBlock(found.block, found.statement, found.after or _is_text(found.statement))


def _is_left_out(statement: ast.stmt) -> bool:
    """Whether the compiler makes nothing of it: an assertion under -O, whatever is edited in it."""
    return isinstance(statement, ast.Assert) and sys.flags.optimize > 0


def _is_text(statement: ast.stmt) -> bool:
    """Whether it is a string by itself, such as a docstring."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _statements(node: ast.AST, scopes: tuple[ast.AST, ...]) -> Iterator[_Statement]:
    """All statements below a node, outer before inner, in the order of the text."""
    inner = (*scopes, node) if isinstance(node, (FunctionNode, ast.ClassDef)) else scopes
    for _, value in ast.iter_fields(node):
        if not isinstance(value, list):
            continue
        for item in value:
            if isinstance(item, ast.stmt):
                yield _Statement(item, value, inner)
            if isinstance(item, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                yield from _statements(item, inner)


def _of_text(statements: list[_Statement], spot: Spot) -> _Statement | None:
    """The first statement of the edit's text, or the one that the edit is in the middle of."""
    first, last = spot.lines[0], spot.lines[-1]
    starting = [found for found in statements if first <= found.first <= last]
    if starting and all(_is_left_out(found.statement) for found in starting):
        return None
    starting = [found for found in starting if not _is_left_out(found.statement)]
    if starting and starting[0].first == first:
        return starting[0]
    around = [found for found in statements if found.first < first <= found.last]
    if not around:
        return starting[0] if starting else None
    innermost = around[-1]
    clause = _clause_after(innermost.statement, first)
    if clause is not None:
        # The line is `else:`, `except X:` or `case x:`; what runs because of it is the clause's first
        # statement.
        return next(found for found in statements if found.statement is clause)
    return innermost


def _inside_target(found: _Statement, statements: list[_Statement], spot: Spot) -> _Statement:
    """For an edit of the target's own `def` line: the first edited statement of its body, else its first."""
    function = found.statement
    if not isinstance(function, FunctionNode) or function.name != spot.target.rpartition(".")[2]:
        return found
    body = start_of(function).anchor
    edited = [item for item in function.body if spot.lines[0] < _first_line(item) <= spot.lines[-1]]
    chosen = edited[0] if edited else body
    return next(item for item in statements if item.statement is chosen)


def _clause_after(statement: ast.stmt, line: int) -> ast.stmt | None:
    """The first statement of the clause whose header the line is; None for the statement's own lines."""
    firsts = sorted(
        (
            (item.body[0] if isinstance(item, (ast.ExceptHandler, ast.match_case)) else block[0])
            for _, block in ast.iter_fields(statement)
            if isinstance(block, list)
            for item in block
            if isinstance(item, (ast.stmt, ast.ExceptHandler, ast.match_case))
        ),
        key=_first_line,
    )
    # Lines before the first clause's body are the statement's own header, as a rule; `case` has none.
    if not firsts or (line < _first_line(firsts[0]) and not isinstance(statement, ast.Match)):
        return None
    return next((first for first in firsts if _first_line(first) > line), None)


def _of_deletion(statements: list[_Statement], spot: Spot) -> _Statement | None:
    """The statement that stands where text was taken out, or the last one before the end of that block."""
    line = spot.lines[0]
    following = [found for found in statements if found.first >= line]
    # Where the next line is an `else:` or belongs to an outer block, what went was the last of its block.
    if following and following[0].first == line and _indent(following[0].statement) == spot.indent:
        return following[0]
    before = [found for found in statements if found.last < line and _indent(found.statement) == spot.indent]
    if before:
        last = before[-1]
        return _Statement(last.statement, last.block, last.scopes, after=True)
    return following[0] if following else None


def _function(scopes: tuple[ast.AST, ...]) -> FunctionNode | None:
    """The outermost function; one that holds nothing but another definition only stands for its scope."""
    for scope in scopes:
        if isinstance(scope, FunctionNode) and not (
            len(scope.body) == 1 and isinstance(scope.body[0], (FunctionNode, ast.ClassDef))
        ):
            return scope
    return None


def _lambdas(statement: ast.stmt, spot: Spot) -> list[ast.Lambda]:
    if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return []
    return [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Lambda)
        and node.lineno <= spot.lines[-1]
        and (node.end_lineno or node.lineno) >= spot.lines[0]
    ]


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(decorator.lineno for decorator in _decorators(statement))])


def _decorators(statement: ast.stmt) -> list[ast.expr]:
    return statement.decorator_list if isinstance(statement, (FunctionNode, ast.ClassDef)) else []


def _indent(statement: ast.stmt) -> int:
    # A decorator's own column is one behind its @.
    columns = [decorator.col_offset - 1 for decorator in _decorators(statement)]
    return columns[0] if columns else statement.col_offset


def _at_line(node: ast.AST, anchor: ast.stmt) -> None:
    ast.copy_location(node, anchor)
    # A definition's own end would make the probe span it.
    if isinstance(node, (ast.stmt, ast.expr)):
        node.end_lineno, node.end_col_offset = anchor.lineno, anchor.col_offset


def _index(block: list[ast.stmt], statement: ast.stmt) -> int:
    return next(position for position, item in enumerate(block) if item is statement)
