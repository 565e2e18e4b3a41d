"""Which modules and files the toggles in force edit on their way in: a quick answer for every import."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prtoggle.installers.at_load import file_identity, same_file
from prtoggle.plans.load_plan import edits_source
from prtoggle.plans.past_us import awaited_modules
from prtoggle.target import ResolvedTarget, split_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prtoggle.plans.slots import Slot, Waiting
    from prtoggle.spec import Patch

Request = tuple["Slot", ResolvedTarget, "Patch"]


class Wanted:
    """What the toggles in force ask of modules that are not loaded yet, or loaded again."""

    def __init__(self, active: Callable[[], Sequence[Slot]]) -> None:
        self._active = active
        # By file name alone, by full module name, and by top-level name.
        self._basenames: frozenset[str] = frozenset()
        self._identities: frozenset[tuple[int, int] | None] = frozenset()
        self._names: frozenset[str] = frozenset()
        self._awaited: frozenset[str] = frozenset()
        self._pending: frozenset[str] = frozenset()
        self._stale = False

    def forget(self) -> None:
        """Look at the toggles anew, when it is asked next: others are in force."""
        self._stale = True

    def has_module(self, name: str) -> bool:
        """Whether a toggle may want a module of that name."""
        if self._stale:
            self._refresh()
        return name in self._names or name.partition(".")[0] in self._pending

    def has_file(self, path: str) -> bool:
        """Whether a toggle edits that file, by whatever path it is called."""
        if self._stale:
            self._refresh()
        known = os.path.basename(path) in self._basenames or file_identity(path) in self._identities  # noqa: PTH119  # every import
        return known and bool(self.requests(path))

    def is_awaited(self, name: str) -> bool:
        """Whether something has to be looked at when a module of that name has arrived."""
        if self._stale:
            self._refresh()
        return name in self._awaited

    def _refresh(self) -> None:
        # Without the lock: whoever holds it may be waiting for the very import that asks here.
        self._stale = False
        requests = [resolved for slot in self._active() for resolved, _ in slot.requests]
        self._names = frozenset(resolved.module for resolved in requests)
        self._basenames = frozenset(resolved.file.name for resolved in requests)
        self._identities = frozenset(map(file_identity, {str(resolved.file) for resolved in requests})) - {
            None
        }
        self._pending = frozenset(item.patch.target.partition(".")[0] for _, item in self.unresolved())
        self._awaited = awaited_modules(self._active())

    def unresolved(self) -> list[tuple[Slot, Waiting]]:
        """Patches whose module no finder knew when they were asked for."""
        return [
            (slot, item)
            for slot in self._active()
            for item in slot.waiting
            if item.resolved is None and edits_source(item.patch)
        ]

    def resolve(self, slot: Slot, item: Waiting) -> None:
        """Find the module of a patch that was asked for before sys.path was complete; raises TargetError."""
        assert slot.plan is not None, slot.id
        resolved = split_target(item.patch.target)
        item.module, item.resolved = resolved.module, resolved
        slot.plan.requests.append((resolved, item.patch))
        self._stale = True

    def requests(self, path: str, *, last: Sequence[Slot] = ()) -> list[Request]:
        """What the toggles in force, and after them those of `last`, ask of the file, in their order."""
        others = [slot for slot in self._active() if slot not in last]
        return _requests_for([*others, *last], path)

    def requests_of_name(self, name: str, path: str) -> list[Request]:
        """The requests for a module that comes from another file than was found when it was asked for.

        The name is what was asked for: the working directory, or whoever changed `sys.path` since, has put
        another file in front.
        """
        for slot in self._active():
            for item in slot.waiting:
                if slot.plan and item.resolved is not None and item.resolved.module == name:
                    moved = replace(item.resolved, file=Path(path))
                    place = slot.plan.requests.index((item.resolved, item.patch))
                    slot.plan.requests[place] = (moved, item.patch)
                    item.resolved = moved
                    self._stale = True
        return self.requests(path)


def _requests_for(slots: Iterable[Slot], path: str) -> list[Request]:
    """What the toggles ask of the file, in their order."""
    return [
        (slot, resolved, patch)
        for slot in slots
        for resolved, patch in slot.requests
        if same_file(str(resolved.file), path)
    ]
