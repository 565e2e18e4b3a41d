"""Verifies toggles, several at a time: guards with the fix and without it, each run in a fresh process."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prtoggle.required import required_alone, required_by
from prtoggle.verify.entries import entries_of
from prtoggle.verify.rounds import run_round
from prtoggle.verify.side_by_side import run_side_by_side
from prtoggle.verify.verdict import WORST_FIRST, GuardRun, Runs, Verdict, is_green, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prtoggle.spec import Toggle
    from prtoggle.verify.entries import Entry
    from prtoggle.verify.guard_run import GuardRunner
    from prtoggle.verify.rounds import Round


_FIXED, _REVERTED, _REQUIRED = "with the fix", "reverted", "only what it requires"


@dataclass(frozen=True, slots=True)
class GuardProof:
    """The verdict on one guard of a toggle; `guard` is its path from the project's root, and a node in it."""

    guard: str
    verdict: Verdict
    detail: str
    runs: Runs

    @property
    def passes_with_fix(self) -> int:
        """How many of the runs with the fix had all its tests pass."""
        return sum(is_green(run) for run in self.runs.fixed)

    @property
    def fails_without_fix(self) -> int:
        """How many of the runs without the fix had a test of it fail."""
        return sum(bool(run.failed) for run in self.runs.reverted)

    @property
    def decisive(self) -> GuardRun:
        """The run that decided: one that could not be judged, a broken one, else one without the fix."""
        everything = (*self.runs.fixed, *self.runs.reverted, *self.runs.required)
        unusable = [run for run in everything if run.trouble or run.errors]
        broken = [run for run in self.runs.fixed if run.failed]
        return (unusable or broken or self.runs.reverted)[0]

    @property
    def decisive_is_fixed(self) -> bool:
        """Whether that was a run with the fix."""
        return any(run is self.decisive for run in self.runs.fixed)


@dataclass(frozen=True, slots=True)
class Proof:
    """The verdict on one toggle: that of its worst guard.

    `fixed`, `reverted` and `required` are the processes that ran, one a round unless a guard ended one early.
    """

    id: str
    title: str
    guards: tuple[str, ...]
    judged: tuple[GuardProof, ...]
    fixed: tuple[GuardRun, ...]
    reverted: tuple[GuardRun, ...]
    required: tuple[GuardRun, ...] = ()
    rounds: int = 0

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its guards; NO_TESTS without any."""
        return min((guard.verdict for guard in self.judged), key=WORST_FIRST.index, default=Verdict.NO_TESTS)

    @property
    def guilty(self) -> tuple[GuardProof, ...]:
        """The guards that are not caught."""
        return tuple(guard for guard in self.judged if guard.verdict is not Verdict.CAUGHT)

    @property
    def detail(self) -> str:
        """What the verdict rests on; with several guards what those are that keep it from being caught."""
        if not self.judged:
            return "the spec names no guards"
        if len(self.judged) == 1:
            return self.judged[0].detail
        told = self.guilty or self.judged
        return "; ".join(f"{guard.guard}: {guard.verdict}: {guard.detail}" for guard in told)

    @property
    def passes_with_fix(self) -> int:
        """In how many of the rounds with the fix, at least, each guard passed."""
        return min((guard.passes_with_fix for guard in self.judged), default=0)

    @property
    def fails_without_fix(self) -> int:
        """In how many of the rounds without the fix, at least, each guard failed."""
        return min((guard.fails_without_fix for guard in self.judged), default=0)

    @property
    def symptom(self) -> str:
        """What the first failing test without the fix said; empty when none failed."""
        runs = (run for guard in self.judged for run in guard.runs.reverted)
        failed = next((test for run in runs for test in run.failed), None)
        return "" if failed is None else failed.message or failed.name

    @property
    def seconds(self) -> float:
        """Seconds spent in all processes."""
        return sum(run.seconds for run in (*self.fixed, *self.reverted, *self.required))


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is run of one toggle: its guards, and the sets of toggles under which they run, by kind."""

    toggle: Toggle
    entries: tuple[Entry, ...]
    sets: dict[str, tuple[str, ...]]


def verify_toggles(
    toggles: Sequence[Toggle],
    runner: GuardRunner,
    *,
    repeat: int = 1,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _id: None,
) -> list[Proof]:
    """One proof per toggle, in the order given; `progress` is told of every round that ended, by toggle id.

    A toggle that requires others has a third round, with those reverted alone. Toggles without guards get the
    verdict NO_TESTS and no process.
    """
    plans = [_plan(toggle, runner) for toggle in toggles]
    calls = {
        (plan.toggle.id, kind, number): functools.partial(run_round, runner, plan.entries, ids)
        for plan in plans
        if plan.entries
        for kind, ids in plan.sets.items()
        for number in range(repeat)
    }
    rounds = run_side_by_side(calls, runner.groups, jobs=jobs, ended=lambda key: progress(key[0]))
    return [
        _proof(
            plan,
            {
                kind: [rounds[plan.toggle.id, kind, number] for number in range(repeat)]
                if plan.entries
                else []
                for kind in (_FIXED, _REVERTED, _REQUIRED)
                if kind in plan.sets
            },
            runner,
        )
        for plan in plans
    ]


def reverted_with(toggle: Toggle, runner: GuardRunner) -> tuple[str, ...]:
    """The ids that are reverted to see what the toggle does: itself, and what it requires."""
    return (toggle.id, *(required_by(toggle, runner.catalog()) if toggle.requires else ()))


def _plan(toggle: Toggle, runner: GuardRunner) -> _Plan:
    sets = {_FIXED: (), _REVERTED: reverted_with(toggle, runner)}
    alone = required_alone(toggle, runner.catalog()) if toggle.requires else ()
    if alone:
        sets[_REQUIRED] = alone
    return _Plan(toggle, entries_of(toggle.guards, runner.root), sets)


def num_rounds(toggles: Sequence[Toggle], runner: GuardRunner, repeat: int) -> int:
    """How often `progress` will be called."""
    return sum(repeat * len(_plan(toggle, runner).sets) for toggle in toggles if toggle.guards)


def _proof(plan: _Plan, rounds: dict[str, list[Round]], runner: GuardRunner) -> Proof:
    judged = []
    for entry in plan.entries:
        parts = {kind: tuple(one.parts[entry] for one in of_kind) for kind, of_kind in rounds.items()}
        name = entry.name(runner.root)
        runs = Runs(name, parts[_FIXED], parts[_REVERTED], parts.get(_REQUIRED, ()))
        judged.append(GuardProof(name, *judge(plan.toggle.id, runs), runs))
    processes = {
        kind: tuple(run for one in of_kind for run in one.processes) for kind, of_kind in rounds.items()
    }
    return Proof(
        plan.toggle.id,
        plan.toggle.title,
        plan.toggle.guards,
        tuple(judged),
        processes[_FIXED],
        processes[_REVERTED],
        processes.get(_REQUIRED, ()),
        len(rounds[_FIXED]),
    )
