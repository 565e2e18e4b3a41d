"""Both variants of what toggles edit in a loaded module, without putting either in effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prtoggle.errors import UnsupportedTargetError
from prtoggle.installers.in_place import CacheFollower
from prtoggle.plans.region_splices import Wanted
from prtoggle.plans.slots import Slot
from prtoggle.plans.variants import KINDS
from prtoggle.source.splices import merge

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from prtoggle.installers.base import Variant
    from prtoggle.plans.live_plan import LivePlanner
    from prtoggle.plans.sites import Site
    from prtoggle.source.splices import Splice
    from prtoggle.spec import Patch, Toggle
    from prtoggle.target import ResolvedTarget


class Request(NamedTuple):
    """One patch of a toggle, and where its target lies."""

    toggle: Toggle
    patch: Patch
    resolved: ResolvedTarget


class Shadow(NamedTuple):
    """A live function as it runs, and as it would run with the toggles taken out as well."""

    site: Site
    toggles: tuple[str, ...]
    # As the specs write them.
    targets: tuple[str, ...]
    fixed: Variant
    reverted: Variant


def shadows_of(live: LivePlanner, module: ModuleType, requests: Sequence[Request]) -> list[Shadow]:
    """The functions of `module` that the requests edit, each with both variants; changes nothing.

    Raises UnsupportedTargetError for what cannot be run beside its other variant, and whatever planning
    raises.
    """
    slots = {request.toggle.id: Slot(request.toggle) for request in requests}
    wanted: dict[Site, dict[Slot, list[Splice]]] = {}
    targets: dict[Site, dict[str, None]] = {}
    for toggle, patch, resolved in requests:
        edited, step = live.plan(Wanted(module, resolved, patch, toggle.id))
        if step is not None or not edited:
            raise UnsupportedTargetError(
                f"{patch.target}: the edit changes a value, not the body of a function, so that there are no "
                "two variants to run; use prtoggle run",
                target=patch.target,
            )
        for site, _, splices in edited:
            wanted.setdefault(site, {}).setdefault(slots[toggle.id], []).extend(splices)
            targets.setdefault(site, {})[patch.target] = None
    return [_shadow(site, by_slot, tuple(targets[site])) for site, by_slot in wanted.items()]


def _shadow(site: Site, by_slot: dict[Slot, list[Splice]], targets: tuple[str, ...]) -> Shadow:
    site.live.refuse_touched()
    for slot, splices in by_slot.items():
        site.learn(slot, merge(splices))
    fixed = site.version(site.shown)
    reverted = site.version(site.shown | frozenset(by_slot))
    _refuse(site, fixed, reverted)
    return Shadow(site, tuple(slot.id for slot in by_slot), targets, fixed, reverted)


def _refuse(site: Site, fixed: Variant, reverted: Variant) -> None:
    target = site.basis.target
    if (fixed.code.co_flags | reverted.code.co_flags) & KINDS:
        raise UnsupportedTargetError(
            f"{target} is a generator or a coroutine: a call of it only makes one, and what it does comes "
            "later, step by step, so that its two variants cannot be compared; use prtoggle run",
            target=target,
        )
    if any(type(follower) is not CacheFollower for follower in site.live.followers):
        raise UnsupportedTargetError(
            f"{target} is compiled to a kernel from its source and never called as a Python function, so "
            "that its two variants cannot be compared; use prtoggle run",
            target=target,
        )
