"""Reach by `sys.monitoring` (Python 3.13 and later): events of single code objects, each heard once.

The code that runs is the edited code itself. An event that came is disabled at its place, so that a function
costs what it would without once each of its lines was run; lines that never run cost nothing anyway.

Python 3.12 has the same interface, but a place that was instrumented there never gets its fused instructions
back: 5% more for good (callgrind). Probes leave nothing behind there. From 3.13 on it is the other way round:
exchanging a code object, as probes do, is what costs for good.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, Final

from prtoggle.recompile import all_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType

    from prtoggle.installers.base import Spot

_NAME: Final = "prtoggle"
# 0, 1, 2 and 5 are meant for debuggers, coverage, profilers and optimisers.
_TOOL_IDS: Final = (4, 3)

_monitoring: Any = getattr(sys, "monitoring", None)


class Monitor:
    """The process's one user of `sys.monitoring` for reach."""

    def __init__(self, tool_id: int) -> None:
        self._tool_id = tool_id
        # Watched code objects by id; an entry goes when its code object does.
        self._codes: dict[int, _Watched] = {}
        # Counts how often it began again. An event that came before must not disable its place after that.
        self._beginnings = 0
        events = _monitoring.events
        _monitoring.register_callback(tool_id, events.PY_START, self._started)
        _monitoring.register_callback(tool_id, events.LINE, self._line)

    def watch(
        self, code: CodeType, called: Callable[[], None], reached: Sequence[tuple[Spot, Callable[[], None]]]
    ) -> None:
        """Call `called` when the function starts, and what comes with each spot when it is reached."""
        if code.co_name != "<module>":
            self._watched(code).called.append(called)
        for spot, told in reached:
            found = _trigger(code, spot)
            if found is None and _is_header(code, spot):
                self._watched(code).called.append(told)
            elif found is not None:
                part, lines = found
                self._watched(part).lines.append((lines, told))
                if part.co_name == "<lambda>" and part is not code:
                    self._watched(part).called.append(called)
        for part in all_codes(code):
            self._arm(part)

    def rearm_all(self) -> None:
        """Begin again, as after a fork: what the parent's calls reached says nothing of the child's."""
        self._beginnings += 1
        for watched in list(self._codes.values()):
            code = watched.code()
            if code is not None:
                _monitoring.set_local_events(self._tool_id, code, 0)
                self._arm(code)

    def _watched(self, code: CodeType) -> _Watched:
        known = self._codes.get(id(code))
        if known is None:
            known = self._codes[id(code)] = _Watched(weakref.ref(code))
            weakref.finalize(code, self._codes.pop, id(code), None).atexit = False
        return known

    def _arm(self, code: CodeType) -> None:
        watched = self._codes.get(id(code))
        if watched is not None:
            events = _monitoring.events
            wanted = (events.PY_START if watched.called else 0) | (events.LINE if watched.lines else 0)
            _monitoring.set_local_events(self._tool_id, code, wanted)

    def _started(self, code: CodeType, _offset: int) -> object:
        beginning, watched = self._beginnings, self._codes.get(id(code))
        for told in watched.called if watched else ():
            told()
        return _monitoring.DISABLE if beginning == self._beginnings else None

    def _line(self, code: CodeType, line: int) -> object:
        beginning, watched = self._beginnings, self._codes.get(id(code))
        for lines, told in watched.lines if watched else ():
            if line in lines:
                told()
        return _monitoring.DISABLE if beginning == self._beginnings else None


class _Watched:
    def __init__(self, code: weakref.ref[CodeType]) -> None:
        self.code = code
        self.called: list[Callable[[], None]] = []
        self.lines: list[tuple[frozenset[int], Callable[[], None]]] = []


def make_monitor() -> Monitor | None:
    """A monitor with a tool id of its own; None before Python 3.13 and when other tools hold all free ids."""
    if sys.version_info < (3, 13):
        return None
    for tool_id in _TOOL_IDS:
        if _monitoring.get_tool(tool_id) is None:
            _monitoring.use_tool_id(tool_id, _NAME)
            return Monitor(tool_id)
    return None


def _trigger(code: CodeType, spot: Spot) -> tuple[CodeType, frozenset[int]] | None:
    """The code object, and lines of it, whose event means that the spot was reached; None when none does."""
    # A function that was edited itself is in another file.
    parts = [part for part in all_codes(code) if part.co_filename == code.co_filename]
    if code.co_name == "<module>":
        lambdas = [part for part in parts if part.co_name == "<lambda>" and _inside(part, spot)]
        parts = lambdas or parts
    found = [(part, _inside(part, spot)) for part in parts]
    found = [(part, lines) for part, lines in found if lines]
    if found:
        # What runs first: a definition before its body. The outer one comes first where both begin in one
        # line.
        return min(found, key=lambda pair: min(pair[1]))
    around = [(span, part, line) for part in parts for span, line in _around(part, spot)]
    if not around:
        return None
    _, part, line = min(around, key=lambda item: item[0])
    return part, frozenset({line})


def _is_header(code: CodeType, spot: Spot) -> bool:
    """Whether the edit is one of the `def` lines or decorators alone: reached is then called."""
    return code.co_name != "<module>" and code.co_firstlineno <= spot.lines[0] <= spot.lines[-1] < _body_line(
        code
    )


def _body_line(code: CodeType) -> int:
    """The first line of the body, as far as instructions show."""
    lines = [start for start, _ in _positions(code) if start > code.co_firstlineno]
    return min(lines, default=code.co_firstlineno + 1)


def _inside(code: CodeType, spot: Spot) -> frozenset[int]:
    first, last = spot.lines[0], spot.lines[-1]
    return frozenset(start for start, _ in _positions(code) if first <= start <= last)


def _around(code: CodeType, spot: Spot) -> Iterator[tuple[int, int]]:
    """Extents and first lines of what the spot is in the middle of: a closing bracket, a folded constant."""
    for start, end in _positions(code):
        if start < spot.lines[0] <= end:
            yield end - start, start


def _positions(code: CodeType) -> Iterator[tuple[int, int]]:
    """First and last line of every instruction that has them."""
    for start, end, _, end_column in code.co_positions():
        # The resumption of a frame has the function's first line and no width, and no event of its own.
        if start is not None and end is not None and end_column:
            yield start, end
