"""Which of the reverted statements a test reached itself, in pytest's process and in those it started."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Final

from prtoggle import reach
from prtoggle.engine import states
from prtoggle.pytest_children import Children
from prtoggle.verify.verdict import IN_THE_TEST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: What had run the statement before the test, which found what it had done.
IN_A_FIXTURE: Final = "the reverted statement was reached in a fixture that several tests share"
WHEN_LOADED: Final = (
    "the reverted statement was reached when its module was loaded, or the tests were collected"
)
OUTLIVES: Final = "the reverted statement was reached in a process that lives longer than the test"
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
        self._children = None if reports is None else Children(reports)
        self._loaded: set[str] = set()
        self._fixtures: dict[object, set[str]] = {}
        #: What the test reached in this process before the stretch that is listened to now.
        self._before: set[str] = set()
        #: Processes that no test started, by the fixture that did; None for those before the first test.
        self._shared: dict[object, set[int]] = {}
        #: All processes that were known when the test began.
        self._earlier: set[int] = set()
        self._began: float | None = None

    def begin(self) -> None:
        """A test begins: what it reaches counts from here."""
        own = self._turn()
        self._earlier = self._pids()
        if self._began is None:
            self._shared[None] = self._earlier
            self._loaded = own | self._reached_by(self._earlier)
        self._before = set()
        self._began = time.time()

    def reached(self) -> dict[str, str]:
        """The toggles that the test has reached by now, each with how."""
        began = self._began or 0
        found = dict.fromkeys(sorted(self._loaded), WHEN_LOADED)
        found |= {toggle_id: A_VALUE for toggle_id in self._ids if holds_a_value(toggle_id)}
        found |= dict.fromkeys(sorted(set().union(*self._fixtures.values())), IN_A_FIXTURE)
        own, outlive = self._before | self._now(), set[str]()
        if self._children is not None:
            shared = set().union(*self._shared.values())
            theirs = self._children.descendants(shared)
            left = self._children.descendants(self._earlier - theirs) - theirs
            outlive = self._children.reached(theirs & self._earlier, alive=True)
            own |= self._children.reached(self._pids() - left, since=began)
        found |= dict.fromkeys(sorted(outlive), OUTLIVES)
        return found | dict.fromkeys(sorted(own), IN_THE_TEST)

    @contextlib.contextmanager
    def shared_fixture(self, fixture: object) -> Iterator[None]:
        """What is reached in the block counts for every test until `fixture_ended`."""
        self._turn()
        earlier = self._pids()
        yield
        started = self._pids() - earlier
        self._shared[fixture] = started
        self._fixtures[fixture] = self._turn() | self._reached_by(started)

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
        """What the fixture reached does not count any more, nor do the processes that it started."""
        self._fixtures.pop(fixture, None)
        self._shared.pop(fixture, None)

    def _pids(self) -> set[int]:
        return set() if self._children is None else self._children.pids()

    def _reached_by(self, pids: set[int]) -> set[str]:
        return set() if self._children is None else self._children.reached(pids)
