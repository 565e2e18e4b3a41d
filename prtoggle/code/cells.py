"""Keeps a function's cells where an edit no longer uses them.

A function object has as many cells as its code has free variables, for good; code with fewer cannot be put
into it. So a variable that an edit drops is mentioned in a statement that the compiler sees and does not
emit.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.definitions import FunctionNode


def mention(node: FunctionNode, names: Sequence[str]) -> None:
    """Refer to `names` at the end of the function, without effect and without code."""
    last = node.body[-1]
    values: list[ast.stmt] = [ast.Expr(ast.Name(name, ast.Load())) for name in names]
    statement = ast.If(ast.Constant(value=False), values, [])
    node.body.append(statement)
    for part in ast.walk(statement):
        ast.copy_location(part, last)


def uses_class_cell(node: ast.AST) -> bool:
    """Whether the function has a cell for the class that it is defined in."""
    return any(isinstance(part, ast.Name) and part.id in ("super", "__class__") for part in ast.walk(node))
