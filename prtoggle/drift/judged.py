"""Toggles with what became of their code, and the lock files that this is judged by and written to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from prtoggle.drift.candidates import Evidence, search
from prtoggle.drift.classes import Drift, PatchDrift
from prtoggle.drift.classify import classify
from prtoggle.drift.elsewhere import Lost, wanted_of
from prtoggle.drift.lock_file import Lock, LockedTarget, read_lock, write_lock
from prtoggle.drift.locked_code import edited_definition, plain_text, reverted_text
from prtoggle.edits import plan_patch
from prtoggle.static_check import check_toggle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.drift.surroundings import Surroundings
    from prtoggle.spec import Patch, Toggle
    from prtoggle.static_check import ToggleCheck


#: Statuses of a toggle whose edits all have their place and do not go together with the rest of the module.
_LEAVES_NOTHING_WHOLE: Final = ("undefined-name", "invalid-edit", "overlap")


class Judged(NamedTuple):
    """A toggle: whether its edits fit, and, per patch that changes source, what became of its code.

    `drifts` is parallel to the toggle's patches, None for patches of objects; empty without a lock file.
    """

    check: ToggleCheck
    drifts: tuple[PatchDrift | None, ...]

    @property
    def toggle(self) -> Toggle:
        """The toggle itself."""
        return self.check.toggle

    @property
    def drift(self) -> PatchDrift | None:
        """The drift that matters most: a finding before the rest, a change before none."""
        known = [drift for drift in self.drifts if drift is not None]
        order = list(Drift)
        return max(known, key=lambda item: (item.is_finding, order.index(item.drift)), default=None)

    @property
    def is_finding(self) -> bool:
        """Whether somebody has to look at it."""
        return self.check.is_finding or any(drift is not None and drift.is_finding for drift in self.drifts)

    @property
    def healed(self) -> tuple[Patch | None, ...]:
        """The patches to write instead; empty unless every patch that needs it has one."""
        healed = tuple(None if drift is None else drift.healed for drift in self.drifts)
        if not any(healed):
            return ()
        for patch, drift in zip(self.check.patches, self.drifts, strict=True):
            broken = patch.status != "ok" or (drift is not None and drift.is_finding)
            if broken and (drift is None or drift.healed is None):
                return ()
        return healed


@dataclass(slots=True)
class Locks:
    """The lock files beside the catalogues of the toggles, each read once."""

    _read: dict[Path, Lock] = field(default_factory=dict)

    def of(self, toggle: Toggle) -> Lock:
        """The lock beside the toggle's spec, for reading and changing."""
        folder = folder_of(toggle)
        if folder not in self._read:
            self._read[folder] = read_lock(folder)
        return self._read[folder]

    def write(self, keep: Sequence[str] | None = None) -> list[Path]:
        """Write every lock that was read, of it only the ids in `keep`; the folders whose file changed."""
        return [
            folder
            for folder, lock in self._read.items()
            if write_lock(folder, {name: lock[name] for name in lock if keep is None or name in keep})
        ]


def folder_of(toggle: Toggle) -> Path:
    """The folder that the toggle's spec lies in."""
    return Path(toggle.source.file).parent if toggle.source is not None else Path()


def judge(toggle: Toggle, known_ids: Sequence[str] | None, around: Surroundings, locks: Locks) -> Judged:
    """Check the toggle against today's code, and today's code against the lock. Imports no target."""
    check = check_toggle(toggle, known_ids, around.cache)
    lock = locks.of(toggle)
    if check.status == "not-applicable" or not lock:
        return Judged(check, ())
    entries = {locked.target: locked for locked in lock.get(toggle.id, ())}
    drifts = [
        classify(toggle, patch, patch_check, entries.get(patch.target), around)
        if patch.changes_source
        else None
        for patch, patch_check in zip(toggle.patches, check.patches, strict=True)
    ]
    return Judged(check, tuple(_as_a_whole(check, drift) for drift in drifts))


def _as_a_whole(check: ToggleCheck, drift: PatchDrift | None) -> PatchDrift | None:
    """A drift beside which the toggle as a whole leaves no module that stands: somebody has to decide."""
    if drift is None or drift.healed or drift.decision or check.status not in _LEAVES_NOTHING_WHOLE:
        return drift
    if drift.drift is Drift.EDITED_NEAR:
        why = "the function was edited, and later lines build on what the fix brought"
        decision = "what do these lines have to be without the fix? write that into the edit"
        return replace(drift, drift=Drift.EDITED_ON, why=why, decision=decision)
    if drift.drift in (Drift.UNCHANGED, Drift.REFLOWED):
        decision = (
            "what does the code without the fix need that is not there any more? write that into the edit"
        )
        return replace(drift, decision=decision)
    return drift


def lock_toggle(toggle: Toggle, around: Surroundings, locks: Locks) -> None:
    """Enter the code under a toggle whose edits fit; `Locks.write` writes it. Raises PrToggleError."""
    entries: dict[str, LockedTarget] = {}
    for patch in toggle.patches:
        if not patch.changes_source:
            continue
        target = around.cache.resolve(patch.target)
        source, tree = around.cache.get(target)
        splices = plan_patch(source, tree, target, patch, toggle.id)
        definition = edited_definition(source, tree, target, splices)
        assert definition is not None, (patch.target, splices)
        locked = LockedTarget(patch.target, definition.qualname, plain_text(definition.lines))
        others = _others(toggle, patch, locked, around) if locked.name else ()
        entries.setdefault(patch.target, locked._replace(others=others))
    lock = locks.of(toggle)
    if entries:
        lock[toggle.id] = tuple(entries.values())
    else:
        lock.pop(toggle.id, None)


def _others(toggle: Toggle, patch: Patch, locked: LockedTarget, around: Surroundings) -> tuple[str, ...]:
    """The definitions that could be taken for the locked one, were it gone."""
    reverted = reverted_text(locked.text, locked.name, patch) or locked.text
    own = around.cache.resolve(patch.target).module
    found = search(wanted_of(Lost(toggle, patch, locked, reverted)), around.files_near(patch.target))
    alike = {candidate.target for candidate in found if candidate.best > Evidence.MENTION}
    return tuple(sorted(alike - {f"{own}.{locked.name}"}))
