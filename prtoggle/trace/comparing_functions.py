"""Functions by code and variables, methods by function and object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prtoggle.trace.differences import MISSING, Difference, difference
from prtoggle.trace.sameness import same_program

if TYPE_CHECKING:
    from types import CellType, CodeType, FunctionType, MethodType

    from prtoggle.trace.comparing import Comparison


def compare_function(
    comparison: Comparison, where: str, ours: FunctionType, theirs: FunctionType
) -> Difference | None:
    """By code, name, variables of the enclosing scope and defaults."""
    if not same_program(ours.__code__, theirs.__code__):
        return Difference(f"{where}.__code__", *_codes(ours.__code__, theirs.__code__))
    if ours.__name__ != theirs.__name__:
        return Difference(f"{where}.__name__", ours.__name__, theirs.__name__)
    cells = zip(ours.__code__.co_freevars, ours.__closure__ or (), theirs.__closure__ or (), strict=False)
    for name, mine, other in cells:
        found = compare_cell(comparison, f"{where}'s {name}", mine, other)
        if found is not None:
            return found
    found = comparison.pair(f"{where}.__defaults__", ours.__defaults__, theirs.__defaults__)
    return found or comparison.pair(f"{where}.__kwdefaults__", ours.__kwdefaults__, theirs.__kwdefaults__)


def compare_method(
    comparison: Comparison, where: str, ours: MethodType, theirs: MethodType
) -> Difference | None:
    """By function and object."""
    found = comparison.differs(f"{where}.__func__", ours.__func__, theirs.__func__)
    return found or comparison.differs(f"{where}.__self__", ours.__self__, theirs.__self__)


def compare_builtin(comparison: Comparison, where: str, ours: Any, theirs: Any) -> Difference | None:
    """By name and object."""
    if ours.__name__ != theirs.__name__:
        return difference(where, ours, theirs)
    return comparison.differs(f"{where}.__self__", ours.__self__, theirs.__self__)


def compare_cell(comparison: Comparison, where: str, ours: CellType, theirs: CellType) -> Difference | None:
    """By what the variable holds."""
    return comparison.pair(where, content(ours), content(theirs))


def content(cell: CellType) -> Any:
    """What the variable holds; MISSING for one that is not set."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _codes(ours: CodeType, theirs: CodeType) -> tuple[str, str]:
    return (
        f"{ours.co_qualname}, line {ours.co_firstlineno}",
        f"{theirs.co_qualname} with another body, line {theirs.co_firstlineno}",
    )
