"""Runs guards in a process of their own, with a toggle in its environment or with none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prtoggle import report
from prtoggle.unfound import AT_NO_TIME
from prtoggle.verify.junit_file import read_outcomes
from prtoggle.verify.verdict import GuardRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What pytest prints of a session that a test or a hook ended; the status may be that of success.
_ENDED_EARLY = re.compile(r"^!+ _pytest\.outcomes\.Exit: ", re.MULTILINE)

_PYTEST_MEANS = {
    1: "pytest failed, and none of the tests that it ran did",
    2: "pytest was interrupted, or a guard failed to import",
    3: "pytest reported an internal error",
    4: "pytest was called wrongly (is the guard's path right?)",
}


@dataclass(frozen=True, slots=True)
class GuardRunner:
    """How guards are run: where, against which catalogue folders, and for how long at most."""

    root: Path
    catalogues: tuple[str, ...]
    timeout: float = 600.0
    pytest_args: tuple[str, ...] = ()

    def run(self, guards: Sequence[str], toggles: Sequence[str] = ()) -> GuardRun:
        """Run `guards` (pytest node ids, relative to the root) with `toggles` reverted, in a new process."""
        with tempfile.TemporaryDirectory(prefix="prtoggle-verify-") as folder:
            junit = Path(folder) / "junit.xml"
            reports = Path(folder) / "reports"
            reports.mkdir()
            command = self._command(guards, junit)
            start = time.monotonic()
            status, output, trouble = self._execute(command, self._environment(toggles, reports))
            seconds = time.monotonic() - start
            tests = read_outcomes(junit, self.root)
            reached = _reached(reports)
        broken = any(test.kind in {"failed", "error"} for test in tests)
        if not trouble and _ENDED_EARLY.search(output):
            trouble = "pytest.exit ended the session before all of its tests had run"
        elif not trouble and (status not in {0, 1, 5} or (status == 1 and not broken)):
            trouble = self._trouble(status, output)
        return GuardRun(command, status, tests, seconds, reached, trouble, output)

    def _command(self, guards: Sequence[str], junit: Path) -> tuple[str, ...]:
        return (
            *(sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "--tb=short"),
            *("-o", "junit_family=xunit1", f"--junitxml={junit}"),
            *self.pytest_args,
            *guards,
        )

    def _environment(self, toggles: Sequence[str], reports: Path) -> Mapping[str, str]:
        environment = {name: value for name, value in os.environ.items() if name != "PRTOGGLE"}
        environment["PRTOGGLE_REPORT"] = str(reports)
        environment["PRTOGGLE_CATALOGUES"] = os.pathsep.join(self.catalogues)
        if toggles:
            environment["PRTOGGLE"] = ",".join(toggles)
        return environment

    def _execute(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, str]:
        """Exit status, all output, and what went wrong with the run itself."""
        try:
            done = subprocess.run(  # noqa: S603  # the command is ours, the guards are the project's
                command,
                cwd=self.root,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=self.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            output = expired.output or b""
            text = output.decode(errors="replace") if isinstance(output, bytes) else output
            return -1, text, f"took longer than {self.timeout:g} s"
        return done.returncode, done.stdout, ""

    def _trouble(self, status: int, output: str) -> str:
        if status < 0:
            return f"ended by signal {-status}"
        nowhere = next((line for line in output.splitlines() if AT_NO_TIME in line), None)
        if nowhere is not None:
            return nowhere
        means = _PYTEST_MEANS.get(status, f"ended with status {status}")
        cause = _cause(output.splitlines())
        return f"{means}: {cause}" if cause else means


def _cause(lines: Sequence[str]) -> str:
    """The line of a failed run's output that says why it failed; empty when it printed nothing."""
    for index, line in enumerate(lines):
        # An activation names the process in its first line, and the reason in those that follow.
        if line.startswith("prtoggle: PRTOGGLE="):
            return " ".join(text.strip() for text in lines[index + 1 : index + 4])
        if line.startswith(("ERROR", "E  ")):
            return line.strip()
    return lines[-1].strip() if lines else ""


def _reached(reports: Path) -> frozenset[str]:
    """Ids of the toggles whose edited statement ran, in any process of the run."""
    return frozenset(
        str(event["toggle"])
        for process in report.read(reports)
        for event in process.events
        if event["event"] == "reached"
    )
