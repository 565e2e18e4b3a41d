"""Commits that move code from module to module and change none of it: there is nothing to take out."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.forge.fix import FixedFile


def moved_between(files: Sequence[FixedFile]) -> list[str]:
    """The paths between which a fix moved statements of modules, where it did nothing else; empty otherwise.

    Imports, docstrings and layout do not count. Undone, the old place would come back with the code as it was
    then, and hide what was changed at the new place since.
    """
    went: Counter[str] = Counter()
    came: Counter[str] = Counter()
    paths = []
    for file in files:
        old, new = _statements(file.before), _statements(file.after)
        if old is None or new is None:
            return []
        went += old - new
        came += new - old
        if old != new:
            paths.append(file.path_after or file.path_before)
    return paths if went and went == came else []


def _statements(text: str | None) -> Counter[str] | None:
    """The statements of a module, as often as each is there; None for what cannot be parsed."""
    try:
        tree = ast.parse(text or "")
    except (SyntaxError, ValueError):
        return None
    return Counter(
        ast.dump(node)
        for node in tree.body
        if not isinstance(node, (ast.Import, ast.ImportFrom))
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    )
