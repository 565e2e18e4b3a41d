"""The engine: plans toggles, puts all of them in effect or none, and takes them back.

There is one engine in a process, and everything that changes goes through it under one lock. What it does
for a call is always the same: plan, verify, install; on a failure undo in reverse.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Literal

from prtoggle.dynamo import forget_compiled
from prtoggle.handle import Handle
from prtoggle.heap import caches_around
from prtoggle.plans import relations
from prtoggle.plans.births import Births
from prtoggle.plans.closures import inner_moves
from prtoggle.plans.flips import flip_off, flip_on, is_current, is_plain
from prtoggle.plans.known_slots import KnownSlots
from prtoggle.plans.live_plan import LivePlanner
from prtoggle.plans.loading import Loading
from prtoggle.plans.overview import announce, overview
from prtoggle.plans.planning import PlanMaker
from prtoggle.plans.restoring import born_plan, prepare_restore
from prtoggle.plans.second_asking import refuse_ineffective
from prtoggle.plans.shadows import shadows_of
from prtoggle.plans.site_maker import SiteMaker
from prtoggle.plans.sites import SiteRegistry
from prtoggle.plans.undo import Undo, show
from prtoggle.states import Restored

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from prtoggle.errors import PrToggleError
    from prtoggle.installers.base import Observer
    from prtoggle.plans.shadows import Request, Shadow
    from prtoggle.plans.sites import Site
    from prtoggle.plans.slots import Slot
    from prtoggle.spec import Toggle
    from prtoggle.states import Event, ToggleState

Origin = Literal["api", "env"]


class Engine:
    """All toggles of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._slots = KnownSlots()
        self._active: dict[Slot, None] = {}
        self._subscribers: list[Callable[[Event], None]] = []
        self._births = Births()
        self._sites = SiteMaker(SiteRegistry(), self._births)
        self._live = LivePlanner(self._sites)
        self.loading = Loading(self, self._births)
        self.observer: Observer | None = None
        # Whether any toggle in force names others, which a flip then has to respect.
        self._related = False

    def active(self) -> list[Slot]:
        """The toggles that are in force, in the order in which they came to be."""
        return list(self._active)

    def emit(self, event: Event) -> None:
        """Tell the subscribers."""
        for callback in self._subscribers:
            callback(event)

    def load_failed(self, error: PrToggleError) -> None:
        """Act on the failure of an at-load edit; returning lets the error be raised out of the import."""
        if on_load_failure is not None:
            on_load_failure(error)

    def subscribe(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call `callback` with every event from now on; returns what ends that."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def known(self, toggle_id: str) -> Toggle | None:
        """The toggle of that id as it was last asked for; waits for nobody."""
        slot = self._slots.get(toggle_id)
        return None if slot is None else slot.toggle

    def states(self) -> list[ToggleState]:
        """How every toggle that is in force stands."""
        with self.lock:
            return overview(self.active(), self._births)

    def shadows(self, module: ModuleType, requests: Sequence[Request]) -> list[Shadow]:
        """Both variants of what the requests edit in a loaded module; nothing is put in effect."""
        with self.lock:
            return shadows_of(self._live, module, requests)

    def revert(self, toggles: Sequence[Toggle], *, origin: Origin = "api", observe: bool = False) -> Handle:
        """Take the fixes of all `toggles` out, or raise a PrToggleError with nothing changed."""
        with self.lock:
            quick = self._flipped_on(toggles) if len(toggles) == 1 and not observe else None
            if quick is not None:
                return Handle(self, (quick,))
            slots = tuple(dict.fromkeys([self._slots.of(toggle) for toggle in toggles]))
            new = [slot for slot in slots if not slot.handles]
            refuse_ineffective([slot for slot in slots if slot.handles], self._births)
            if new:
                self._activate(new, origin, observe=observe)
            for slot in slots:
                slot.handles += 1
                self._active[slot] = None
                self._related = self._related or slot.is_related
            if new and self._subscribers:
                announce(new, self._births, self.emit)
            return Handle(self, slots)

    def _flipped_on(self, toggles: Sequence[Toggle]) -> Slot | None:
        """The slot of a toggle that came into effect the short way."""
        slot = self._slots.get(toggles[0].id)
        if slot is None or slot.toggle is not toggles[0] or slot.handles or self._related:
            return None
        if not (is_plain(slot) and flip_on(slot)):
            return None
        slot.handles = 1
        self._active[slot] = None
        self._flipped(slot)
        if self._subscribers:
            announce([slot], self._births, self.emit)
        return slot

    def _flipped(self, slot: Slot) -> None:
        self.loading.changed(())
        self._forget_compiled([slot])

    def _activate(self, new: list[Slot], origin: Origin, *, observe: bool) -> None:
        if self._related or any(slot.is_related for slot in new):
            relations.refuse_conflicts(new, self.active())
        for slot in new:
            if slot.plan is None or slot.observed != observe or not is_current(slot.plan):
                slot.observed = observe
                slot.plan = PlanMaker(self._live, slot, early=origin == "env").make()
        observer = self.observer if observe else None
        targets = _targets(new)
        wanted = {site: site.shown | slots for site, slots in targets.items()}
        for site, slots in wanted.items():
            site.prepare(slots, self.observer)
        self.loading.check(new, imports=origin == "api")
        with Undo() as undo:
            for slot in new:
                undo.append(partial(relations.put_variables_back, slot, [*self._active, *new]))
                relations.set_variables(slot, [*self._active, *new])
            show(wanted, undo)
            for slot in new:
                for patch, step in slot.plan.steps if slot.plan else ():
                    if observer is not None:
                        observer.step(slot.id, patch.target, step)
                    step.install()
                    undo.append(step.restore)
        self.loading.changed(new)
        self._forget_compiled(new)

    def _forget_compiled(self, slots: Sequence[Slot]) -> None:
        if "torch._dynamo" in sys.modules and any(
            slot.plan and (slot.plan.sites or slot.plan.steps) for slot in slots
        ):
            forget_compiled()

    def release(self, slots: Sequence[Slot]) -> None:
        """Give up one hold on each of `slots`; those that nobody holds any more are restored, all or none.

        The caller holds the lock.
        """
        last = [slot for slot in slots if slot.handles == 1]
        if last and not self._flipped_off(last):
            self._restore(last)
        for slot in slots:
            slot.handles -= 1
            if not slot.handles:
                del self._active[slot]
        if self._related:
            self._related = any(slot.is_related for slot in self._active)
        for slot in last if self._subscribers else ():
            for patch in slot.toggle.patches:
                self.emit(Restored(slot.id, patch.target))

    def _flipped_off(self, last: list[Slot]) -> bool:
        """Whether a single toggle went out of effect the short way."""
        if len(last) > 1 or self._related or self._births.has(last[0]):
            return False
        if not (is_plain(last[0]) and flip_off(last[0])):
            return False
        last[0].failures.clear()
        self._flipped(last[0])
        return True

    def _restore(self, last: list[Slot]) -> None:
        relations.refuse_required(last, [slot for slot in self.active() if slot not in last])
        leaving = frozenset(last)
        born, reverse = born_plan(last, self._births, self._sites)
        targets = dict.fromkeys([*_targets(last), *born])
        for site in targets:
            prepare_restore(site, site.shown - leaving, self.observer)
        moves = [move for site in dict.fromkeys(born) for move in inner_moves(site, site.shown - leaving)]
        with Undo() as undo:
            for slot in reversed(last):
                for _, step in reversed(slot.steps):
                    step.restore()
                    undo.append(step.install)
            for step in reverse:
                step.install()
                undo.append(step.restore)
            show({site: site.shown - leaving for site in targets}, undo)
            for function, before, after in moves:
                function.__code__ = after
                undo.append(partial(setattr, function, "__code__", before))
            for cache in caches_around([function for function, _, _ in moves]):
                cache.cache_clear()
        for slot in last:
            relations.put_variables_back(slot, self.active())
            for birth in self._births.with_slot(slot):
                birth.put_back.add(slot)
            slot.failures.clear()
        self.loading.changed(())
        if (targets or reverse or any(slot.steps for slot in last)) and "torch._dynamo" in sys.modules:
            forget_compiled()


def _targets(slots: Sequence[Slot]) -> dict[Site, frozenset[Slot]]:
    """The functions that the toggles edit live, each with those that edit it."""
    found: dict[Site, frozenset[Slot]] = {}
    for slot in slots:
        for site, _ in slot.sites:
            found[site] = found.get(site, frozenset()) | {slot}
    return found


_engine = Engine()


def _before_fork() -> None:
    # A child must not inherit half of what another thread is doing: a toggle that is noted and not in effect.
    _engine.lock.acquire()


def _after_fork_in_parent() -> None:
    _engine.lock.release()


def _after_fork() -> None:
    # Held by the thread that forked.
    _engine.lock = threading.RLock()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork)

