"""Puts a preamble at the beginning of a body: after the docstring, on lines of its own."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.errors import UnsupportedTargetError
from prtoggle.source.indentation import fit_block, leading, style_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.definitions import TargetNode
    from prtoggle.source.source_text import ModuleSource


class Insertion(NamedTuple):
    """Text that goes in at an offset of the source."""

    offset: int
    text: str


def place_preamble(source: ModuleSource, target: TargetNode, preamble: str) -> list[Insertion]:
    """Where and how `preamble` becomes the first statements of the target's body, after a docstring.

    In a module it also goes after the `from __future__` imports. A body that stands on the line of its header
    is moved to lines of its own. Raises UnsupportedTargetError for a target without a body.
    """
    node = target.node
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        raise UnsupportedTargetError(
            f"{target.qualname} is assigned at line {node.lineno}: it has no body for a preamble",
            target=target.qualname,
        )
    skipped = _leading_statements(node)
    if isinstance(node, ast.Module):
        return [_own_lines(source, node.body, skipped, preamble, "")]
    lines, first = source.lines, node.body[0]
    if lines[first.lineno - 1].encode()[: first.col_offset].strip() and not _decorated(first):
        return _split_header(source, node, skipped, preamble)
    return [_own_lines(source, node.body, skipped, preamble, leading(lines[first_line_of(first) - 1]))]


def _leading_statements(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many statements the body begins with that have to stay first: docstring, future imports."""
    count = 0 if ast.get_docstring(node, clean=False) is None else 1
    for statement in node.body[count:]:
        if not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        count += 1
    return count


def _own_lines(
    source: ModuleSource, body: Sequence[ast.stmt], skipped: int, preamble: str, indent: str
) -> Insertion:
    lines = source.lines
    text = fit_block(preamble, style_of(indent, lines), source.newline)
    if skipped < len(body):
        line = first_line_of(body[skipped])
        column = _column(source, line, body[skipped].col_offset)
        if lines[line - 1][:column].strip() and line == body[skipped].lineno:
            # It stands behind the docstring, after a semicolon.
            return Insertion(source.starts[line - 1] + column, source.newline + text + indent)
        return Insertion(source.starts[line - 1], text)
    if not body:
        return Insertion(len(source.text), text)
    last = body[-1].end_lineno or body[-1].lineno
    if last == len(lines) and not lines[-1].endswith(("\n", "\r")):
        text = source.newline + text.removesuffix(source.newline)
    return Insertion(source.starts[last], text)


def _split_header(
    source: ModuleSource,
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
    skipped: int,
    preamble: str,
) -> list[Insertion]:
    """Give `def f(): return x` a body on lines of its own that begins with the preamble."""
    header = leading(source.lines[node.lineno - 1])
    style = style_of(header, source.lines)
    indent = header + style.char * style.unit
    text = fit_block(preamble, style._replace(base=indent), source.newline)
    first = node.body[0]
    begin = source.starts[first.lineno - 1] + _column(source, first.lineno, first.col_offset)
    insertions = [Insertion(begin, source.newline + indent)] if skipped else []
    if skipped == len(node.body):
        after = node.body[-1].end_lineno or node.body[-1].lineno
        column = _column(source, after, node.body[-1].end_col_offset or 0)
        end = source.starts[after - 1] + column
        return [*insertions, Insertion(end, source.newline + text.removesuffix(source.newline))]
    chosen = node.body[skipped]
    offset = source.starts[chosen.lineno - 1] + _column(source, chosen.lineno, chosen.col_offset)
    return [*insertions, Insertion(offset, source.newline + text + indent)]


def _column(source: ModuleSource, line: int, byte_column: int) -> int:
    return len(source.lines[line - 1].encode()[:byte_column].decode())


def _decorated(node: ast.stmt) -> bool:
    return bool(getattr(node, "decorator_list", ()))


def first_line_of(node: ast.stmt) -> int:
    """The statement's first line, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
