"""The states of toggles, put together from what was planned, loaded and failed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from prtoggle.states import Activated, Armed, PatchState, ToggleState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prtoggle.plans.births import Births
    from prtoggle.plans.slots import Slot, Waiting
    from prtoggle.spec import Patch
    from prtoggle.states import Event, State


def overview(slots: Sequence[Slot], births: Births) -> list[ToggleState]:
    """The state of each toggle."""
    done = []
    for slot in slots:
        patches = tuple(_patch_state(slot, patch, births) for patch in slot.toggle.patches)
        done.append(ToggleState(slot.toggle, _worst(patches), patches, slot.handles))
    return done


def _worst(patches: Sequence[PatchState]) -> State:
    states = {patch.state for patch in patches}
    if "failed" in states:
        return "failed"
    return "armed" if "armed" in states else "active"


def _patch_state(slot: Slot, patch: Patch, births: Births) -> PatchState:  # noqa: PLR0911  # one for each state
    failure = slot.failures.get(patch.target)
    if failure is not None:
        return PatchState(patch.target, patch.mode, "failed", None, None, None, str(failure))
    waiting = _waiting(slot, patch)
    if waiting is None:
        return PatchState(patch.target, patch.mode, "active", "live", *_module(slot, patch))
    if waiting.step is not None:
        module = sys.modules.get(waiting.module)
        return PatchState(
            patch.target, patch.mode, "active", "at load", waiting.module, getattr(module, "__file__", None)
        )
    if waiting.resolved is None:
        note = "no module of that name was found yet" if patch.changes_source else ""
        return PatchState(patch.target, patch.mode, "armed", None, waiting.module, None, note)
    path = str(waiting.resolved.file)
    birth = births.of_path(path)
    if birth is not None and slot in birth.slots and slot not in birth.put_back:
        return PatchState(patch.target, patch.mode, "active", "at load", waiting.module, path)
    if waiting.module in sys.modules:
        note = f"{waiting.module} was loaded by other means than Python's source loader, and runs unedited"
        return PatchState(patch.target, patch.mode, "failed", None, waiting.module, path, note)
    return PatchState(patch.target, patch.mode, "armed", None, waiting.module, path)


def _waiting(slot: Slot, patch: Patch) -> Waiting | None:
    found = slot.plan.waiting if slot.plan is not None else ()
    return next((item for item in found if item.patch is patch), None)


def _module(slot: Slot, patch: Patch) -> tuple[str | None, str | None]:
    requests = slot.plan.requests if slot.plan is not None else ()
    resolved = next((resolved for resolved, other in requests if other is patch), None)
    if resolved is None:
        return patch.target.partition(":")[0], None
    return resolved.module, str(resolved.file)


def announce(new: Sequence[Slot], births: Births, emit: Callable[[Event], None]) -> None:
    """Tell what came of toggles that have just been reverted: patches wait, or are in effect already."""
    for slot in new:
        waiting = {id(item.patch): item for item in slot.plan.waiting} if slot.plan else {}
        for patch in slot.toggle.patches:
            item = waiting.get(id(patch))
            if item is not None:
                emit(Armed(slot.id, patch.target, item.module))
        for state in overview([slot], births)[0].patches:
            if state.state == "active":
                place = (state.module, state.module_file)
                emit(Activated(slot.id, state.target, *place, state.mode, "live", state.note))
