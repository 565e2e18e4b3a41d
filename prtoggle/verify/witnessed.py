"""Reads what the plugin `prtoggle.pytest_witness` wrote down in a run: its tests, and where it ended."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prtoggle.verify.entries import shown_name
from prtoggle.verify.verdict import TestOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prtoggle.verify.entries import Entry

Place = tuple[Path, str]


@dataclass(slots=True)
class Witnessed:
    """What became of a run of pytest, as far as it got.

    `collected` is None when not all tests were known by then. `running` is the test that had begun and not
    ended, `importing` the file that was being imported.
    """

    collected: tuple[Place, ...] | None = None
    ended: set[Place] = field(default_factory=set)
    tests: dict[Place, TestOutcome] = field(default_factory=dict)
    uncollected: dict[Place, TestOutcome] = field(default_factory=dict)
    running: Place | None = None
    importing: Path | None = None
    finished: bool = False
    stopped_by: str = ""
    internal_error: str = ""

    @property
    def culprit(self) -> Place | None:
        """The test, or file, that was at work when the run came to its end."""
        if self.running is not None:
            return self.running
        return None if self.importing is None else (self.importing, "")

    @property
    def outcomes(self) -> tuple[TestOutcome, ...]:
        """All tests that were reported, and what could not be collected."""
        return (*self.tests.values(), *self.uncollected.values())

    def outcomes_of(self, entry: Entry) -> tuple[TestOutcome, ...]:
        """Those that belong to one guard."""
        return (
            *(test for place, test in self.tests.items() if entry.holds(*place)),
            *(error for place, error in self.uncollected.items() if entry.overlaps(*place)),
        )

    def not_run(self, entry: Entry | None = None) -> list[Place]:
        """The tests, or those of one guard, that were collected and did not come to their end."""
        return [
            place
            for place in self.collected or ()
            if place not in self.ended and (entry is None or entry.holds(*place))
        ]


def read_events(path: Path, root: Path) -> Witnessed:
    """Reads the file; one that is not there says that pytest did not come as far as to its first file."""
    seen = Witnessed()
    for event in _events(path):
        place = Path(str(event.get("file", ""))), str(event.get("test", ""))
        if not _take_collection(seen, event, place, root):
            _take_run(seen, event, place, root)
    return seen


def _take_collection(seen: Witnessed, event: Mapping[str, Any], place: Place, root: Path) -> bool:
    """Takes in what happened before the first test; False for what is about something else."""
    match event["event"]:
        case "collect":
            seen.importing = place[0]
        case "collect end":
            seen.importing = None
        case "uncollected":
            seen.uncollected[place] = TestOutcome(shown_name(*place, root), "error", event["message"])
        case "collected":
            seen.collected = tuple((Path(file), node) for file, node in event["tests"])
        case _:
            return False
    return True


def _take_run(seen: Witnessed, event: Mapping[str, Any], place: Place, root: Path) -> None:
    """Takes in what happened to a test, or to the session."""
    match event["event"]:
        case "start":
            seen.running = place
        case "report":
            known = seen.tests.get(place, TestOutcome(shown_name(*place, root), ""))
            seen.tests[place] = _with_report(known, event)
        case "end":
            seen.ended.add(place)
            seen.running = None
        case "stopped":
            seen.stopped_by = event["by"]
        case "internal error":
            seen.internal_error = event["message"]
        case "finish":
            seen.finished = True


def _events(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            # The last line of a process that was killed may be half of one.
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)


def _with_report(known: TestOutcome, event: Mapping[str, Any]) -> TestOutcome:
    """The test as it is known after one more of its reports: set-up, body, each subtest, tear-down."""
    if event["outcome"] not in {"passed", "failed", "skipped"}:
        return known
    kind = event["outcome"]
    if kind == "failed" and event["when"] != "call":
        kind = "error"
    if kind == "skipped" and (event["when"] == "teardown" or event["subtest"]):
        return known
    if kind == "passed" and (event["when"] != "call" or event["subtest"]):
        return known
    # A test may both fail and err in its tear-down; what went wrong in the body is what counts, and first.
    if _rank(kind) <= _rank(known.kind):
        return known
    first_line = next(iter(event["message"].splitlines()), "")
    word = "xfailed" if kind == "skipped" and event["xfail"] else kind
    return TestOutcome(known.name, word, first_line, tuple(sorted(event["reached"].items())))


def _rank(kind: str) -> int:
    return ("", "passed", "skipped", "xfailed", "error", "failed").index(kind)
