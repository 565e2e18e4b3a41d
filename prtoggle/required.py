"""What goes out with a toggle: the toggles that it requires, those that these require, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prtoggle.errors import UnknownToggleError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prtoggle.catalog import Catalog
    from prtoggle.spec import Toggle


def required_by(toggle: Toggle, catalog: Catalog) -> tuple[str, ...]:
    """All ids that have to be reverted with the toggle, itself left out.

    One that no catalogue has is among them: whoever reverts it is told.
    """
    return tuple(other for other in _closure(toggle.requires, catalog) if other != toggle.id)


def required_alone(toggle: Toggle, catalog: Catalog) -> tuple[str, ...]:
    """Of these the ones that can be reverted while the toggle itself is not: they do not require it."""
    needed = required_by(toggle, catalog)
    return tuple(other for other in needed if toggle.id not in _closure([other], catalog))


def _closure(toggle_ids: Iterable[str], catalog: Catalog) -> list[str]:
    """The ids, then what they require, in the order in which it is come to."""
    found: dict[str, None] = {}
    pending = list(toggle_ids)
    while pending:
        current = pending.pop(0)
        if current not in found:
            found[current] = None
            pending += _direct(current, catalog)
    return list(found)


def _direct(toggle_id: str, catalog: Catalog) -> tuple[str, ...]:
    try:
        return catalog.get(toggle_id).requires
    except UnknownToggleError:
        return ()
