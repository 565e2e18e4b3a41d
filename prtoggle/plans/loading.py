"""What happens when a module of a toggle is loaded: it gets edited code, and what it defines is looked at."""

from __future__ import annotations

import ast
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from prtoggle.code.region import rewrites
from prtoggle.errors import PrToggleError
from prtoggle.installers import after_load, value, wrapper
from prtoggle.installers.arrivals import is_unloaded
from prtoggle.installers.at_load import Hook, file_identity, same_file
from prtoggle.installers.base import LivePatch
from prtoggle.plans.in_force import verify_load
from prtoggle.plans.load_plan import edits_source, normalised, plan_file, refuse_missing_imports
from prtoggle.plans.module_code import ModuleEdits, compile_edited
from prtoggle.plans.past_us import awaited_modules, came_past, find_wraps, refusal
from prtoggle.plans.spots import spot_of
from prtoggle.source.integrity import invalid_edit
from prtoggle.source.splices import edited_line_map
from prtoggle.states import Activated, Failed, Loaded
from prtoggle.target import ResolvedTarget, split_name, split_target

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence
    from importlib.machinery import SourceFileLoader
    from types import CodeType, ModuleType

    from prtoggle.errors import UnsupportedTargetError
    from prtoggle.installers.base import Observer, Spot
    from prtoggle.plans.births import Birth, Births
    from prtoggle.plans.slots import Slot, Waiting
    from prtoggle.spec import Patch
    from prtoggle.states import Event

Request = tuple["Slot", ResolvedTarget, "Patch"]


class Host(Protocol):
    """The engine, as far as loading needs it."""

    lock: threading.RLock
    observer: Observer | None

    def active(self) -> Sequence[Slot]:
        """The toggles that are in force."""

    def emit(self, event: Event) -> None:
        """Tell the subscribers."""

    def load_failed(self, error: PrToggleError) -> None:
        """Act on the failure of an at-load edit; returning lets the error be raised out of the import."""


