"""The states of toggles, put together from what was planned, loaded and failed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from prtoggle.installers.arrivals import is_unloaded
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


def _patch_state(slot: Slot, patch: Patch, births: Births) -> PatchState:
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
    path = str(waiting.resolved.file) if waiting.resolved is not None else None
    if is_in_effect(slot, waiting, births):
        return PatchState(patch.target, patch.mode, "active", "at load", waiting.module, path)
    if _is_loaded(waiting.module) and (path is not None or not patch.changes_source):
        note = loaded_past_us(waiting.module)
        return PatchState(patch.target, patch.mode, "failed", None, waiting.module, path, note)
    note = "no module of that name was found yet" if path is None and patch.changes_source else ""
    return PatchState(patch.target, patch.mode, "armed", None, waiting.module, path, note)


def is_in_effect(slot: Slot, waiting: Waiting, births: Births) -> bool:
    """Whether a patch that waited for its module has been made."""
    if waiting.step is not None:
        return True
    birth = births.of_path(str(waiting.resolved.file)) if waiting.resolved is not None else None
    return birth is not None and slot in birth.slots and slot not in birth.put_back


def loaded_past_us(module: str) -> str:
    """What is wrong with a module that nobody asked us for the code of."""
    return f"{module} was loaded by other means than Python's source loader, and runs unedited"


def _is_loaded(name: str) -> bool:
    """Whether a module has been executed: one that is just being loaded, or lazily later, has not."""
    module = sys.modules.get(name)
    if module is None or is_unloaded(module):
        return False
    return not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _waiting(slot: Slot, patch: Patch) -> Waiting | None:
    return next((item for item in slot.waiting if item.patch is patch), None)


def _module(slot: Slot, patch: Patch) -> tuple[str | None, str | None]:
    resolved = next((resolved for resolved, other in slot.requests if other is patch), None)
    if resolved is None:
        return patch.target.partition(":")[0], None
    return resolved.module, str(resolved.file)


def announce(new: Sequence[Slot], births: Births, emit: Callable[[Event], None]) -> None:
    """Tell what came of toggles that have just been reverted: patches wait, or are in effect already."""
    for slot in new:
        waiting = {id(item.patch): item for item in slot.waiting}
        for patch in slot.toggle.patches:
            item = waiting.get(id(patch))
            if item is not None:
                emit(Armed(slot.id, patch.target, item.module))
        for state in overview([slot], births)[0].patches:
            if state.state == "active":
                place = (state.module, state.module_file)
                emit(Activated(slot.id, state.target, *place, state.mode, "live", state.note))
