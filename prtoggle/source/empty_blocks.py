"""Blocks that lose all their statements to deletions, and the `pass` that keeps them valid."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.source.indentation import leading
from prtoggle.source.preamble import first_line_of
from prtoggle.source.splices import Rank

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from prtoggle.source.source_text import ModuleSource
    from prtoggle.source.splices import Splice


class EmptyBlock(NamedTuple):
    """A block that loses all its statements: the lines of its first and last one, and its indentation."""

    first: int
    last: int
    indent: str


def fill_blocks(source: ModuleSource, node: ast.AST, splices: Sequence[Splice]) -> list[Splice]:
    """The splices, with a `pass` (and a note) in the last deletion of every block in `node` that they empty.

    Splices of several toggles that empty a block together are filled like those of one.
    """
    done = list(splices)
    deletions = [splice for splice in done if splice.is_deletion and splice.start < splice.end]
    if not deletions:
        return done
    deleted = {line for splice in deletions for line in _lines(source, splice)}
    for block in emptied_blocks(source, node, deleted):
        if any(_puts_code_in(source, splice, block) for splice in done):
            continue
        last = next(
            item for item in reversed(done) if item in deletions and block.last in _lines(source, item)
        )
        newline = source.newline if source.text[last.end - 1] in "\r\n" else ""
        note = f"the block at line {block.first} would be empty, so a pass is put in"
        filled = replace(last, text=f"{last.text}{block.indent}pass{newline}", note=note)
        done[done.index(last)] = filled
    return done


def _lines(source: ModuleSource, splice: Splice) -> range:
    return range(source.line_of(splice.start), source.line_of(splice.end - 1) + 1)


def _puts_code_in(source: ModuleSource, splice: Splice, block: EmptyBlock) -> bool:
    return splice.rank is not Rank.REPLACEMENT and block.first <= source.line_of(splice.start) <= block.last


def emptied_blocks(source: ModuleSource, node: ast.AST, deleted: Collection[int]) -> list[EmptyBlock]:
    """The blocks inside `node` whose statements all stand on `deleted` lines while their header stays."""
    found = []
    for owner, block in _owned_blocks(node):
        first, last = first_line_of(block[0]), block[-1].end_lineno or block[-1].lineno
        if first not in deleted or not all(_is_deleted(statement, deleted) for statement in block):
            continue
        header = _header_line(source, owner, block)
        if header is not None and header < first and not _cuts_header(source, range(header, first), deleted):
            found.append(EmptyBlock(first, last, leading(source.lines[first - 1])))
    return found


def _owned_blocks(node: ast.AST) -> Iterator[tuple[ast.AST, list[ast.stmt]]]:
    for owner in ast.walk(node):
        if isinstance(owner, ast.Module):
            continue
        for name in ("body", "orelse", "finalbody"):
            block = getattr(owner, name, None)
            if isinstance(block, list) and block:
                yield owner, block


def _is_deleted(statement: ast.stmt, deleted: Collection[int]) -> bool:
    last = statement.end_lineno or statement.lineno
    return all(line in deleted for line in range(first_line_of(statement), last + 1))


def _cuts_header(source: ModuleSource, lines: range, deleted: Collection[int]) -> bool:
    """Whether code of a header goes too, which may run over several lines; comments under it do not count."""
    code = (
        line for line in lines if source.lines[line - 1].strip() and not _is_comment(source.lines[line - 1])
    )
    return any(line in deleted for line in code)


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _header_line(source: ModuleSource, owner: ast.AST, block: list[ast.stmt]) -> int | None:
    """The line of the keyword that `block` belongs to; None for an `elif`, which is its own header."""
    if block is getattr(owner, "body", None):
        if isinstance(owner, ast.match_case):
            return owner.pattern.lineno
        return int(getattr(owner, "lineno", 0))
    if isinstance(block[0], ast.If) and source.lines[block[0].lineno - 1].lstrip().startswith("elif"):
        return None
    keyword = "finally" if block is getattr(owner, "finalbody", None) else "else"
    for line in range(first_line_of(block[0]), getattr(owner, "lineno", 1), -1):
        if source.lines[line - 1].lstrip().startswith(keyword):
            return line
    return None
