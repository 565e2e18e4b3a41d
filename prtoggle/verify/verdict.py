"""What the runs of a toggle's guards prove. Values and pure functions; nothing here starts a process."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.verify.witnessed import Witnessed


class Verdict(StrEnum):
    """The outcome of `verify` for one guard, or one toggle; only CAUGHT is good."""

    CAUGHT = "caught"
    VACUOUS = "vacuous"
    BROKEN = "broken"
    UNREACHED = "unreached"
    FLAKY = "flaky"
    NO_TESTS = "no tests ran"
    ERROR = "error"


MEANING = {
    Verdict.CAUGHT: "the guard passes with the fix and fails without it",
    Verdict.VACUOUS: "the guard does the same either way: it does not guard the fix",
    Verdict.BROKEN: "the guard fails although the fix is in",
    Verdict.UNREACHED: "the guard fails without the fix, but what fails did not reach the reverted statement",
    Verdict.FLAKY: "the guard notices in some runs and not in others",
    Verdict.NO_TESTS: "the guard collects no test, or skips what would fail",
    Verdict.ERROR: "the guard could not be run",
}

#: How a test reached a statement when it ran it itself; any other words say what did instead.
IN_THE_TEST: Final = "in the test"

#: Of several guards the one that is worst gives the toggle its verdict: what says least comes first.
WORST_FIRST = (
    Verdict.ERROR,
    Verdict.BROKEN,
    Verdict.NO_TESTS,
    Verdict.VACUOUS,
    Verdict.UNREACHED,
    Verdict.FLAKY,
    Verdict.CAUGHT,
)


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """One test of one run. `kind` is passed, failed, error, skipped or xfailed; `message` says why.

    `reached`: the toggles whose edited statement it reached until then, each with how.
    """

    __test__ = False  # pytest collects classes by name

    name: str
    kind: str
    message: str = ""
    reached: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class GuardRun:
    """One process that ran guards, or the part of it that one guard had: how it ended, what its tests said.

    `reached` holds the ids of the toggles whose edited statement ran in any process of a reverted run.
    `trouble` says why the run counts for nothing: no activation, a crash, a time limit. `is_general`: that is
    so of all its guards, rather than of the one that was at work then.
    """

    command: tuple[str, ...]
    status: int
    tests: tuple[TestOutcome, ...]
    seconds: float
    reached: frozenset[str] = frozenset()
    trouble: str = ""
    output: str = ""
    seen: Witnessed | None = None
    is_general: bool = False

    @property
    def ran(self) -> tuple[TestOutcome, ...]:
        """The tests that were not skipped, nor expected to fail."""
        return tuple(test for test in self.tests if test.kind not in {"skipped", "xfailed"})

    @property
    def failed(self) -> tuple[TestOutcome, ...]:
        """The tests whose assertion, or any exception in their body, made them fail."""
        return tuple(test for test in self.tests if test.kind == "failed")

    @property
    def errors(self) -> tuple[TestOutcome, ...]:
        """The tests that broke outside their body: set-up, tear-down, collection."""
        return tuple(test for test in self.tests if test.kind == "error")

    def names(self, kind: str) -> set[str]:
        """The names of the tests that ended so."""
        return {test.name for test in self.tests if test.kind == kind}


def is_green(run: GuardRun) -> bool:
    """Whether tests ran and all of them passed."""
    return not run.trouble and bool(run.ran) and not run.failed and not run.errors


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of one guard: with the fix, without it, and with what the toggle requires taken out alone."""

    guard: str
    fixed: tuple[GuardRun, ...]
    reverted: tuple[GuardRun, ...]
    required: tuple[GuardRun, ...] = ()


def judge(toggle_id: str, runs: Runs) -> tuple[Verdict, str]:
    """The verdict on one guard, and one sentence with what it rests on.

    With the fix comes first: a guard that is broken there proves nothing about the run without it. Then some
    test has to pass in all runs with the fix, fail in all without it, and reach the reverted statement.
    """
    for word, group in (
        ("with the fix", runs.fixed),
        ("without it", runs.reverted),
        ("with only what it requires taken out", runs.required),
    ):
        early = _unusable(runs.guard, group, word)
        if early is not None:
            return early
    num_green = sum(is_green(run) for run in runs.fixed)
    broken = [run for run in runs.fixed if run.failed]
    if broken:
        names = ", ".join(test.name for test in broken[0].failed[:3])
        return Verdict.BROKEN, f"fails in {len(broken)} of {len(runs.fixed)} runs with the fix: {names}"
    if num_green < len(runs.fixed):
        some = (
            f"with the fix: passes in {num_green} of {len(runs.fixed)} runs, and runs no test in the others"
        )
        return Verdict.FLAKY, some
    red = [run for run in runs.reverted if run.failed]
    if not red:
        return _vacuous(toggle_id, runs.reverted)
    return _noticed(toggle_id, runs, red)


