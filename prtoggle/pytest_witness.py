"""What `prtoggle verify` has pytest write down of guards: each test, how it ended, what it reached.

A plugin that verify loads into the runs it starts, and nobody else. It writes a line when something begins
and one when it ends, so that a process which dies tells by its last line what it was about.

    {"event": "collected", "tests": [["/project/tests/test_x.py", "test_a"], ...]}
    {"event": "start", "file": "/project/tests/test_x.py", "test": "test_a"}
    {"event": "report", "file": ..., "test": ..., "when": "call", "outcome": "failed", "message": ...}
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from prtoggle.verify.entries import Entry

if TYPE_CHECKING:
    from collections.abc import Generator

    from prtoggle.pytest_reach import TestReach

OPTION: Final = "--prtoggle-witness"
#: Files of the folder that the option names: what verify asks for, and what it is told.
ORDERS: Final = "orders.json"
EVENTS: Final = "events.jsonl"
#: Where pytest keeps --lf, --ff, --nf, and --sw with its like.
_BY_EARLIER_RUNS: Final = ("lf", "failedfirst", "newfirst", "stepwise", "stepwise_skip", "stepwise_reset")
_MESSAGE_LENGTH: Final = 2000


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option; verify alone gives it."""
    parser.addoption(OPTION, metavar="FOLDER", help="for prtoggle verify: write down how guards end")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    """Runs the tests in this process, and all of them, whatever the project asks for at other times.

    These are pytest-xdist's number of workers, and what depends on how earlier runs ended.
    """
    for name in _BY_EARLIER_RUNS:
        if getattr(config.option, name, False):
            setattr(config.option, name, False)
    if getattr(config.option, "numprocesses", None):
        config.option.numprocesses, config.option.tx, config.option.dist = 0, [], "no"
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Begins to write."""
    folder = config.getoption(OPTION)
    if folder is not None:
        config.pluginmanager.register(Witness(Path(folder)), "prtoggle-witness-events")


class Witness:
    """The hooks that write; `folder` holds the orders, and gets the events."""

    def __init__(self, folder: Path) -> None:
        orders = json.loads((folder / ORDERS).read_text(encoding="utf-8"))
        self._entries = [Entry(Path(file), node) for file, node in orders["entries"]]
        self._events = folder / EVENTS
        self._pid = os.getpid()
        self._paths: dict[str, Path] = {}
        self._running: tuple[str, str] | None = None
        self._reach: TestReach | None = None
        if orders["reports"]:
            self._reach = _test_reach(Path(orders["reports"]))

    def _write(self, event: str, **facts: object) -> None:
        # A child that a test forked may come to its end through these hooks, too.
        if os.getpid() == self._pid:
            line = json.dumps({"event": event, **facts}) + "\n"
            with self._events.open("a", encoding="utf-8") as file:
                file.write(line)

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        """A file is about to be imported."""
        if isinstance(collector, pytest.File):
            self._paths[collector.nodeid] = collector.path
            self._write("collect", file=str(collector.path))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file was imported, or something in it could not be collected."""
        file, _, node = report.nodeid.partition("::")
        if file in self._paths:
            if report.failed:
                message = _collect_message(report.longreprtext)
                self._write("uncollected", file=str(self._paths[file]), test=node, message=message)
            if not node:
                self._write("collect end")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None, None, None]:
        """Leaves the tests of the guards, without the further runs of the marker: verify makes its own."""
        yield
        left_out = [item for item in items if not self._is_asked_for(item)]
        if left_out:
            items[:] = [item for item in items if self._is_asked_for(item)]
            config.hook.pytest_deselected(items=left_out)

    def _is_asked_for(self, item: pytest.Item) -> bool:
        guards = sys.modules.get("prtoggle.pytest_guards")
        if guards is not None and guards.is_further_run(item):
            return False
        file, node = _place(item)
        return any(entry.holds(Path(file), node) for entry in self._entries)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """All tests are known."""
        self._write("collected", tests=[_place(item) for item in session.items])

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """A test runs, its fixtures included."""
        self._running = _place(item)
        self._write("start", file=self._running[0], test=self._running[1])
        if self._reach is not None:
            self._reach.begin()
        outcome = yield
        self._write("end", file=self._running[0], test=self._running[1])
        self._running = None
        return outcome

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test ended, or a subtest."""
        if self._running is None:
            return
        in_body = report.when == "call"
        self._write(
            "report",
            file=self._running[0],
            test=self._running[1],
            when=report.when,
            outcome=report.outcome,
            xfail=hasattr(report, "wasxfail"),
            subtest=hasattr(report, "context"),
            message=_message(report),
            reached=self._reach.reached() if self._reach is not None and in_body else {},
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """What a fixture of several tests reaches while it is made counts for each of them."""
        if self._reach is None or fixturedef.scope == "function":
            return (yield)
        with self._reach.shared_fixture(fixturedef):
            return (yield)

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[object]) -> None:
        """A fixture of several tests is gone."""
        if self._reach is not None:
            self._reach.fixture_ended(fixturedef)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """The session is ended by a test or a plugin: `pytest.exit`, KeyboardInterrupt."""
        name = "pytest.exit" if isinstance(excinfo.value, pytest.exit.Exception) else excinfo.typename
        self._write("stopped", by=name)

    def pytest_internalerror(self, excrepr: object) -> None:
        """Something in pytest or in one of its plugins failed."""
        lines = str(excrepr).strip().splitlines()
        self._write("internal error", message=lines[-1] if lines else "")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """The session came to its end."""
        self._write("finish")


def _test_reach(reports: Path) -> TestReach:
    from prtoggle import activation  # noqa: PLC0415 (in a run with the fix nothing of ours is loaded)
    from prtoggle.pytest_reach import TestReach  # noqa: PLC0415

    return TestReach(tuple(toggle.id for toggle in activation.activated()), reports)


def _place(item: pytest.Item) -> tuple[str, str]:
    """The file that a test belongs to, and its name in there; an inherited one is its class's."""
    return str(item.path), item.nodeid.partition("::")[2]


def _message(report: pytest.TestReport) -> str:
    """What went wrong in a phase, or why it was skipped."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])[:_MESSAGE_LENGTH]
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message) if crash is not None else report.longreprtext
    return text.strip()[:_MESSAGE_LENGTH]


def _collect_message(text: str) -> str:
    """The line of a collection error that says what it is, or all where that announces what follows."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line[1:].strip() for line in lines if line.startswith("E ")] or lines
    headline = telling[0] if telling else "it could not be collected"
    return (" ".join(telling) if headline.endswith(":") else headline)[:_MESSAGE_LENGTH]
