"""What the runs of a toggle's guards prove. Values and pure functions; nothing here starts a process."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Verdict(StrEnum):
    """The outcome of `verify` for one toggle; only CAUGHT is good."""

    CAUGHT = "caught"
    VACUOUS = "vacuous"
    BROKEN = "broken"
    UNREACHED = "unreached"
    FLAKY = "flaky"
    NO_TESTS = "no tests ran"
    ERROR = "error"


MEANING = {
    Verdict.CAUGHT: "the guard passes with the fix and fails without it",
    Verdict.VACUOUS: "the guard passes either way: it does not guard the fix",
    Verdict.BROKEN: "the guard fails although the fix is in",
    Verdict.UNREACHED: "the guard fails without the fix, but the reverted statement never ran",
    Verdict.FLAKY: "the guard notices in some runs and not in others",
    Verdict.NO_TESTS: "the guard collects no test, or skips all of them",
    Verdict.ERROR: "the guard could not be run",
}


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """One test of one run. `kind` is passed, failed, error or skipped; `message` says what went wrong."""

    __test__ = False  # pytest collects classes by name

    name: str
    kind: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class GuardRun:
    """One process that ran guards: how it ended, what its tests said, what it reached.

    `reached` holds the ids of the toggles whose edited statement ran, in a reverted run.
    `trouble` says why the run as a whole counts for nothing: no activation, a crash, a collection error, a
    time limit.
    """

    command: tuple[str, ...]
    status: int
    tests: tuple[TestOutcome, ...]
    seconds: float
    reached: frozenset[str] = frozenset()
    trouble: str = ""
    output: str = ""

    @property
    def ran(self) -> tuple[TestOutcome, ...]:
        """The tests that were not skipped."""
        return tuple(test for test in self.tests if test.kind != "skipped")

    @property
    def failed(self) -> tuple[TestOutcome, ...]:
        """The tests whose assertion, or any exception in their body, made them fail."""
        return tuple(test for test in self.tests if test.kind == "failed")

    @property
    def errors(self) -> tuple[TestOutcome, ...]:
        """The tests that broke outside their body: set-up, tear-down, collection."""
        return tuple(test for test in self.tests if test.kind == "error")


@dataclass(frozen=True, slots=True)
class Proof:
    """The verdict on one toggle, and the counts it rests on."""

    id: str
    title: str
    guards: tuple[str, ...]
    verdict: Verdict
    detail: str
    fixed: tuple[GuardRun, ...]
    reverted: tuple[GuardRun, ...]

    @property
    def passes_with_fix(self) -> int:
        """How many of the runs with the fix had all their tests pass."""
        return sum(1 for run in self.fixed if is_green(run))

    @property
    def fails_without_fix(self) -> int:
        """How many of the runs without the fix had a test fail."""
        return sum(1 for run in self.reverted if run.failed)

    @property
    def symptom(self) -> str:
        """What the first failing test without the fix said; empty when none failed."""
        failed = next((test for run in self.reverted for test in run.failed), None)
        return "" if failed is None else failed.message or failed.name

    @property
    def seconds(self) -> float:
        """Seconds spent in all runs."""
        return sum(run.seconds for run in (*self.fixed, *self.reverted))


def is_green(run: GuardRun) -> bool:
    """Whether tests ran and all of them passed."""
    return not run.trouble and bool(run.ran) and not run.failed and not run.errors


def judge(toggle_id: str, fixed: Sequence[GuardRun], reverted: Sequence[GuardRun]) -> tuple[Verdict, str]:
    """The verdict, and one sentence with what it rests on.

    With the fix comes first: a guard that is broken there proves nothing about the run without it.
    """
    for word, runs in (("with the fix", fixed), ("without it", reverted)):
        early = _unusable(runs, word)
        if early is not None:
            return early
    green = sum(1 for run in fixed if is_green(run))
    if green < len(fixed):
        broken = next(run for run in fixed if not is_green(run))
        names = ", ".join(test.name for test in broken.failed[:3])
        return Verdict.BROKEN, f"fails in {len(fixed) - green} of {len(fixed)} runs with the fix: {names}"
    red = [run for run in reverted if run.failed]
    if not red:
        missed = all(toggle_id not in run.reached for run in reverted)
        why = "; the reverted statement was never reached" if missed else ""
        return Verdict.VACUOUS, f"passes in {len(reverted)} of {len(reverted)} runs without the fix{why}"
    unreached = [run for run in red if toggle_id not in run.reached]
    if unreached:
        return (
            Verdict.UNREACHED,
            f"fails in {len(red)} of {len(reverted)} runs, yet the reverted statement was never reached",
        )
    counts = f"fails in {len(red)} of {len(reverted)} runs without the fix"
    if len(red) < len(reverted):
        return Verdict.FLAKY, counts
    return Verdict.CAUGHT, f"{counts}: {red[0].failed[0].name}"


def _unusable(runs: Sequence[GuardRun], word: str) -> tuple[Verdict, str] | None:
    """ERROR or NO_TESTS when one of `runs` tells nothing."""
    for run in runs:
        if run.trouble:
            return Verdict.ERROR, f"{word}: {run.trouble}"
        if run.errors:
            first = run.errors[0]
            return Verdict.ERROR, f"{word}: {first.name}: {first.message or 'error outside the test body'}"
    for run in runs:
        if not run.ran:
            skipped = f", {len(run.tests)} skipped" if run.tests else ""
            return Verdict.NO_TESTS, f"{word}: no test ran{skipped}"
    return None
