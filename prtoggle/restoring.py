"""What restoring a toggle has to do in modules that were loaded with it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from prtoggle.errors import PrToggleError, RestoreError
from prtoggle.installers.value import plan_edited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.births import Birth, Births
    from prtoggle.installers.base import Step
    from prtoggle.site_maker import SiteMaker
    from prtoggle.sites import Site
    from prtoggle.slots import Slot


def born_plan(last: Sequence[Slot], births: Births, maker: SiteMaker) -> tuple[list[Site], list[Step]]:
    """The functions that were born with one of the toggles, and the steps that put constants back.

    Raises RestoreError when a toggle changed a statement that has run and cannot be undone.
    """
    sites: list[Site] = []
    steps: list[Step] = []
    for slot in last:
        for birth in births.with_slot(slot):
            if slot in birth.put_back:
                continue
            for unit in birth.units:
                if slot in unit.slots:
                    sites += [site for site in maker.born_sites(birth, unit) if slot in site.shown]
            if birth.outside_of(slot):
                steps += _constants(slot, birth)
    return sites, steps


def _constants(slot: Slot, birth: Birth) -> list[Step]:
    """Steps that give module constants and class attributes their unedited values."""
    module = sys.modules.get(birth.name)
    steps: list[Step] = []
    for resolved, patch in slot.plan.requests if slot.plan else ():
        if resolved.module != birth.name or not birth.outside_of(slot, resolved.text):
            continue
        line = birth.source.line_of(birth.outside_of(slot, resolved.text)[0].start)
        try:
            if module is None:
                raise RestoreError(f"module {birth.name} is no longer in sys.modules", target=patch.target)
            steps.append(
                plan_edited(module, resolved.qualname, patch.target, birth.edited, birth.source.text)
            )
        except PrToggleError as error:
            raise RestoreError(
                f"{patch.target}: toggle {slot.id} changed line {line} of {birth.path}, a statement that ran "
                f"when {birth.name} was loaded, and it cannot be put back. {error} End the process, or leave "
                "the toggle on",
                target=patch.target,
            ) from error
    return steps
