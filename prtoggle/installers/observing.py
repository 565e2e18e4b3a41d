"""Tells, each once, that the function of a patch was called and that the statement of an edit was reached.

"Reached" of a replacement is its first statement, of a deletion the statement that now stands at its place.
From Python 3.13 on this is the work of `sys.monitoring`; before, and where other tools have taken all of its
free ids, it is done by probes in the code.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from prtoggle.installers import probes, triton_use
from prtoggle.installers.monitoring import make_monitor
from prtoggle.installers.spot_places import locate_spot
from prtoggle.installers.wrapper import WrapStep

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Sequence
    from types import CodeType

    from prtoggle.installers.base import Spot, Step
    from prtoggle.installers.spot_places import Block

# (toggle id, target) of a patch; (toggle id, target, edit index) of an edit.
Call = tuple[str, str]
Reach = tuple[str, str, int]


class ReachObserver:
    """The observer of this process. `tell_call` and `tell_reach` are called at most once for each key.

    They run in the thread and at the place where it happened; what they raise is reported as unraisable, so
    that the observed program goes on as it would unobserved.
    """

    def __init__(self, tell_call: Callable[[Call], None], tell_reach: Callable[[Reach], None]) -> None:
        self._tell_call = tell_call
        self._tell_reach = tell_reach
        self._monitor = make_monitor()
        self._instrumented: probes.Instrumented | None = None
        self.needs_probes = self._monitor is None
        self.calls: set[Call] = set()
        self.reaches: set[Reach] = set()
        self._kernels = _Kernels()
        self._wraps: list[tuple[weakref.ref[WrapStep], str, str]] = []
        os.register_at_fork(after_in_child=self.rearm)

    def instrument(self, tree: ast.AST, spots: Sequence[Spot]) -> None:
        """See base.Observer."""
        places: list[tuple[Block, Callable[[], None]]] = []
        seen: set[tuple[int, str, str]] = set()
        for spot in spots:
            location = locate_spot(tree, spot)
            if location is None:
                continue
            key = (id(location.function), spot.toggle_id, spot.target)
            if location.called is not None and key not in seen:
                seen.add(key)
                places.append((location.called, self._called(spot)))
            places.append((location.reached, self._reached(spot)))
        self._instrumented = probes.insert(tree, places)

    def compiled(
        self, plain: CodeType, installed: CodeType, spots: Sequence[Spot], module: str, target: str
    ) -> None:
        """See base.Observer."""
        del module, target
        self._kernels.watch(plain, installed, [self._called(spot) for spot in spots])
        self._kernels.watch(plain, installed, [self._reached(spot) for spot in spots])
        if self._monitor is None:
            if installed is not plain and self._instrumented is not None:
                probes.register(plain, installed, self._instrumented)
            return
        by_patch: dict[Call, list[tuple[Spot, Callable[[], None]]]] = {}
        for spot in spots:
            by_patch.setdefault((spot.toggle_id, spot.target), []).append((spot, self._reached(spot)))
        for reached in by_patch.values():
            self._monitor.watch(plain, self._called(reached[0][0]), reached)

    def step(self, toggle_id: str, target: str, step: Step) -> None:
        """See base.Observer. A wrapper is reached when it is called; that a value was read cannot be seen."""
        if isinstance(step, WrapStep):
            self._wraps.append((weakref.ref(step), toggle_id, target))
            self._watch_wrap(step, toggle_id, target)

    def _watch_wrap(self, step: WrapStep, toggle_id: str, target: str) -> None:
        def called() -> None:
            self.note_call((toggle_id, target))
            self.note_reach((toggle_id, target, 0))

        if (toggle_id, target) not in self.calls:
            step.report_calls(called)

    def rearm(self) -> None:
        """Forget what was called and reached, and listen again: a forked child starts from nothing."""
        if self.calls or self.reaches:
            self.calls.clear()
            self.reaches.clear()
            if self._monitor is None:
                probes.rearm_all()
            else:
                self._monitor.rearm_all()
            for known, toggle_id, target in self._wraps:
                step = known()
                if step is not None:
                    self._watch_wrap(step, toggle_id, target)

    def note_call(self, key: Call) -> None:
        """Take note that a patch's target was called, and tell it the first time."""
        if key not in self.calls:
            self.calls.add(key)
            _safely(self._tell_call, key)

    def note_reach(self, key: Reach) -> None:
        """Take note that an edit was reached; tell it the first time."""
        if key not in self.reaches:
            self.reaches.add(key)
            _safely(self._tell_reach, key)

    def _called(self, spot: Spot) -> Callable[[], None]:
        return functools.partial(self.note_call, (spot.toggle_id, spot.target))

    def _reached(self, spot: Spot) -> Callable[[], None]:
        return functools.partial(self.note_reach, (spot.toggle_id, spot.target, spot.edit_index))


class _Kernels:
    """Observed functions by their codes, of which some are the functions of Triton kernels."""

    def __init__(self) -> None:
        self._told: dict[int, list[Callable[[], None]]] = {}
        triton_use.watch(self._used)

    def watch(self, plain: CodeType, installed: CodeType, told: Sequence[Callable[[], None]]) -> None:
        """Call what is in `told` when a kernel made from one of the two is used."""
        for code in {id(plain): plain, id(installed): installed}.values():
            if id(code) not in self._told:
                self._told[id(code)] = []
                weakref.finalize(code, self._told.pop, id(code), None).atexit = False
            self._told[id(code)] += told

    def _used(self, code: CodeType) -> None:
        for tell in self._told.get(id(code), ()):
            tell()


def _safely(tell: Callable[[Any], None], key: object) -> None:
    try:
        tell(key)
    except Exception as error:  # noqa: BLE001  # the program that is observed must not see it
        sys.unraisablehook(
            SimpleNamespace(
                exc_type=type(error),
                exc_value=error,
                exc_traceback=error.__traceback__,
                err_msg="Exception ignored while prtoggle reported a call",
                object=tell,
            )
        )
