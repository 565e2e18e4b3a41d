"""Tracing in one process: waits for the modules of the toggles, and puts handlers into their functions."""

from __future__ import annotations

import inspect
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from prtoggle import engine
from prtoggle.errors import ActivationError, PrToggleError, TargetModuleError
from prtoggle.installers import after_load
from prtoggle.plans.planning import loaded_modules
from prtoggle.plans.shadows import Request
from prtoggle.target import ResolvedTarget, dotted_prefixes, split_name
from prtoggle.trace.calls import HANDLERS, keep_out_of
from prtoggle.trace.handler import Handler
from prtoggle.trace.ledger import Ledger
from prtoggle.trace.muted import drop_log_records, drop_warnings
from prtoggle.trace.traced import Traced
from prtoggle.trace.trampoline import trampoline
from prtoggle.trace.whereabouts import EXECUTORS, follow_threads, follow_work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FunctionType, ModuleType

    from prtoggle.plans.shadows import Shadow
    from prtoggle.spec import Patch, Toggle
    from prtoggle.trace.ledger import Write
    from prtoggle.trace.settings import TraceSettings


_COMPILER: Final = "torch._dynamo"


class TraceSession:
    """What is traced in this process; there is one."""

    def __init__(
        self,
        toggles: Sequence[Toggle],
        settings: TraceSettings,
        write: Write,
        fail: Callable[[BaseException], object],
    ) -> None:
        """`write` takes down an event; `fail` ends the process."""
        self._waiting = [(toggle, patch) for toggle in toggles for patch in toggle.patches]
        self._settings = settings
        self._write = write
        self._fail = fail
        self._everybody: list[Traced] = []
        self._ledgers: list[Ledger] = []
        self._done: set[Patch] = set()

    def start(self) -> None:
        """Begin to wait; what is loaded already is traced at once.

        Raises a PrToggleError when a function of a loaded module cannot be traced.
        """
        names = {prefix for _, patch in self._waiting for prefix in dotted_prefixes(patch.target)}
        for name in sorted(names):
            _now_and_after_load(name, self._trace, self._loaded)
        follow_threads()
        _now_and_after_load(EXECUTORS, follow_work)
        _now_and_after_load("logging", drop_log_records)
        drop_warnings()
        _now_and_after_load(_COMPILER, keep_out_of)
        os.register_at_fork(after_in_child=self._forked)

    def _loaded(self, module: ModuleType) -> None:
        try:
            self._trace(module)
        except Exception as error:  # noqa: BLE001  # an import error could be swallowed by the importer
            self._fail(error)

    def _trace(self, module: ModuleType) -> None:
        requests = [
            Request(toggle, patch, resolved)
            for toggle, patch in self._waiting
            if (resolved := _resolved(patch.target)) is not None and resolved.module == module.__name__
        ]
        if not requests:
            return
        # All of a module's variants are made before any of its functions changes.
        for shadow in engine.shadows(module, requests):
            self._install(shadow)
        self._done.update(request.patch for request in requests)

    def _install(self, shadow: Shadow) -> None:
        function = shadow.site.basis.function
        name = shadow.site.basis.target.replace(":", ".")
        settings = self._settings
        traced = Traced(
            function,
            name,
            shadow.toggles,
            shadow.targets,
            shadow.fixed,
            shadow.reverted,
            continues_fixed=settings.continues_fixed,
        )
        ledger = Ledger(len(self._ledgers), name, settings.limit, self._write)
        handler = Handler(
            traced, ledger, self._everybody, max_bytes=settings.max_copy, max_calls=settings.calls
        )
        HANDLERS.append(handler.answer)
        self._everybody.append(traced)
        self._ledgers.append(ledger)
        _exchange(function, traced, len(HANDLERS) - 1)
        for toggle in shadow.toggles:
            self._write("traced", function=name, toggle=toggle, targets=list(shadow.targets))

    def finish(self) -> None:
        """Write what was counted; ends the process when a target was loaded past all that was watched."""
        for ledger in self._ledgers:
            ledger.tell(final=True)
        for toggle, patch in self._waiting:
            if patch not in self._done and _is_loaded(patch.target):
                self._fail(
                    ActivationError(
                        f"toggle {toggle.id}, {patch.target}: its module was loaded in a way that nobody "
                        "could watch (as the main program, or put into sys.modules by hand), so that none "
                        "of its calls was compared"
                    )
                )

    def _forked(self) -> None:
        for ledger in self._ledgers:
            ledger.restart()
        # A worker of multiprocessing ends without what `atexit` holds, and forgets its parent's finalizers.
        util: Any = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(self, _finish_with_worker)


def _finish_with_worker(session: TraceSession) -> None:
    util: Any = sys.modules["multiprocessing.util"]
    util.Finalize(session, session.finish, exitpriority=0)


def _exchange(function: FunctionType, traced: Traced, number: int) -> None:
    """Put the handler into the function. Its defaults stay, for they are filled in before a call arrives."""
    binds_alike = traced.binds_alike
    if not binds_alike:
        function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # as inspect reads it
    function.__code__ = trampoline(function.__code__, number, bound=binds_alike)


def _now_and_after_load(
    name: str,
    act: Callable[[ModuleType], None],
    after: Callable[[ModuleType], None] | None = None,
) -> None:
    """Act on a module that is loaded, and on every load from now on; then by `after`, where that differs."""
    after_load.watch(name, after or act)
    module = sys.modules.get(name)
    if module is not None:
        act(module)


def _resolved(target: str) -> ResolvedTarget | None:
    """Where the target lies, as far as the finders know by now."""
    try:
        found, qualname = split_name(target)
    except TargetModuleError:
        return None
    return None if found.path is None else ResolvedTarget(found.name, qualname, found.path)


def _is_loaded(target: str) -> bool:
    try:
        found, _ = split_name(target)
    except PrToggleError:
        return False
    return bool(loaded_modules(found))
