"""How two tensors or arrays of one shape lie in memory: what views of them and kernels go by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prtoggle.trace.libraries import torch

if TYPE_CHECKING:
    from collections.abc import Sequence


def of_tensors(where: str, ours: Any, theirs: Any) -> tuple[str, str, str] | tuple[()]:
    """The difference in shape or strides; empty where there is none."""
    if ours.shape != theirs.shape:
        return f"{where}.shape", str(list(ours.shape)), str(list(theirs.shape))
    mine, other = _strides(ours), _strides(theirs)
    return () if mine == other else (f"{where}.stride()", str(mine), str(other))


def of_arrays(where: str, ours: Any, theirs: Any) -> tuple[str, str, str] | tuple[()]:
    """The difference in strides, and in whether they can be written; empty where there is none.

    A copy of a view lies closer together than the view, but keeps the order of its axes.
    """
    if ours.flags.writeable != theirs.flags.writeable:
        return f"{where}.flags.writeable", str(ours.flags.writeable), str(theirs.flags.writeable)
    mine, other = _steps(ours, ours.strides), _steps(theirs, theirs.strides)
    if ours.flags.owndata and theirs.flags.owndata and ours.size and mine != other:
        return f"{where}.strides", str(mine), str(other)
    mine, other = _order(ours), _order(theirs)
    same = mine == other or not (mine and other)
    return () if same else (f"{where} (its axes, from the longest steps)", str(mine), str(other))


def _strides(value: Any) -> list[int]:
    """Those of a tensor; none where it has no element, or is sparse."""
    if value.layout is not torch().strided or not value.numel():
        return []
    return _steps(value, value.stride())


def _steps(value: Any, strides: Sequence[int]) -> list[int]:
    """The strides along which there is more than one element."""
    return [step for step, size in zip(strides, value.shape, strict=True) if size > 1]


def _order(array: Any) -> list[int]:
    """The axes with more than one element, by length of their steps; none where one repeats its elements."""
    pairs = enumerate(zip(array.strides, array.shape, strict=True))
    steps = [(-abs(step), at) for at, (step, size) in pairs if size > 1]
    return [at for _, at in sorted(steps)] if array.size and all(step for step, _ in steps) else []
