"""Lines that an edit takes out without naming them.

They are behind a way out of its own, below a header that it changes, or for a result that nothing reads then.
A line that a later commit adds there is taken out too, although it is no part of the fix.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from prtoggle.drift.merging import changes
from prtoggle.drift.ways_out import below, lines_of, ways_out
from prtoggle.source.matching import blocks_of
from prtoggle.source.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Iterator


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
            if any(new & lines_of(leaving) for leaving in ways_out(node)):
                # What stands behind it in its block does not run, or not always.
                numbers |= {line for dead in block[position + 1 :] for line in lines_of(dead)}
            numbers |= _overwritten(block[:position], node) if new & lines_of(node) else set()
    for inner in ast.walk(tree):
        numbers |= below(inner, new)
    numbers |= _unread(ast.parse(fixed), tree)
    lines = split_lines(edited)
    for number in sorted(numbers - new):
        line = lines[number - 1].strip()
        if line and not line.startswith("#"):
            yield number, line


def _overwritten(before: list[ast.stmt], node: ast.stmt) -> set[int]:
    """The lines above an assignment that only made what it replaces."""
    name = _sole_target(node)
    if not name or isinstance(node, ast.AugAssign) or name in _read(node):
        return set()
    numbers: set[int] = set()
    for statement in reversed(before):
        if _sole_target(statement) == name:
            numbers |= lines_of(statement)
        elif name in _read(statement):
            break
    return numbers


def _unread(fixed: ast.Module, edited: ast.Module) -> set[int]:
    """The lines that only make what the edited text reads nowhere, and the fixed text does."""
    lost = _needed(fixed) - _needed(edited)
    return {
        line
        for node in ast.walk(edited)
        if isinstance(node, ast.stmt) and _sole_target(node) in lost
        for line in lines_of(node)
    }


def _needed(tree: ast.Module) -> set[str]:
    """The names that something reads which is more than an assignment to a name that nothing reads."""
    plain = [
        (_sole_target(node), _read(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and _is_plain(node)
    ]
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and _sole_target(node)
        for part in ast.walk(node)
        # Even a call reads the name for the name's own sake where it makes its next value.
        if _is_plain(node) or getattr(part, "id", "") == _sole_target(node)
    }
    needed = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in inside
    }
    for node in ast.walk(tree):
        # What others than this function may read.
        needed |= set(node.names) if isinstance(node, (ast.Global, ast.Nonlocal)) else set()
    while True:
        more = {name for target, names in plain if target in needed for name in names} - needed
        if not more:
            return needed
        needed |= more


def _is_plain(node: ast.AST) -> bool:
    """Whether a statement gives one name a value and calls nothing for it."""
    calls = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    return (
        isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign))
        and _sole_target(node) != ""
        and not any(isinstance(part, calls) for part in ast.walk(node))
    )


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