#: Called when an at-load edit fails, before the error is raised out of the import.
on_load_failure: Callable[[PrToggleError], None] | None = None


def revert(toggles: Sequence[Toggle], *, origin: Origin = "api", observe: bool = False) -> Handle:
    """Take the fixes of all `toggles` out, or raise a PrToggleError with nothing changed.

    With the origin "env" a module that no finder knows yet is waited for, by name. `observe` lets the
    engine's observer take part, to tell whether the reverted code is reached.
    """
    return _engine.revert(toggles, origin=origin, observe=observe)


def shadows(module: ModuleType, requests: Sequence[Request]) -> list[Shadow]:
    """The functions of a loaded module that the requests edit, as they run and as they would run reverted."""
    return _engine.shadows(module, requests)


def states() -> list[ToggleState]:
    """How every toggle that is in force stands, in the order in which they were first asked for."""
    return _engine.states()


def subscribe(callback: Callable[[Event], None]) -> Callable[[], None]:
    """Call `callback` with every event from now on; returns what ends that. The callback must not raise."""
    return _engine.subscribe(callback)


def known(toggle_id: str) -> Toggle | None:
    """The toggle of that id as it was last asked for, or None. Takes no lock: probes ask, from any thread."""
    return _engine.known(toggle_id)


def emit(event: Event) -> None:
    """Tell every subscriber of something that the engine's observer has seen."""
    _engine.emit(event)


def observe_with(observer: Observer | None) -> None:
    """Let `observer` take part in compiling the toggles that are reverted with `observe`."""
    _engine.observer = observer
