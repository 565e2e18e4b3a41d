"""Which of the reverted statements a test reached itself, in pytest's process and in those it started."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prtoggle import reach, report
from prtoggle.engine import states
from prtoggle.verify.verdict import IN_THE_TEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prtoggle.report import ProcessReport

#: What had run the statement before the test, which found what it had done.
IN_A_FIXTURE: Final = "the reverted statement was reached in a fixture that several tests share"
WHEN_LOADED: Final = (
    "the reverted statement was reached when its module was loaded, or the tests were collected"
)
A_VALUE: Final = "it is a value, and who reads that cannot be seen"


def holds_a_value(toggle_id: str) -> bool:
    """Whether the toggle has a constant in effect; who reads one cannot be seen, so everybody does."""
    return any(
        patch.mode == "value" and patch.state == "active"
        for state in states()
        if state.toggle.id == toggle_id
        for patch in state.patches
    )


class TestReach:
    """Asks anew for each test what it reached; `reports` is the folder that child processes report to."""

    __test__ = False  # pytest collects classes by name

    def __init__(self, toggle_ids: tuple[str, ...], reports: Path | None) -> None:
        self._ids = toggle_ids
        self._reports = reports
        self._loaded: set[str] = set()
        self._fixtures: dict[object, set[str]] = {}
        #: What the test reached in this process before the stretch that is listened to now.
        self._before: set[str] = set()
        self._began: float | None = None

    def begin(self) -> None:
        """A test begins: what it reaches counts from here."""
        own = self._turn()
        if self._began is None:
            self._loaded = own | self._in_children(0)
        self._before = set()
        self._began = time.time()

    def reached(self) -> dict[str, str]:
        """The toggles that the test has reached by now, each with how."""
        found = dict.fromkeys(sorted(self._loaded), WHEN_LOADED)
        found |= {toggle_id: A_VALUE for toggle_id in self._ids if holds_a_value(toggle_id)}
        found |= dict.fromkeys(sorted(set().union(*self._fixtures.values())), IN_A_FIXTURE)
        own = self._before | self._now() | self._in_children(self._began or 0, alive=True)
        return found | dict.fromkeys(sorted(own), IN_THE_TEST)

    @contextlib.contextmanager
    def shared_fixture(self, fixture: object) -> Iterator[None]:
        """What is reached in the block counts for every test until `fixture_ended`."""
        self._turn()
        started = time.time()
        yield
        self._fixtures[fixture] = self._turn() | self._in_children(started)

    def _turn(self) -> set[str]:
        """Ends the stretch that is listened to, and begins the next; what was reached in it."""
        own = self._now()
        # A statement that ran and is in no function is one of its module: it stays done, and runs once.
        self._loaded |= {toggle_id for toggle_id in own if not reach.called(toggle_id)}
        self._before |= own
        reach.restart()
        return own

    def _now(self) -> set[str]:
        return {toggle_id for toggle_id in self._ids if reach.reached(toggle_id)}

    def fixture_ended(self, fixture: object) -> None:
        """What the fixture reached does not count any more."""
        self._fixtures.pop(fixture, None)

    def _in_children(self, start: float, *, alive: bool = False) -> set[str]:
        """What other processes reached since then; with `alive` also what those still there did before."""
        return {
            str(event["toggle"])
            for process in self._others()
            for event in process.events
            if event["event"] == "reached"
            and (float(str(event["time"])) >= start or (alive and _is_alive(process.pid)))
        }

    def _others(self) -> list[ProcessReport]:
        if self._reports is None or all(
            path.name.startswith(f"{os.getpid()}-") for path in self._reports.glob("*.jsonl")
        ):
            return []
        return [process for process in report.read(self._reports) if process.pid != os.getpid()]


def _is_alive(pid: int) -> bool:
    try:
        # After the name, which stands in parentheses, comes the state; Z is a process that has ended.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2][:1] != "Z"
    except OSError:
        return False
