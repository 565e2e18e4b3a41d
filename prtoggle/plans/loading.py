"""What happens when a module of a toggle is loaded: it gets edited code, and what it defines is looked at."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Protocol

from prtoggle.code.region import rewrites
from prtoggle.errors import PrToggleError
from prtoggle.installers import after_load, value, wrapper
from prtoggle.installers.arrivals import is_unloaded
from prtoggle.installers.at_load import Hook
from prtoggle.installers.base import LivePatch
from prtoggle.plans.in_force import verify_load
from prtoggle.plans.load_plan import normalised, plan_file, refuse_missing_imports
from prtoggle.plans.module_code import ModuleEdits, compile_edited
from prtoggle.plans.past_us import came_past, find_wraps, refusal
from prtoggle.plans.spots import spot_of
from prtoggle.plans.wanted import Wanted
from prtoggle.source.integrity import invalid_edit
from prtoggle.source.splices import edited_line_map
from prtoggle.states import Activated, Failed, Loaded
from prtoggle.target import split_name

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
        self._wanted = Wanted(host.active)

    def changed(self, new: Sequence[Slot]) -> None:
        """Take note that other toggles are in force than before, `new` among them."""
        self._wanted.forget()
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
        return self._wanted.has_module(name)

    def wants_file(self, path: str) -> bool:
        """See at_load.Edits."""
        return self._wanted.has_file(path)

    def _resolve_pending(self, name: str) -> None:
        """Find the modules of patches that were asked for before sys.path was complete."""
        for slot, item in self._wanted.unresolved():
            if item.patch.target.partition(".")[0] != name.partition(".")[0]:
                continue
            try:
                self._wanted.resolve(slot, item)
            except PrToggleError as error:
                self._failed([(slot, item.patch)], error)
                raise

    def check(self, slots: Sequence[Slot], *, imports: bool) -> None:
        """Plan, on their texts alone, the files that wait for `slots`; raises what their load would raise."""
        waiting = [item for slot in slots for item in slot.waiting if item.resolved is not None]
        for resolved in {item.resolved.file: item.resolved for item in waiting if item.resolved}.values():
            path = str(resolved.file)
            source = normalised(resolved.file.read_bytes(), path)
            plan_file(resolved.module, source, self._wanted.requests(path, last=slots))
            if imports:
                refuse_missing_imports(source, resolved, resolved.text)

    def code(self, loader: SourceFileLoader, name: str, path: str) -> CodeType | None:
        """See at_load.Edits."""
        with self._host.lock:
            self._resolve_pending(name)
            requests = self._wanted.requests(path) or self._wanted.requests_of_name(name, path)
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
            requests = [request for request in self._wanted.requests(path) if request[0] in birth.slots]
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
        if not self._wanted.is_awaited(name) or is_unloaded(module):
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
