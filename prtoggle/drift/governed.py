"""Lines that an edit takes out without naming them: behind a return of its own, below a header it changes.

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
    """(line number, stripped line) of code in the edited text that is dead or below a changed header."""
    tree = ast.parse(edited)
    new = {
        number + 1
        for _, _, first, last in changes(split_lines(fixed), split_lines(edited))
        for number in range(first, last)
    }
    numbers = set()
    for block in blocks_of(tree):
        for position, node in enumerate(block):
            end = node.end_lineno or node.lineno
            if isinstance(node, _LEAVES) and new & set(range(node.lineno, end + 1)):
                # What stands behind it in its block never runs.
                for dead in block[position + 1 :]:
                    numbers |= set(range(dead.lineno, (dead.end_lineno or dead.lineno) + 1))
            numbers |= _below_header(node, new)
    lines = split_lines(edited)
    for number in sorted(numbers - new):
        line = lines[number - 1].strip()
        if line and not line.startswith("#"):
            yield number, line


def _below_header(node: ast.stmt, new: set[int]) -> set[int]:
    """The lines of an `if` or `while` body whose condition the edit changed."""
    if not isinstance(node, (ast.If, ast.While)) or not new & set(
        range(node.lineno, (node.test.end_lineno or node.lineno) + 1)
    ):
        return set()
    first, last = node.body[0].lineno, node.body[-1].end_lineno or node.body[-1].lineno
    return set(range(first, last + 1))
