"""Where two tensors or arrays differ first, asked only of libraries that the program has loaded."""

from __future__ import annotations

from typing import Any

from prtoggle.trace.layouts import of_arrays, of_tensors
from prtoggle.trace.libraries import is_array, is_number, is_tensor, numpy, torch


def first_difference(where: str, ours: Any, theirs: Any) -> tuple[str, str, str] | tuple[()] | None:
    """The place and both values; empty when both are the same; None when they are neither tensor nor array.

    Two values count as one where `==` says so, and NaN is NaN. Raises whatever the library raises for a kind
    that it cannot compare.
    """
    if is_tensor(ours):
        return _of_tensors(where, ours, theirs)
    if is_array(ours):
        return _of_arrays(where, ours, theirs)
    if is_number(ours):
        same = bool(ours == theirs or (ours != ours and theirs != theirs))  # noqa: PLR0124  # NaN
        return () if same else (where, repr(ours.item()), repr(theirs.item()))
    return None


def _of_tensors(where: str, ours: Any, theirs: Any) -> tuple[str, str, str] | tuple[()]:
    for name in ("dtype", "device", "layout", "requires_grad"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        if mine != other:
            return f"{where}.{name}", str(mine), str(other)
    found = of_tensors(where, ours, theirs)
    if found:
        return found
    if ours.device.type == "meta":
        return ()
    with torch().no_grad():
        if ours.layout is not torch().strided:
            ours, theirs = ours.to_dense(), theirs.to_dense()
        if ours.is_quantized:
            ours, theirs = ours.dequantize(), theirs.dequantize()
        if ours.dtype.itemsize == 1 and ours.dtype.is_floating_point:
            # The formats of eight bits have no comparison; all of their values are float32 values too.
            ours, theirs = ours.float(), theirs.float()
        unequal = ours != theirs
        if ours.dtype.is_floating_point or ours.dtype.is_complex:
            unequal &= ~(ours.isnan() & theirs.isnan())
        if not bool(unequal.any()):
            return ()
        at = [int(part) for part in unequal.nonzero()[0].tolist()]
        mine, other = ours[tuple(at)].item(), theirs[tuple(at)].item()
    count = int(unequal.sum())
    return _told(where, at, mine, other, count)


def _of_arrays(where: str, ours: Any, theirs: Any) -> tuple[str, str, str] | tuple[()]:
    for name in ("dtype", "shape"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        if mine != other:
            return f"{where}.{name}", str(mine), str(other)
    found = of_arrays(where, ours, theirs)
    if found:
        return found
    if ours.dtype.names is not None:
        for name in ours.dtype.names:
            found = _of_arrays(f"{where}[{name!r}]", ours[name], theirs[name])
            if found:
                return found
        return ()
    unequal = numpy().asarray(ours != theirs)
    if ours.dtype.kind in "fcmM":
        unequal &= ~(numpy().asarray(ours != ours) & numpy().asarray(theirs != theirs))  # noqa: PLR0124  # NaN
    if not unequal.any():
        return ()
    at = [int(part) for part in numpy().argwhere(unequal)[0]] if unequal.shape else []
    return _told(where, at, ours[tuple(at)], theirs[tuple(at)], int(unequal.sum()))


def _told(where: str, at: list[int], ours: Any, theirs: Any, count: int) -> tuple[str, str, str]:
    more = f" (and {count - 1} more elements)" if count > 1 else ""
    return f"{where}[{', '.join(map(str, at))}]{more}", str(ours), str(theirs)
