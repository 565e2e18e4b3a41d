"""A toggle that is reverted already and asked for again has to be in force still.

Somebody may have changed the function's code, or bound its name to something else, since; or its module has
failed to load. A second handle on such a toggle would promise what is not so.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING

from prtoggle.errors import PrToggleError, RestoreError, UnsupportedTargetError
from prtoggle.live import still_leads
from prtoggle.peeling import opened
from prtoggle.plans.in_force import is_of
from prtoggle.plans.overview import overview

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.live import Trail
    from prtoggle.plans.births import Births, Witness
    from prtoggle.plans.sites import Site
    from prtoggle.plans.slots import Slot


def refuse_ineffective(slots: Sequence[Slot], births: Births) -> None:
    """Raise for a toggle that is reverted already, and not in force: failed, or undone by somebody else.

    The failure of a load is raised as it was; RestoreError says what somebody else changed meanwhile.
    """
    for slot in slots:
        for site, trail in slot.sites:
            _refuse_replaced_site(slot, site, trail)
        for patch, step in slot.steps:
            if not step.is_in_effect():
                raise _not_in_force(slot, patch.target, "its place holds something else by now")
        for birth in births.with_slot(slot):
            if slot not in birth.put_back:
                for witness in birth.witnesses.get(slot, ()):
                    _refuse_replaced_birth(slot, witness)
        if slot.waiting:
            _refuse_failed(slot, births)


def _refuse_failed(slot: Slot, births: Births) -> None:
    for error in slot.failures.values():
        raise error.with_traceback(None)
    for state in overview([slot], births)[0].patches:
        if state.state == "failed":
            raise UnsupportedTargetError(
                f"toggle {slot.id}, {state.target}: {state.note}", target=state.target
            )


def _refuse_replaced_site(slot: Slot, site: Site, trail: Trail) -> None:
    if not site.live.is_untouched():
        site.live.refuse_touched()
    function = site.live.function
    # A module that was taken out of sys.modules is loaded anew, with the edit, by whoever wants it.
    if function is None or still_leads(trail) or not still_leads(trail[:1]):
        return
    namespace, name, _ = trail[-1]
    if not _leads_to(namespace.get(name), function, site.basis.target):
        raise _not_in_force(slot, site.basis.target, "its name leads to something else by now")


def _refuse_replaced_birth(slot: Slot, witness: Witness) -> None:
    trail, function = witness.trail, witness.function
    if not still_leads(trail[:1]):
        return
    if not still_leads(trail):
        namespace, name, before = trail[-1]
        if not _leads_to(namespace.get(name), before if function is None else function, witness.target):
            raise _not_in_force(slot, witness.target, "its name leads to something else by now")
    unit = witness.unit
    if not isinstance(function, FunctionType) or unit is None or is_of(unit, function):
        return
    if not any(site.live.function is function and site.live.is_untouched() for site in unit.sites):
        raise _not_in_force(slot, witness.target, "somebody else exchanged the function's code")


def _leads_to(raw: object, wanted: object, target: str) -> bool:
    if raw is None:
        return False
    try:
        return any(item is wanted for item in opened(raw, target))
    except PrToggleError:
        # A compiler has made something of what stands there.
        return True


def _not_in_force(slot: Slot, target: str, why: str) -> RestoreError:
    return RestoreError(
        f"{target}: toggle {slot.id} is reverted already, and not in force: {why}. Undo that change first, "
        "or restore the toggle before it is made",
        target=target,
    )
