"""Modules that a toggle waits for, seen from their end: whether one that was loaded has its edits.

The import system may never have asked for the code: a finder of somebody else's came first, or the loader
compiles by itself.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from prtoggle.errors import PrToggleError, UnsupportedTargetError
from prtoggle.plans.overview import is_in_effect, loaded_past_us
from prtoggle.target import dotted_prefixes, split_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.plans.births import Births
    from prtoggle.plans.slots import Slot, Waiting


def awaited_modules(slots: Sequence[Slot]) -> frozenset[str]:
    """The modules that patches wait for, and for each that no finder knows yet every name it may have."""
    names: set[str] = set()
    for _, item in _waiting(slots):
        names.add(item.module)
        if not item.is_found:
            names.update(dotted_prefixes(item.module)[:-1])
    return frozenset(names)


def find_wraps(slots: Sequence[Slot], name: str) -> bool:
    """Give `wrap:` patches that waited for an unknown module the one of that name; whether there are any."""
    found = [
        item
        for _, item in _waiting(slots)
        if not item.is_found and not item.patch.changes_source and _leads_into(item, name)
    ]
    for item in found:
        item.module = name
    return bool(found)


def came_past(slots: Sequence[Slot], name: str, births: Births) -> list[tuple[Slot, Waiting]]:
    """The patches that the module of that name, which has been loaded, runs without."""
    return [
        (slot, item)
        for slot, item in _waiting(slots)
        if (item.module == name or _leads_into(item, name)) and not is_in_effect(slot, item, births)
    ]


def refusal(item: Waiting, name: str) -> UnsupportedTargetError:
    """The error for the first of those."""
    return UnsupportedTargetError(
        f"{item.patch.target}: {loaded_past_us(name)}; use wrap: on it, or let it be imported from a plain "
        "source file",
        target=item.patch.target,
    )


def _waiting(slots: Sequence[Slot]) -> Iterator[tuple[Slot, Waiting]]:
    return ((slot, item) for slot in slots for item in slot.waiting)


def _leads_into(item: Waiting, name: str) -> bool:
    """Whether the target of a patch that waits for an unknown module is in the module of that name."""
    if item.is_found or not item.module.replace(":", ".").startswith(f"{name}."):
        return False
    with contextlib.suppress(PrToggleError):
        return split_name(item.patch.target)[0].name == name
    return False
