"""Runs guards in a process of their own, with toggles in its environment or with none."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prtoggle import report
from prtoggle.activation import CATALOGUES, REPORT, TOGGLES
from prtoggle.catalog import Catalog
from prtoggle.catalogue_folders import Folder
from prtoggle.process_group import ProcessGroups
from prtoggle.trace.settings import VARIABLE as TRACE
from prtoggle.unfound import AT_NO_TIME
from prtoggle.verify.entries import shown_name
from prtoggle.verify.pytest_settings import settings_arguments
from prtoggle.verify.verdict import GuardRun
from prtoggle.verify.witnessed import read_events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prtoggle.report import ProcessReport
    from prtoggle.verify.entries import Entry
    from prtoggle.verify.witnessed import Witnessed

#: The plugin that writes down what becomes of the guards, and the names it gives and takes.
WITNESS: Final = "prtoggle.pytest_witness"
_OPTION, _ORDERS, _EVENTS = "--prtoggle-witness", "orders.json", "events.jsonl"

#: Variables that are not handed on. What the caller wants of pytest at other times (-x, -k) is no part of a
#: proof; the project's own settings are.
_NOT_HANDED_ON: Final = frozenset({TOGGLES, TRACE, "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"})

_WRONG_USE: Final = 4
#: How pytest names, below its usage line, what is wrong with its arguments.
_WRONG_ARGUMENTS: Final = re.compile(r"^\S.*?: error: (.*)$", re.MULTILINE)
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class GuardRunner:
    """How guards are run: where, against which catalogue folders, and for how long at most."""

    root: Path
    catalogues: tuple[str, ...]
    timeout: float = 600.0
    pytest_args: tuple[str, ...] = ()
    groups: ProcessGroups = field(default_factory=ProcessGroups)

    def catalog(self) -> Catalog:
        """The toggles that the runs find."""
        return Catalog([Folder(Path(path), "verify") for path in self.catalogues], root=self.root)

    def run_entries(
        self, entries: Sequence[Entry], toggles: Sequence[str] = (), *, by_test: bool = True
    ) -> GuardRun:
        """Run the guards in one process with `toggles` reverted; `by_test`: ask of each test what it reached.

        Raises CancelledError once all runs have been ended.
        """
        with tempfile.TemporaryDirectory(prefix="prtoggle-verify-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            reports = folder / "reports"
            reports.mkdir()
            orders = {
                "entries": [(str(entry.file), entry.node) for entry in entries],
                "reports": str(reports) if toggles and by_test else "",
            }
            (folder / _ORDERS).write_text(json.dumps(orders), encoding="utf-8")
            command = self._command(entries, folder)
            log = folder / "output"
            start = time.monotonic()
            with log.open("wb") as output:
                pid, status, timed_out = self.groups.run(
                    command,
                    self._environment(toggles, reports),
                    output.fileno(),
                    cwd=self.root,
                    timeout=self.timeout,
                )
            seconds = time.monotonic() - start
            text = _ESCAPE.sub("", log.read_text(encoding="utf-8", errors="replace"))
            seen = read_events(folder / _EVENTS, self.root)
            processes = report.read(reports)
        end = _End(self, status, text, seen, _refused(processes, pid), timed_out=timed_out)
        return GuardRun(
            command,
            status,
            seen.outcomes,
            seconds,
            _reached(processes),
            end.trouble(),
            text,
            seen,
            is_general=end.is_general(),
        )

    def _command(self, entries: Sequence[Entry], folder: Path) -> tuple[str, ...]:
        files = dict.fromkeys(shown_name(entry.file, "", self.root) for entry in entries)
        return (
            *(sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short"),
            *settings_arguments(self.root, folder / "pytest.ini"),
            # The project's own cache is what its developers' runs remember; this run remembers nothing.
            *("-o", f"cache_dir={folder / 'cache'}"),
            # All guards run to their end: one that fails, or cannot be imported, says nothing of the next.
            *("--maxfail=0", "--continue-on-collection-errors"),
            *("-p", WITNESS, f"{_OPTION}={folder}"),
            *self.pytest_args,
            *files,
        )

    def _environment(self, toggles: Sequence[str], reports: Path) -> Mapping[str, str]:
        environment = {name: value for name, value in os.environ.items() if name not in _NOT_HANDED_ON}
        environment[REPORT] = str(reports)
        environment[CATALOGUES] = os.pathsep.join(self.catalogues)
        if toggles:
            environment[TOGGLES] = ",".join(toggles)
        return environment


@dataclass(frozen=True, slots=True)
class _End:
    """How a run came to its end, for saying why it counts for nothing where it does not."""

    runner: GuardRunner
    status: int
    output: str
    seen: Witnessed
    refused: bool
    timed_out: bool

    def is_general(self) -> bool:
        """Whether what went wrong has to do with the toggles or with pytest, rather than with one guard."""
        seen = self.seen
        early = seen.stopped_by or seen.not_run() or (seen.internal_error and seen.culprit)
        return self.refused or (seen.finished and not early)

    def trouble(self) -> str:
        """Why the run, or what it did not come to, counts for nothing; empty when it went as it should."""
        reasons = (self._ended_from_outside(), self._ended_from_inside(), self._unfit(), self._incomplete())
        return next(filter(None, reasons), "") or self._failed_status()

    def _ended_from_outside(self) -> str:
        if self.timed_out:
            return f"took longer than {self.runner.timeout:g} s{self._at_work()}"
        if self.refused:
            return self._cause() or f"ended with status {self.status}"
        return ""

    def _ended_from_inside(self) -> str:
        """What a test, or the import of one, did to the process or to the session."""
        if self.seen.stopped_by:
            return (
                f"{self.seen.stopped_by} ended the session before all of its tests had run{self._at_work()}"
            )
        if not self.seen.finished and (self.status < 0 or self.seen.culprit is not None):
            return f"the process {_ended(self.status)}{self._at_work()}"
        return ""

    def _unfit(self) -> str:
        """That what was asked for was nowhere to be taken out of."""
        if self.status != _WRONG_USE:
            return ""
        return next((line for line in self.output.splitlines() if AT_NO_TIME in line), "")

    def _incomplete(self) -> str:
        if self.seen.internal_error:
            return f"pytest reported an internal error: {self.seen.internal_error}{self._at_work()}"
        not_run = self.seen.not_run()
        return (
            f"the session ended before {shown_name(*not_run[0], self.runner.root)} had run" if not_run else ""
        )

    def _failed_status(self) -> str:
        """What pytest's status says where its tests do not account for it."""
        broken = any(test.kind in {"failed", "error"} for test in self.seen.outcomes)
        if self.seen.finished and (self.status in {0, 5} or (self.status == 1 and broken)):
            return ""
        if self.status == 1 and self.seen.finished:
            means = "pytest failed, and none of the tests that it ran did"
        elif self.status == _WRONG_USE and not self.seen.finished:
            means = "pytest was called wrongly, or a conftest.py failed to import"
        else:
            when = "after its last test" if self.seen.finished else "before it came to a guard"
            means = f"the process {_ended(self.status)}, {when}"
        cause = self._cause()
        return f"{means}: {cause}" if cause else means

    def _at_work(self) -> str:
        """What was being done then."""
        if self.seen.running is not None:
            return f", while {shown_name(*self.seen.running, self.runner.root)} ran"
        if self.seen.culprit is not None:
            return f", while {shown_name(*self.seen.culprit, self.runner.root)} was imported"
        return "" if self.seen.finished else ", before it came to a guard"

    def _cause(self) -> str:
        """The line of the output that says why the run failed; empty when it printed nothing."""
        lines = self.output.splitlines()
        for index, line in enumerate(lines):
            # An activation names the process in its first line, and the reason in those that follow.
            if line.startswith("prtoggle: PRTOGGLE="):
                return " ".join(text.strip() for text in lines[index + 1 : index + 4])
            if line.startswith("ERROR: usage:"):
                found = _WRONG_ARGUMENTS.search(self.output)
                return found[1].strip() if found else line.strip()
            if line.startswith(("ERROR", "E  ")):
                return line.strip()
        return lines[-1].strip() if lines else ""


def _ended(status: int) -> str:
    """How a process ended, in words."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        return f"was ended by signal {-status}"
    return f"was ended by signal {-status} ({name})"


def _refused(processes: Sequence[ProcessReport], pid: int) -> bool:
    """Whether pytest's own process ended because it could not put a toggle into effect."""
    return any(
        event["event"] == "failed" and "toggle" not in event
        for process in processes
        if process.pid == pid
        for event in process.events
    )


def _reached(processes: Sequence[ProcessReport]) -> frozenset[str]:
    """Ids of the toggles whose edited statement ran, in any process of the run."""
    return frozenset(
        str(event["toggle"])
        for process in processes
        for event in process.events
        if event["event"] == "reached"
    )