def _vacuous(toggle_id: str, reverted: Sequence[GuardRun]) -> tuple[Verdict, str]:
    num_green = sum(is_green(run) for run in reverted)
    missed = all(toggle_id not in dict(test.reached) for run in reverted for test in run.tests)
    why = "; the reverted statement was never reached" if missed else ""
    return Verdict.VACUOUS, f"passes in {num_green} of {len(reverted)} runs without the fix{why}"


def _noticed(toggle_id: str, runs: Runs, red: Sequence[GuardRun]) -> tuple[Verdict, str]:
    """The verdict on a guard that fails without the fix in the runs `red`."""
    counts = f"fails in {len(red)} of {len(runs.reverted)} runs without the fix"
    failing = {test.name for run in red for test in run.failed}
    anyhow = {name for name in failing for run in runs.required if name not in run.names("passed")}
    own = failing - anyhow
    if not own:
        return Verdict.VACUOUS, (
            f"{counts}, but {_some(anyhow)} does not pass either with only what the toggle requires taken "
            "out: it says nothing of the toggle itself"
        )
    compared = {name for name in own if all(name in run.names("passed") for run in runs.fixed)}
    if not compared:
        return Verdict.NO_TESTS, f"{counts}, but {_some(own)} was skipped with the fix"
    unreached = {
        test.name for run in red for test in run.failed if toggle_id not in dict(test.reached)
    } & compared
    if unreached == compared:
        return Verdict.UNREACHED, f"{counts}, yet {_not_reached(toggle_id, red, compared)}"
    steady = {
        name for name in compared - unreached if all(name in run.names("failed") for run in runs.reverted)
    }
    if not steady:
        more = "" if len(red) < len(runs.reverted) else ", but no test of it fails in all of them"
        return Verdict.FLAKY, f"{counts}{more}: {_some(compared - unreached)}"
    num_tests = len(runs.reverted[0].ran)
    of_how_many = f" ({len(steady)} of {num_tests} tests)" if num_tests > 1 else ""
    return Verdict.CAUGHT, f"{counts}{of_how_many}: {_some(steady)}{_reached_before(toggle_id, red, steady)}"


def _not_reached(toggle_id: str, red: Sequence[GuardRun], failing: set[str]) -> str:
    if all(toggle_id not in run.reached for run in red):
        return f"the reverted statement was never reached: {_some(failing)}"
    return f"{_some(failing)} did not reach the reverted statement, which something else in the run did"


def _reached_before(toggle_id: str, red: Sequence[GuardRun], noticing: set[str]) -> str:
    """Where no test that notices ran the statement itself, when it ran."""
    how = {dict(test.reached)[toggle_id] for run in red for test in run.failed if test.name in noticing}
    return "" if IN_THE_TEST in how else f"; {', or '.join(sorted(how))}"


def _some(names: set[str]) -> str:
    ordered = sorted(names)
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} (and {len(ordered) - 1} more)"


def _unusable(guard: str, runs: Sequence[GuardRun], word: str) -> tuple[Verdict, str] | None:
    """ERROR or NO_TESTS when one of `runs` could not be run, or none of them ran a test."""
    for run in runs:
        if run.trouble:
            return Verdict.ERROR, f"{word}: {run.trouble}"
        if run.errors:
            first = run.errors[0]
            return Verdict.ERROR, f"{word}: {first.name}: {first.message or 'error outside the test body'}"
    if runs and not any(run.ran for run in runs):
        idle = runs[0].tests
        if not idle:
            return Verdict.NO_TESTS, f"{word}: no test ran: {guard} holds none"
        how = "expected to fail" if all(test.kind == "xfailed" for test in idle) else "skipped"
        return Verdict.NO_TESTS, f"{word}: no test ran, {len(idle)} {how}: {idle[0].message or idle[0].name}"
    return None
