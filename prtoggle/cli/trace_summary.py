"""What tracing found: per function, from the reports that the processes of the command left behind."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from prtoggle.report import failures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prtoggle.report import ProcessReport
    from prtoggle.spec import Toggle
    from prtoggle.trace.settings import TraceSettings

FORMAT_VERSION: Final = 1
_ONE_CALL: Final = {"calls": 1, "equal": 0, "differing": 1, "beyond": 0, "final": False, "not_compared": {}}


@dataclass(slots=True)
class FoundDifference:
    """Calls that look alike and came out differently: the first of them, and how many there were."""

    facts: dict[str, Any]
    pid: int
    count: int = 0
    #: Every process that had such a call.
    pids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class FunctionTrace:
    """What became of the calls of one function in all processes."""

    name: str
    toggles: tuple[str, ...]
    targets: tuple[str, ...]
    processes: int = 0
    calls: int = 0
    equal: int = 0
    differing: int = 0
    not_compared: dict[str, int] = field(default_factory=dict)
    differences: list[FoundDifference] = field(default_factory=list)
    #: Differing calls that are like none of `differences`.
    beyond: int = 0
    #: Whether every process lived to write its last count.
    complete: bool = True

    @property
    def compared(self) -> int:
        """Calls of which it is known whether they come out the same."""
        return self.equal + self.differing


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """All functions and processes of one traced command."""

    toggles: tuple[Toggle, ...]
    settings: TraceSettings
    functions: tuple[FunctionTrace, ...]
    processes: tuple[ProcessReport, ...]
    command: tuple[str, ...]
    command_status: int

    @classmethod
    def of(
        cls,
        toggles: Sequence[Toggle],
        settings: TraceSettings,
        reports: Iterable[ProcessReport],
        *,
        command: Sequence[str],
        command_status: int,
    ) -> TraceSummary:
        """The summary of what `reports` hold."""
        # A process may be traced from outside by another tool's report; ours say so.
        processes = tuple(
            process
            for process in reports
            if any(entry["event"] in ("trace", "failed") for entry in process.events)
        )
        found: dict[str, FunctionTrace] = {}
        for process in processes:
            _add(found, process)
        for function in found.values():
            _cut(function, settings.limit)
        return cls(tuple(toggles), settings, tuple(found.values()), processes, tuple(command), command_status)

    @property
    def failures(self) -> list[str]:
        """Why a process could not trace what was asked for, each message once."""
        return failures(self.processes)

    @property
    def compared(self) -> int:
        """Calls that were compared, of all functions."""
        return sum(function.compared for function in self.functions)

    @property
    def never_called(self) -> list[tuple[str, str]]:
        """The (toggle, target) pairs of which no function was called in any process."""
        called = {
            (toggle, target)
            for function in self.functions
            if function.calls
            for toggle in function.toggles
            for target in function.targets
        }
        pairs = ((toggle.id, target) for toggle in self.toggles for target in toggle.targets)
        return [pair for pair in pairs if pair not in called]

    def as_json(self) -> dict[str, object]:
        """The documented JSON form (docs/trace.md)."""
        return {
            "version": FORMAT_VERSION,
            "command": list(self.command),
            "status": self.command_status,
            "toggles": [toggle.id for toggle in self.toggles],
            "continued_with": "fixed" if self.settings.continues_fixed else "reverted",
            "processes": [{"pid": process.pid, "argv": list(process.argv)} for process in self.processes],
            "failures": self.failures,
            "never_called": [{"toggle": toggle, "target": target} for toggle, target in self.never_called],
            "functions": [_function_json(function) for function in self.functions],
        }


def _add(found: dict[str, FunctionTrace], process: ProcessReport) -> None:
    """Take in what one process wrote: the last counts of each account, and its differences."""
    events: list[dict[str, Any]] = [dict(entry) for entry in process.events]
    here = set()
    for event in (event for event in events if event["event"] == "traced"):
        name = event["function"]
        here.add(name)
        known = found.setdefault(name, FunctionTrace(name, (), ()))
        known.toggles = tuple(dict.fromkeys([*known.toggles, event["toggle"]]))
        known.targets = tuple(dict.fromkeys([*known.targets, *event["targets"]]))
    for name in here:
        found[name].processes += 1
    told = {(event["account"], event["number"]): event for event in events if event["event"] == "difference"}
    last = {event["account"]: event for event in events if event["event"] == "counts"}
    for (account, _), event in told.items():
        # A process that was killed between the two lines has told of a call that it had not counted.
        uncounted = {**_ONE_CALL, "function": event["function"], "like": {str(event["number"]): 1}}
        last.setdefault(account, uncounted)
    for account, counts in last.items():
        function = found[counts["function"]]
        _add_counts(function, counts)
        for number, count in counts["like"].items():
            _add_difference(function, told[account, int(number)], count, process.pid)


def _add_counts(function: FunctionTrace, counts: dict[str, Any]) -> None:
    function.calls += counts["calls"]
    function.equal += counts["equal"]
    function.differing += counts["differing"]
    function.beyond += counts["beyond"]
    function.complete = function.complete and counts["final"]
    for reason, count in counts["not_compared"].items():
        function.not_compared[reason] = function.not_compared.get(reason, 0) + count


def _add_difference(function: FunctionTrace, event: dict[str, Any], count: int, pid: int) -> None:
    shown = ("arguments", "fixed", "reverted", "differences")
    key = json.dumps([event[name] for name in shown])
    for known in function.differences:
        if json.dumps([known.facts[name] for name in shown]) == key:
            known.count += count
            known.pids.append(pid)
            return
    function.differences.append(FoundDifference(event, pid, count, [pid]))


def _cut(function: FunctionTrace, limit: int) -> None:
    """Keep as many differences as were asked for: each process has told as many of its own."""
    for dropped in function.differences[limit:]:
        function.beyond += dropped.count
    del function.differences[limit:]


def _function_json(function: FunctionTrace) -> dict[str, object]:
    return {
        "function": function.name,
        "toggles": list(function.toggles),
        "targets": list(function.targets),
        "processes": function.processes,
        "calls": function.calls,
        "equal": function.equal,
        "differing": function.differing,
        "not_compared": function.not_compared,
        "complete": function.complete,
        "differences": [
            {
                "call": found.facts["call"],
                "pid": found.pid,
                "count": found.count,
                "pids": found.pids,
                "arguments": [{"name": name, "value": value} for name, value in found.facts["arguments"]],
                "fixed": found.facts["fixed"],
                "reverted": found.facts["reverted"],
                "differences": found.facts["differences"],
            }
            for found in function.differences
        ],
        "more_differing_calls": function.beyond,
    }
