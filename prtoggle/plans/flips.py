"""The short way for toggles that were in effect before: nothing to plan, to build or to verify anew.

Whatever is out of the ordinary is left to the long way: a name that leads elsewhere by now, a function that
somebody else changed, object patches, toggles that name each other, kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prtoggle.live import still_leads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prtoggle.plans.sites import Site
    from prtoggle.plans.slots import Plan, Slot


def is_current(plan: Plan) -> bool:
    """Whether a plan that was made before may be put in effect again as it is."""
    if plan.steps or plan.waiting or not plan.sites:
        return False
    return all(still_leads(trail) and site.live.is_untouched() for site, trail in plan.sites)


def is_plain(slot: Slot) -> bool:
    """Whether the toggle says nothing about others or the environment, and edits live functions only."""
    toggle, plan = slot.toggle, slot.plan
    if slot.is_related or toggle.env or slot.observed or plan is None:
        return False
    return bool(plan.sites) and not plan.steps and not plan.waiting


def flip_on(slot: Slot) -> bool:
    """Put a plain toggle in effect if nothing has to be made for it; else False, with nothing changed."""
    assert slot.plan is not None, slot.id
    if not is_current(slot.plan):
        return False
    one = frozenset((slot,))
    return _show([(site, site.shown | one) for site, _ in slot.plan.sites])


def flip_off(slot: Slot) -> bool:
    """Take a plain toggle out of effect likewise."""
    assert slot.plan is not None, slot.id
    one = frozenset((slot,))
    return _show([(site, site.shown - one) for site, _ in slot.plan.sites])


def _show(wanted: Iterable[tuple[Site, frozenset[Slot]]]) -> bool:
    if not all(site.can_show(slots) for site, slots in wanted):
        return False
    for site, slots in wanted:
        site.show(slots)
    return True
