"""A `value:` patch as an edit of the assignment: what it means when the module is not loaded yet."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from prtoggle.definitions import locate
from prtoggle.errors import AlreadyRevertedError, UnsupportedTargetError
from prtoggle.missing import missing_target
from prtoggle.source.splices import Rank, Splice, merge

if TYPE_CHECKING:
    from prtoggle.source.source_text import ModuleSource
    from prtoggle.spec import Patch
    from prtoggle.target import ResolvedTarget


def plan_value(
    source: ModuleSource, tree: ast.Module, target: ResolvedTarget, patch: Patch, toggle_id: str
) -> tuple[Splice, ...]:
    """The splices that make every assignment of the target assign `patch.value`.

    Raises TargetError when nothing assigns it, UnsupportedTargetError when what binds the name is no
    assignment that can be edited, AlreadyRevertedError when all of them assign that value already. Changes
    nothing.
    """
    nodes = locate(tree, target.qualname) if target.qualname else []
    if not nodes:
        raise missing_target(tree, target)
    literal = as_literal(patch.value, target.text)
    statements: list[ast.Assign | ast.AnnAssign] = []
    for node in nodes:
        if not isinstance(node.node, (ast.Assign, ast.AnnAssign)) or node.node.value is None:
            raise _unsupported(
                target, source, node.node, "is not an assignment of a value; use edits: or wrap:"
            )
        statements.append(node.node)
    name = target.qualname.rpartition(".")[2]
    scope = nodes[0].scopes[-1] if nodes[0].scopes else tree
    for inner in ast.walk(scope):
        if (
            isinstance(inner, ast.AugAssign)
            and isinstance(inner.target, ast.Name)
            and inner.target.id == name
        ):
            raise _unsupported(target, source, inner, "goes on changing it; use edits: on these lines")
    if all(_assigns(statement, patch.value) for statement in statements):
        raise AlreadyRevertedError(
            f"{target.text} is {patch.value!r} already at line {statements[0].lineno} of {source.path}: "
            "the toggle would change nothing. Either the fix is not in this version, or the spec names "
            "the fixed value.",
            target=target.text,
        )
    return merge(
        [_splice(source, statement, name, literal, toggle_id, target.text) for statement in statements]
    )


def _splice(
    source: ModuleSource,
    statement: ast.Assign | ast.AnnAssign,
    name: str,
    literal: str,
    toggle_id: str,
    target: str,
) -> Splice:
    """Another expression to assign; behind a statement that binds more names, an assignment of its own."""
    assert statement.value is not None, ast.dump(statement)
    start = _offset(source, statement.lineno, statement.col_offset)
    end = _offset(source, statement.end_lineno, statement.end_col_offset)
    if isinstance(statement, ast.AnnAssign) or (
        len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)
    ):
        value = statement.value
        first = _offset(source, value.lineno, value.col_offset)
        last = _offset(source, value.end_lineno, value.end_col_offset)
        return Splice(first, last, literal, toggle_id, target, 0, Rank.REPLACEMENT, (first, last))
    text = f"; {name} = {literal}"
    return Splice(end, end, text, toggle_id, target, 0, Rank.APPEND, (start, end))


def _offset(source: ModuleSource, line: int | None, column: int | None) -> int:
    """The place in the text; ast counts columns in UTF-8 bytes."""
    assert line is not None, "ast.parse gives every node its end"
    assert column is not None, "ast.parse gives every node its end"
    text = source.lines[line - 1].encode()[:column].decode()
    return source.starts[line - 1] + len(text)


def _assigns(statement: ast.Assign | ast.AnnAssign, value: object) -> bool:
    assert statement.value is not None, ast.dump(statement)
    if isinstance(statement, ast.Assign) and not all(
        isinstance(target, ast.Name) for target in statement.targets
    ):
        return False
    try:
        return is_same(literal_value(statement.value), value)
    except ValueError:
        return False


def given_to(statement: ast.stmt, name: str) -> ast.expr | None:
    """The expression whose value an assignment gives a name; None where it does not stand there."""
    if isinstance(statement, ast.AnnAssign):
        return statement.value
    if not isinstance(statement, ast.Assign):
        return None
    found: list[ast.expr] = []
    for target in statement.targets:
        elements = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        values = statement.value.elts if isinstance(statement.value, (ast.Tuple, ast.List)) else []
        plain = len(elements) == len(values) and not any(
            isinstance(v, ast.Starred) for v in (*elements, *values)
        )
        for element, value in zip(elements, values, strict=True) if plain else ():
            if isinstance(element, ast.Name) and element.id == name:
                found.append(value)
        if isinstance(target, ast.Name) and target.id == name:
            found.append(statement.value)
    return found[-1] if found else None


class _Nan(ast.NodeTransformer):
    """The one value of `as_literal` that is no literal to Python."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        sides = [side.value if isinstance(side, ast.Constant) else None for side in (node.left, node.right)]
        return ast.Constant(math.nan) if isinstance(node.op, ast.Sub) and sides == [math.inf] * 2 else node


def literal_value(expression: ast.expr) -> object:
    """What a literal gives, and what `as_literal` wrote. Raises ValueError for every other expression."""
    copied = ast.parse(ast.unparse(expression), mode="eval").body
    try:
        return ast.literal_eval(_Nan().visit(copied))
    except (TypeError, MemoryError, RecursionError) as error:
        raise ValueError(error) from error


def is_same(one: object, other: object) -> bool:
    """Whether two values are alike: of one type and equal, or not a number both."""
    return type(one) is type(other) and (one == other or repr(one) == repr(other))


def as_literal(value: object, target: str) -> str:
    """An expression for the value, in ASCII, that holds in any module: no name is looked up.

    Raises UnsupportedTargetError for what YAML can give and Python has no literal for, such as a date.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "(1e999 - 1e999)" if math.isnan(value) else ("1e999" if value > 0 else "(-1e999)")
    if isinstance(value, list):
        return f"[{', '.join(as_literal(item, target) for item in value)}]"
    if isinstance(value, dict):
        pairs = [f"{as_literal(key, target)}: {as_literal(item, target)}" for key, item in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if value is None or type(value) in (bool, int, float, str, bytes):
        return ascii(value)
    raise UnsupportedTargetError(
        f"{target}: value: is a {type(value).__name__}, and there is no Python literal for one. Quote it "
        "to give a string, or use edits: on the assignment.",
        target=target,
    )


def _unsupported(
    target: ResolvedTarget, source: ModuleSource, node: ast.AST, why: str
) -> UnsupportedTargetError:
    line = getattr(node, "lineno", 0)
    return UnsupportedTargetError(f"{target.text}: line {line} of {source.path} {why}.", target=target.text)