class Loading:
    """Answers the import system for the toggles that are in force."""

    def __init__(self, host: Host, births: Births) -> None:
        self._host = host
        self._births = births
        self._active = host.active
        self._emit = host.emit
        self._hook = Hook(self)
        # By file name alone, by full module name, and by top-level name: quick answers for every import
        # there is.
        self._basenames: frozenset[str] = frozenset()
        self._identities: frozenset[tuple[int, int] | None] = frozenset()
        self._names: frozenset[str] = frozenset()
        self._awaited: frozenset[str] = frozenset()
        self._pending: frozenset[str] = frozenset()
        self._stale = False

    def changed(self, new: Sequence[Slot]) -> None:
        """Take note that other toggles are in force than before, `new` among them."""
        self._stale = True
        self._hook.install()
        for slot in new:
            for item in slot.waiting:
                if item.resolved is None and not item.patch.changes_source:
                    after_load.watch(item.module, self._wrap_after_load)

    def stop(self) -> None:
        """Leave the import system as it was before the first toggle."""
        self._hook.remove()

    def wants_module(self, name: str) -> bool:
        """See at_load.Edits."""
        if self._stale:
            self._refresh()
        return name in self._names or name.partition(".")[0] in self._pending

    def wants_file(self, path: str) -> bool:
        """See at_load.Edits."""
        if self._stale:
            self._refresh()
        known = os.path.basename(path) in self._basenames or file_identity(path) in self._identities  # noqa: PTH119  # every import
        return known and bool(self._requests(path))

    def _refresh(self) -> None:
        # Without the lock: whoever holds it may be waiting for the very import that asks here.
        self._stale = False
        requests = [resolved for slot in self._active() for resolved, _ in slot.requests]
        self._names = frozenset(resolved.module for resolved in requests)
        self._basenames = frozenset(resolved.file.name for resolved in requests)
        self._identities = frozenset(map(file_identity, {str(resolved.file) for resolved in requests})) - {
            None
        }
        self._pending = frozenset(item.patch.target.partition(".")[0] for _, item in self._unresolved())
        self._awaited = awaited_modules(self._active())

    def _unresolved(self) -> list[tuple[Slot, Waiting]]:
        return [
            (slot, item)
            for slot in self._active()
            for item in slot.waiting
            if item.resolved is None and edits_source(item.patch)
        ]

    def _requests(self, path: str) -> list[Request]:
        return _requests_for(self._active(), path)

    def _resolve_pending(self, name: str) -> None:
        """Find the modules of patches that were asked for before sys.path was complete."""
        for slot, item in self._unresolved():
            if item.patch.target.partition(".")[0] != name.partition(".")[0]:
                continue
            assert slot.plan is not None, slot.id
            try:
                resolved = split_target(item.patch.target)
            except PrToggleError as error:
                self._failed([(slot, item.patch)], error)
                raise
            item.module, item.resolved = resolved.module, resolved
            slot.plan.requests.append((resolved, item.patch))
            self._stale = True

    def _requests_of_name(self, name: str, path: str) -> list[Request]:
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
        return self._requests(path)

    def check(self, slots: Sequence[Slot], *, imports: bool) -> None:
        """Plan, on their texts alone, the files that wait for `slots`; raises what their load would raise."""
        waiting = [item for slot in slots for item in slot.waiting if item.resolved is not None]
        for resolved in {item.resolved.file: item.resolved for item in waiting if item.resolved}.values():
            path = str(resolved.file)
            source = normalised(resolved.file.read_bytes(), path)
            plan_file(resolved.module, source, self._requests_of(slots, path))
            if imports:
                refuse_missing_imports(source, resolved, resolved.text)

    def _requests_of(self, slots: Sequence[Slot], path: str) -> list[Request]:
        others = [slot for slot in self._active() if slot not in slots]
        return _requests_for([*others, *slots], path)

    def code(self, loader: SourceFileLoader, name: str, path: str) -> CodeType | None:
        """See at_load.Edits."""
        with self._host.lock:
            self._resolve_pending(name)
            requests = self._requests(path) or self._requests_of_name(name, path)
            if not requests:
                return None
            try:
                source = normalised(loader.get_data(path), path)
                edits = plan_file(name, source, requests)
                code, birth = self._compiled(loader, edits)
            except PrToggleError as error:
                self._failed([(slot, patch) for slot, _, patch in requests], error)
                raise
            except SyntaxError as error:
                # What parses need not compile.
                invalid = invalid_edit(error, edits.splices)
                self._failed([(slot, patch) for slot, _, patch in requests], invalid)
                raise invalid from error
            self._births.add(birth)
            for slot, _, patch in requests:
                slot.failures.pop(patch.target, None)
                self._emit(Loaded(slot.id, patch.target, name, path))
            return code

    def _compiled(self, loader: SourceFileLoader, edits: ModuleEdits) -> tuple[CodeType, Birth]:
        compiled = _compiler(loader, edits)
        code, birth = compile_edited(edits, compiled)
        birth.rewritten = rewrites(loader)
        for unit in birth.units:
            unit.plain = unit.code
        observer = self._host.observer
        if observer is None or not any(slot.observed for slot in birth.slots):
            return code, birth
        plain = code
        spots = _all_spots(edits)
        if observer.needs_probes(spots):
            tree = ast.parse(edits.edited)
            observer.instrument(tree, spots)
            code, probed = compile_edited(edits, compiled, tree=tree, like=birth)
            for unit, other in zip(birth.units, probed.units, strict=True):
                unit.code = other.code
        for unit in birth.units:
            if unit.plain is not None and unit.code is not None:
                target = f"{birth.name}.{unit.qualname}"
                observer.compiled(unit.plain, unit.code, unit.spots, birth.name, target)
        if birth.spots:
            observer.compiled(plain, code, birth.spots, birth.name, birth.name)
        return code, birth

    def loaded(self, module: ModuleType, present: object) -> None:
        """See at_load.Edits."""
        with self._host.lock:
            path = str(getattr(module, "__file__", ""))
            birth = self._births.of_path(path)
            if birth is None or birth.verified:
                return
            requests = [request for request in self._requests(path) if request[0] in birth.slots]
            try:
                for slot, resolved, patch in requests:
                    verify_load(birth, module, present, slot, resolved, patch)
            except PrToggleError as error:
                self._births.discard(birth)
                self._failed([(slot, patch) for slot, _, patch in requests], error)
                raise
            birth.verified = True
            for slot, _, patch in requests:
                self._emit(Activated(slot.id, patch.target, module.__name__, path, patch.mode, "at load"))

    def _wrap_after_load(self, module: ModuleType) -> None:
        self._wrap_in(module.__name__, module, again=True)

    def _wrap_in(self, name: str, module: ModuleType, *, again: bool) -> None:
        with self._host.lock:
            for slot in self._active():
                for item in slot.waiting:
                    if (
                        item.module == name
                        and item.resolved is None
                        and not item.patch.changes_source
                        and (again or item.step is None)
                    ):
                        self._wrap(slot, item, module)

    def _wrap(self, slot: Slot, item: Waiting, module: ModuleType) -> None:
        _, qualname = split_name(item.patch.target)
        plan = value.plan if item.patch.mode == "value" else wrapper.plan
        try:
            step = plan(LivePatch(slot.id, item.patch, module, qualname))
            if self._host.observer is not None and slot.observed:
                self._host.observer.step(slot.id, item.patch.target, step)
            step.install()
        except PrToggleError as error:
            slot.failures[item.patch.target] = error
            self._emit(Failed(slot.id, item.patch.target, error))
            self._host.load_failed(error)
            raise
        item.step = step
        slot.failures.pop(item.patch.target, None)
        file = getattr(module, "__file__", None)
        self._emit(Activated(slot.id, item.patch.target, module.__name__, file, item.patch.mode, "at load"))

    def arrived(self, name: str, module: ModuleType) -> None:
        """See at_load.Edits."""
        if self._stale:
            self._refresh()
        if name not in self._awaited or is_unloaded(module):
            return
        with self._host.lock:
            if find_wraps(self._active(), name):
                after_load.watch(name, self._wrap_after_load)
            # A finder in front of wrapt's has kept its hook from being called.
            self._wrap_in(name, module, again=False)
            past = came_past(self._active(), name, self._births)
            if past:
                error = refusal(past[0][1], name)
                self._failed([(slot, item.patch) for slot, item in past], error)
                raise error

    def foreign(self, name: str, error: UnsupportedTargetError) -> None:
        """See at_load.Edits."""
        with self._host.lock:
            wanting = [
                (slot, patch)
                for slot in self._active()
                for resolved, patch in slot.requests
                if resolved.module == name
            ]
            self._failed(wanting, error)

    def _failed(self, wanting: Iterable[tuple[Slot, Patch]], error: PrToggleError) -> None:
        for slot, patch in wanting:
            slot.failures[patch.target] = error
            self._emit(Failed(slot.id, patch.target, error))
        self._host.load_failed(error)


def _requests_for(slots: Iterable[Slot], path: str) -> list[Request]:
    """What the toggles ask of the file, in their order."""
    return [
        (slot, resolved, patch)
        for slot in slots
        for resolved, patch in slot.requests
        if same_file(str(resolved.file), path)
    ]


def _compiler(loader: SourceFileLoader, edits: ModuleEdits) -> Callable[[ast.Module], CodeType]:
    """The loader's own way from a syntax tree to code, or from text where it accepts nothing else."""

    def compiled(tree: ast.Module) -> CodeType:
        try:
            code: CodeType = loader.source_to_code(tree, edits.source.path)
        except Exception:  # whatever a rewriter raises that wants bytes and gets a tree
            if not rewrites(loader):
                raise
            code = loader.source_to_code(edits.edited.encode(edits.source.encoding), edits.source.path)
        return code

    return compiled


def _all_spots(edits: ModuleEdits) -> list[Spot]:
    """Where each edit shows, in lines of the edited text."""
    return [spot_of(lines, edits.source.text) for lines in edited_line_map(edits.source.text, edits.splices)]
