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
from dataclasses import replace
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
        # Edits that a probe tells of, of the tree that was instrumented last.
        self._by_probe: set[Reach] = set()
        # How many lines the statements have where its deletions stood.
        self._heights: dict[Reach, int] = {}
        self.calls: set[Call] = set()
        self.reaches: set[Reach] = set()
        self._kernels = _Kernels()
        self._wraps: list[tuple[weakref.ref[WrapStep], str, str]] = []
        os.register_at_fork(after_in_child=self._begin_anew)

    def needs_probes(self, spots: Sequence[Spot]) -> bool:
        """See base.Observer. Where a deletion stood, and whether any event comes from there, a tree tells."""
        return self._monitor is None or any(spot.indent is not None for spot in spots)

    def instrument(self, tree: ast.AST, spots: Sequence[Spot]) -> None:
        """See base.Observer."""
        self._by_probe = set()
        self._heights = {}
        places: list[tuple[Block, Callable[[], None]]] = []
        seen: set[tuple[int, str, str]] = set()
        for spot in spots:
            location = locate_spot(tree, spot)
            if location is None:
                continue
            self._heights[_key(spot)] = location.height
            if self._monitor is not None and not location.is_block_end:
                continue
            self._by_probe.add(_key(spot))
            key = (id(location.function), spot.toggle_id, spot.target)
            if self._monitor is None and location.called is not None and key not in seen:
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
        if installed is not plain and self._instrumented is not None:
            probes.register(plain, installed, self._instrumented, has_forms=self._monitor is None)
        if self._monitor is None:
            return
        for code in {id(plain): plain, id(installed): installed}.values():
            for patch in {_key(spot)[:2]: spot for spot in spots}.values():
                own = [spot for spot in spots if _key(spot)[:2] == _key(patch)[:2]]
                heard = [spot for spot in own if installed is plain or _key(spot) not in self._by_probe]
                reached = [(self._in_full(spot), self._reached(spot)) for spot in heard]
                self._monitor.watch(code, self._called(patch), reached)

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
        """Forget what was called and reached, and listen again."""
        if self.calls or self.reaches:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """As a forked child does, even from nothing: a thread of its parent may have been about to tell."""
        self.calls.clear()
        self.reaches.clear()
        probes.rearm_all()
        if self._monitor is not None:
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

    def _in_full(self, spot: Spot) -> Spot:
        """The spot of a deletion with all lines of the statement that stands there."""
        if spot.indent is None:
            return spot
        first = spot.lines[0]
        return replace(spot, lines=tuple(range(first, first + self._heights.get(_key(spot), 1))), indent=None)

    def _called(self, spot: Spot) -> Callable[[], None]:
        return functools.partial(self.note_call, (spot.toggle_id, spot.target))

    def _reached(self, spot: Spot) -> Callable[[], None]:
        return functools.partial(self.note_reach, _key(spot))


def _key(spot: Spot) -> Reach:
    return spot.toggle_id, spot.target, spot.edit_index


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
