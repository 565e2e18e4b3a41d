"""The toggles that the engine has been asked for, by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prtoggle.errors import ConflictError
from prtoggle.plans.slots import Slot

if TYPE_CHECKING:
    from prtoggle.spec import Toggle

# How many toggles are remembered after they went out of force; a forgotten one is planned anew.
_KEPT: Final = 256


class KnownSlots(dict[str, Slot]):
    """Id to slot, one for each. What is in force stays; of the rest, the oldest are forgotten."""

    def of(self, toggle: Toggle) -> Slot:
        """The slot of a toggle, a new one where its id is not known or its contents have changed.

        Raises ConflictError while a toggle of that id is reverted with other contents.
        """
        slot = self.get(toggle.id)
        if slot is None:
            self._drop_oldest()
            slot = self[toggle.id] = Slot(toggle)
        elif slot.toggle is not toggle:
            if slot.toggle == toggle:
                slot.toggle = toggle
            elif slot.handles:
                raise ConflictError(
                    f"toggle {toggle.id} is reverted already, with other contents ({_where(slot.toggle)}; "
                    f"asked for: {_where(toggle)}): one id stands for one change",
                    toggles=(toggle.id,),
                )
            else:
                self._forget(slot)
                slot = self[toggle.id] = Slot(toggle)
        return slot

    def _drop_oldest(self) -> None:
        """Keep plans of toggles that are out of force from piling up in a process that makes them anew."""
        if len(self) >= _KEPT:
            idle = next((slot for slot in self.values() if not slot.handles), None)
            if idle is not None:
                self._forget(idle)
                del self[idle.id]

    def _forget(self, slot: Slot) -> None:
        for site, _ in slot.sites:
            site.forget(slot)


def _where(toggle: Toggle) -> str:
    return str(toggle.source) if toggle.source is not None else "given as a value"
