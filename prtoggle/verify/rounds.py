"""Runs several guards together and tells them apart: one process, unless one gets in the others' way.

A guard that ends the process (a crash, a time limit, `pytest.exit`) takes with it those that had not run by
then; they run again without it. Where nobody knows which guard it was, halves of them run apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prtoggle.verify.verdict import GuardRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prtoggle.verify.entries import Entry
    from prtoggle.verify.guard_run import GuardRunner


@dataclass(frozen=True, slots=True)
class Round:
    """What guards came to under one set of toggles: the processes that it took, and each guard's part."""

    processes: tuple[GuardRun, ...]
    parts: Mapping[Entry, GuardRun]


def run_round(
    runner: GuardRunner, entries: Sequence[Entry], toggles: Sequence[str] = (), *, by_test: bool = True
) -> Round:
    """Run the guards with `toggles` reverted, in one process where possible.

    `by_test`: ask of each test what it reached.
    """
    parts = {entry: _nowhere(entry, runner) for entry in entries if not entry.file.exists()}
    processes: list[GuardRun] = []
    pending = [[entry for entry in entries if entry not in parts]]
    while pending:
        asked = pending.pop()
        if not asked:
            continue
        run = runner.run_entries(asked, toggles, by_test=by_test)
        processes.append(run)
        told = {entry: part for entry in asked if (part := _part(run, entry)) is not None}
        if told:
            parts |= told
            pending.append([entry for entry in asked if entry not in told])
        elif len(asked) == 1:
            parts[asked[0]] = replace(run, seen=None)
        else:
            middle = len(asked) // 2
            pending += [asked[middle:], asked[:middle]]
    return Round(tuple(processes), {entry: parts[entry] for entry in entries})


def _part(run: GuardRun, entry: Entry) -> GuardRun | None:
    """The guard's part of the run; None when it did not come to its end, through another's doing."""
    seen = run.seen
    assert seen is not None, run.command
    part = replace(run, tests=seen.outcomes_of(entry), seen=None)
    if run.is_general or (seen.culprit is not None and entry.overlaps(*seen.culprit)):
        return part
    if run.trouble and (seen.collected is None or seen.not_run(entry)):
        return None
    return replace(part, trouble="")


def _nowhere(entry: Entry, runner: GuardRunner) -> GuardRun:
    """A guard whose file is not there has no process."""
    file = entry.name(runner.root).split("::")[0]
    return GuardRun((), 0, (), 0.0, trouble=f"there is no file {file} (is the guard's path right?)")
