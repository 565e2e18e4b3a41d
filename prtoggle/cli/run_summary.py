"""What came of a run: per toggle and process, from the reports that the processes left behind."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from rich.table import Table
from rich.text import Text

from prtoggle.cli import print_table
from prtoggle.report import failures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from prtoggle.report import ProcessReport
    from prtoggle.spec import Toggle

State = Literal["not reported", "armed", "loaded", "active", "failed"]

FORMAT_VERSION: Final = 1
_STYLE: Final = {"active": "green", "failed": "red", "armed": "yellow", "loaded": "yellow"}
#: Processes that only waited for a module are counted, not listed, from this many on.
_LISTED_WAITING: Final = 3


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """One target of one toggle in one process.

    `called` is None for a statement that ran with its module: nobody has to call anything for that.
    """

    toggle: str
    target: str
    state: State
    moment: str | None
    called: bool | None
    reached: bool


@dataclass(frozen=True, slots=True)
class ProcessOutcome:
    """One process and what its toggles came to; `failures` are the messages it ended with."""

    process: ProcessReport
    targets: tuple[TargetOutcome, ...]
    failures: tuple[str, ...]
    caches: tuple[str, ...]

    @property
    def waited_only(self) -> bool:
        """Whether no target was loaded here: a launcher, a resource tracker, a helper."""
        return not self.failures and all(outcome.state == "armed" for outcome in self.targets)


@dataclass(frozen=True, slots=True)
class Summary:
    """All processes of one run."""

    toggles: tuple[Toggle, ...]
    processes: tuple[ProcessOutcome, ...]
    command: tuple[str, ...]
    command_status: int

    @classmethod
    def of(
        cls,
        toggles: Sequence[Toggle],
        reports: Iterable[ProcessReport],
        *,
        command: Sequence[str],
        command_status: int,
    ) -> Summary:
        """The summary of what `reports` hold about `toggles`."""
        processes = tuple(_process_outcome(toggles, report) for report in reports)
        return cls(tuple(toggles), processes, tuple(command), command_status)

    @property
    def failures(self) -> list[str]:
        """Why a process could not put a toggle into effect, each message once."""
        return failures(outcome.process for outcome in self.processes)

    @property
    def unreached(self) -> list[tuple[str, str]]:
        """The (toggle, target) pairs whose reverted statement ran in none of the processes."""
        reached = {
            (outcome.toggle, outcome.target)
            for process in self.processes
            for outcome in process.targets
            if outcome.reached
        }
        pairs = ((toggle.id, target) for toggle in self.toggles for target in toggle.targets)
        return [pair for pair in pairs if pair not in reached]

    def as_json(self) -> dict[str, object]:
        """The documented JSON form (docs/cli.md)."""
        return {
            "version": FORMAT_VERSION,
            "command": list(self.command),
            "status": self.command_status,
            "toggles": [toggle.id for toggle in self.toggles],
            "unreached": [{"toggle": toggle, "target": target} for toggle, target in self.unreached],
            "failures": self.failures,
            "processes": [_process_json(process) for process in self.processes],
        }

    def print(self, console: Console) -> None:
        """Prints the table of processes, then the sentences that must not be overlooked."""
        if not self.processes:
            console.print(_nobody_reported(self), style="red", soft_wrap=True)
            return
        print_table(console, _table(self))
        caches = dict.fromkeys(cache for process in self.processes for cache in process.caches)
        for cache in caches:
            console.print(
                f"A cache on disk was on: {cache}. What it holds from earlier runs was not compiled from "
                "the reverted source.",
                style="yellow",
                soft_wrap=True,
            )
        for message in self.failures:
            text = f"A process could not revert what was asked for:\n{message}"
            console.print(text, style="red", soft_wrap=True)
        for toggle, target in self.unreached:
            console.print(self._why_unreached(toggle, target), style="yellow", soft_wrap=True)

    def _why_unreached(self, toggle: str, target: str) -> str:
        """The sentence on a target whose reverted statement ran in no process: how far it came."""
        states = {
            outcome.state
            for process in self.processes
            for outcome in process.targets
            if (outcome.toggle, outcome.target) == (toggle, target)
        }
        if states & {"active", "loaded"}:
            return (
                f"{toggle} was reverted, never reached: the reverted statement of {target} ran in no process."
            )
        if "armed" in states:
            return f"{toggle} was never reached: no process loaded the module of {target}."
        return f"{toggle} was not reverted: {target} was changed in no process."


def _process_outcome(toggles: Sequence[Toggle], report: ProcessReport) -> ProcessOutcome:
    return ProcessOutcome(
        report,
        tuple(_target_outcome(toggle, target, report) for toggle in toggles for target in toggle.targets),
        tuple(report.failures),
        tuple(str(entry["cache"]) for entry in report.events if entry["event"] == "cache"),
    )


def _target_outcome(toggle: Toggle, target: str, report: ProcessReport) -> TargetOutcome:
    events = [
        entry for entry in report.events if (entry.get("toggle"), entry.get("target")) == (toggle.id, target)
    ]
    names = {str(entry["event"]) for entry in events}
    moments = [str(entry["moment"]) for entry in events if entry["event"] == "activated"]
    state: State = "not reported"
    by_strength: tuple[tuple[str, State], ...] = (
        ("armed", "armed"),
        ("loaded", "loaded"),
        ("activated", "active"),
        ("failed", "failed"),
    )
    for event, stronger in by_strength:
        if event in names:
            state = stronger
    if state == "loaded" and "called" in names:
        # The module that `python -m` runs: nobody imports it, so that nobody tells when it is complete.
        state = "active"
    # That somebody reads a value cannot be seen; while it is in effect, everybody who does reads the old one.
    is_value = any(patch.target == target and patch.mode == "value" for patch in toggle.patches)
    reached = "reached" in names or (is_value and state == "active")
    called = None if reached and "called" not in names else "called" in names
    return TargetOutcome(toggle.id, target, state, moments[-1] if moments else None, called, reached)


def _process_json(outcome: ProcessOutcome) -> dict[str, object]:
    process = outcome.process
    return {
        "pid": process.pid,
        "ppid": process.ppid,
        "argv": list(process.argv),
        "rank": process.rank,
        "local_rank": process.local_rank,
        "forked": process.forked,
        "caches": list(outcome.caches),
        "failures": list(outcome.failures),
        "targets": [
            {
                "toggle": target.toggle,
                "target": target.target,
                "state": target.state,
                "moment": target.moment,
                "called": target.called,
                "reached": target.reached,
            }
            for target in outcome.targets
        ],
    }


def _table(summary: Summary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title="prtoggle run", title_justify="left")
    table.add_column("process", overflow="fold")
    table.add_column("toggle", no_wrap=True)
    table.add_column("target", overflow="fold")
    for heading in ("state", "called", "reached"):
        table.add_column(heading, no_wrap=True)
    waiting = [process for process in summary.processes if process.waited_only]
    counted = waiting if len(waiting) > _LISTED_WAITING else []
    for process in summary.processes:
        if process in counted:
            continue
        name = _process_name(process.process)
        for outcome in process.targets:
            state = f"{outcome.state} ({outcome.moment})" if outcome.moment else outcome.state
            shown = Text(state, style=_STYLE.get(outcome.state, ""))
            called = "-" if outcome.called is None else "yes" if outcome.called else "no"
            reach = (called, "yes" if outcome.reached else "never")
            table.add_row(name, outcome.toggle, outcome.target, shown, *reach)
            name = ""
    if counted:
        table.add_row(f"{len(counted)} more processes", "", "", "armed, never loaded", "no", "never")
    return table


def _process_name(process: ProcessReport) -> str:
    rank = f" rank {process.rank}" if process.rank is not None else ""
    command = shlex.join(process.argv)
    shown = command if len(command) <= 60 else f"{command[:57]}..."
    return f"{process.pid}{rank}{' (forked)' if process.forked else ''}: {shown}"


def _nobody_reported(summary: Summary) -> str:
    return (
        f"No process of `{shlex.join(summary.command)}` reported to prtoggle: none of them was a Python that "
        "has prtoggle and runs start files (`python -S` does not). NOTHING WAS REVERTED in this run."
    )
