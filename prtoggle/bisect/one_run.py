"""One run of the command: in a process group and with a catalogue of its own, and what it came to."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prtoggle import report
from prtoggle.activation import REPORT, TOGGLES
from prtoggle.bisect.records import RunRecord
from prtoggle.bisect.refusals import BisectError
from prtoggle.bisect.verdicts import Ending, Rules
from prtoggle.catalogue_folders import PATH_VARIABLE
from prtoggle.loader import load_text
from prtoggle.process_group import ProcessGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prtoggle.report import ProcessReport

_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_REFUSED: Final = re.compile(r"^prtoggle: PRTOGGLE=.* cannot be honoured in .*\n(.*)$", re.MULTILINE)
_LINE_LENGTH: Final = 300
#: Bytes of the output's end that hold the line which tells why a run failed.
_ENOUGH: Final = 65536


@dataclass(frozen=True, slots=True)
class Job:
    """What one run needs, as plain values that can travel to another machine.

    `specs` is the YAML text of each toggle in `toggles`; `log` a file that gets all output, or "".
    """

    command: tuple[str, ...]
    toggles: tuple[str, ...]
    specs: Mapping[str, str]
    rules: Rules = field(default_factory=Rules)
    timeout: float | None = None
    log: str = ""


def run_job(job: Job, group: ProcessGroup | None = None) -> RunRecord:
    """Run the command once and judge it. What it leaves running in its group is ended.

    Raises BisectError when the command cannot be started.
    """
    group = group or ProcessGroup()
    with tempfile.TemporaryDirectory(prefix="prtoggle-bisect-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environ = _environment(job, folder)
        log = folder / "output"
        started = time.monotonic()
        with log.open("wb") as output:
            status, timed_out = _execute(group, job, environ, output.fileno())
        seconds = time.monotonic() - started
        text = _text(log, whole=bool(job.rules.match))
        reports = report.read(folder / "reports")
        if job.log:
            shutil.copyfile(log, job.log)
    failures = tuple(_messages(reports)) or _printed_failure(text)
    verdict, how = job.rules.judge(Ending(status, text, timed_out, failures))
    return RunRecord(
        job.toggles,
        verdict,
        how,
        status,
        round(seconds, 3),
        _telling_line(text),
        _that(reports, job.toggles, _ran),
        _in_force(job, reports),
        len(reports),
        _blamed(job, failures),
    )


def _environment(job: Job, folder: Path) -> dict[str, str]:
    """Our own environment with these toggles reverted, from a catalogue that only this run reads."""
    catalogue, reports = folder / "catalogue", folder / "reports"
    catalogue.mkdir()
    reports.mkdir()
    environ = {name: value for name, value in os.environ.items() if name not in (TOGGLES, REPORT)}
    if not job.toggles:
        return environ
    for toggle_id in job.toggles:
        (catalogue / f"{toggle_id}.yaml").write_text(job.specs[toggle_id], encoding="utf-8")
    environ[TOGGLES] = ",".join(job.toggles)
    environ[REPORT] = str(reports)
    # The first folder that is looked at; what the user has set stays behind it.
    environ[PATH_VARIABLE] = os.pathsep.join(filter(None, (str(catalogue), environ.get(PATH_VARIABLE))))
    return environ


def _execute(group: ProcessGroup, job: Job, environ: Mapping[str, str], output: int) -> tuple[int, bool]:
    try:
        group.start(job.command, environ, output)
    except OSError as error:
        raise BisectError(f"cannot start {job.command[0]}: {error.strerror or error}") from error
    return group.finish(job.timeout)


def _text(log: Path, *, whole: bool) -> str:
    """What a run printed, without colours; its end only, unless all of it is looked at."""
    with log.open("rb") as file:
        if not whole:
            file.seek(max(0, log.stat().st_size - _ENOUGH))
        return _ESCAPE.sub("", file.read().decode("utf-8", errors="replace"))


def _telling_line(text: str) -> str:
    """The last line that is not indented: what a traceback, a test run or a violation ends with."""
    # A frame that something was drawn into says nothing.
    lines = [line.rstrip() for line in text.splitlines() if any(map(str.isalnum, line))]
    found = next((line for line in reversed(lines) if not line[0].isspace()), lines[-1] if lines else "")
    found = found.strip()
    return found if len(found) <= _LINE_LENGTH else f"{found[: _LINE_LENGTH - 3]}..."


def _messages(reports: Sequence[ProcessReport]) -> list[str]:
    """Why processes could not put a toggle into effect, in one line each."""
    return [" ".join(message.split()) for process in reports for message in process.failures]


def _blamed(job: Job, failures: Sequence[str]) -> tuple[str, ...]:
    """The toggles that the messages are about: those that they name, or whose target they begin with."""
    found = []
    for toggle_id in job.toggles:
        targets = load_text(job.specs[toggle_id], toggle_id, default_id=toggle_id).targets if failures else ()
        begins = (f"toggle {toggle_id},", f"toggle {toggle_id} ", *(f"{target}:" for target in targets))
        if any(message.startswith(begins) for message in failures):
            found.append(toggle_id)
    return tuple(found)


def _printed_failure(text: str) -> tuple[str, ...]:
    """The same of a process that could not report, such as one in a container: from what it printed."""
    found = _REFUSED.search(text)
    return (" ".join(found[1].split()),) if found else ()


def _ran(event: Mapping[str, object]) -> bool:
    # Who reads a value cannot be seen: once it is in effect, it counts.
    return event["event"] in ("called", "reached") or (
        event["event"] == "activated" and event.get("mode") in ("value", "wrap")
    )


def _in_force(job: Job, reports: Sequence[ProcessReport]) -> tuple[str, ...]:
    """The toggles whose module a process loaded, or whose variables one set."""
    loaded = _that(reports, job.toggles, _was_loaded)
    return tuple(key for key in job.toggles if key in loaded or (reports and _sets_variables(job, key)))


def _sets_variables(job: Job, toggle_id: str) -> bool:
    text = job.specs[toggle_id]
    return "env" in text and bool(load_text(text, toggle_id, default_id=toggle_id).env)


def _was_loaded(event: Mapping[str, object]) -> bool:
    return event["event"] in ("loaded", "activated")


def _that(
    reports: Sequence[ProcessReport],
    toggles: Sequence[str],
    holds: Callable[[Mapping[str, object]], bool],
) -> tuple[str, ...]:
    """The toggles of which any process reported such an event."""
    seen = {str(event.get("toggle")) for process in reports for event in process.events if holds(event)}
    return tuple(toggle_id for toggle_id in toggles if toggle_id in seen)
