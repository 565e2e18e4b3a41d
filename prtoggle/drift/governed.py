"""Lines that an edit takes out without naming them.

They are behind a way out of its own, below a header that it changes, or for a result that nothing reads then.
A line that a later commit adds there is taken out too, although it is no part of the fix.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from prtoggle.drift.merging import changes
from prtoggle.source.matching import blocks_of
from prtoggle.source.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_HEADED = (
    *(ast.If, ast.While, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith),
    *(ast.ExceptHandler, ast.match_case),
)


def creep(locked: tuple[str, str], today: tuple[str, str]) -> list[str]:
    """The lines that the edit governs today and did not when it was locked, stripped, in order.

    Each pair is a text with the fix and the same text with the edit done.
    """
    known = Counter(line for _, line in _governed(*locked))
    found = []
    for _, line in _governed(*today):
        known[line] -= 1
        if known[line] < 0:
            found.append(line)
    return found


def _governed(fixed: str, edited: str) -> Iterator[tuple[int, str]]:
    """(line number, stripped line) of code in the edited text that may not run, or runs for nothing."""
    tree = ast.parse(edited)
    new = {
        number + 1
        for _, _, first, last in changes(split_lines(fixed), split_lines(edited))
        for number in range(first, last)
    }
    numbers: set[int] = set()
    for block in blocks_of(tree):
        for position, node in enumerate(block):
            if any(new & _lines(leaving) for leaving in _ways_out(node)):
                # What stands behind it in its block does not run, or not always.
                numbers |= {line for dead in block[position + 1 :] for line in _lines(dead)}
            numbers |= _overwritten(block[:position], node) if new & _lines(node) else set()
    for inner in ast.walk(tree):
        numbers |= _below_header(inner, new)
    numbers |= _unread(ast.parse(fixed), tree)
    lines = split_lines(edited)
    for number in sorted(numbers - new):
        line = lines[number - 1].strip()
        if line and not line.startswith("#"):
            yield number, line


def _lines(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _ways_out(node: ast.stmt, *, in_loop: bool = False) -> Iterator[ast.stmt]:
    """The statements in `node` that leave the block which it stands in."""
    if isinstance(node, _LEAVES):
        if not (in_loop and isinstance(node, (ast.Continue, ast.Break))):
            yield node
        return
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    loop = in_loop or isinstance(node, (ast.For, ast.AsyncFor, ast.While))
    for inner in ast.iter_child_nodes(node):
        parts = [inner] if isinstance(inner, ast.stmt) else getattr(inner, "body", [])
        for part in parts if isinstance(parts, list) else []:
            yield from _ways_out(part, in_loop=loop)


def _below_header(node: ast.AST, new: set[int]) -> set[int]:
    """The lines of a body whose condition, range, context, exception or pattern the edit changed."""
    if not isinstance(node, _HEADED):
        return set()
    first = node.body[0].lineno
    begin = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
    if not new & set(range(begin, max(begin + 1, first))):
        return set()
    return {line for statement in node.body for line in _lines(statement)}


def _overwritten(before: list[ast.stmt], node: ast.stmt) -> set[int]:
    """The lines above an assignment that only made what it replaces."""
    name = _sole_target(node)
    if not name or isinstance(node, ast.AugAssign) or name in _read(node):
        return set()
    numbers: set[int] = set()
    for statement in reversed(before):
        if _sole_target(statement) == name:
            numbers |= _lines(statement)
        elif name in _read(statement):
            break
    return numbers


def _unread(fixed: ast.Module, edited: ast.Module) -> set[int]:
    """The lines that only make what the edited text reads nowhere, and the fixed text does."""
    lost = _read(fixed) - _read(edited)
    return {
        line
        for node in ast.walk(edited)
        if isinstance(node, ast.stmt) and _sole_target(node) in lost
        for line in _lines(node)
    }


def _sole_target(node: ast.stmt) -> str:
    """The local name that an assignment gives a value, "" for all else."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or len(targets) != 1:
        return ""
    return targets[0].id if isinstance(targets[0], ast.Name) else ""


def _read(node: ast.AST) -> set[str]:
    """The names that are read; a name that is only counted up is not."""
    return {
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load)
    }
