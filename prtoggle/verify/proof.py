"""Verifies toggles, several at a time: guards with the fix and without it, each run in a fresh process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prtoggle.verify.verdict import Proof, Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prtoggle.spec import Toggle
    from prtoggle.verify.guard_run import GuardRunner
    from prtoggle.verify.verdict import GuardRun


@dataclass(frozen=True, slots=True)
class _Job:
    toggle: Toggle
    reverted: bool


def verify_toggles(
    toggles: Sequence[Toggle],
    runner: GuardRunner,
    *,
    repeat: int = 1,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _id: None,
) -> list[Proof]:
    """One proof per toggle, in the order given; `progress` is told of every run that ended, by toggle id.

    Toggles without guards get the verdict NO_TESTS and no process.
    """
    work = [
        _Job(toggle, reverted)
        for toggle in toggles
        if toggle.guards
        for reverted in (False, True)
        for _ in range(repeat)
    ]
    runs: dict[tuple[str, bool], list[GuardRun]] = {}
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        futures = {pool.submit(_run, job, runner): job for job in work}
        try:
            for future in as_completed(futures):
                job = futures[future]
                runs.setdefault((job.toggle.id, job.reverted), []).append(future.result())
                progress(job.toggle.id)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [_proof(toggle, runs) for toggle in toggles]


def _run(job: _Job, runner: GuardRunner) -> GuardRun:
    reverted = (job.toggle.id, *job.toggle.requires) if job.reverted else ()
    return runner.run(job.toggle.guards, reverted)


def _proof(toggle: Toggle, runs: dict[tuple[str, bool], list[GuardRun]]) -> Proof:
    fixed = tuple(runs.get((toggle.id, False), ()))
    reverted = tuple(runs.get((toggle.id, True), ()))
    if toggle.guards:
        verdict, detail = judge(toggle.id, fixed, reverted)
    else:
        verdict, detail = Verdict.NO_TESTS, "the spec names no guards"
    return Proof(toggle.id, toggle.title, toggle.guards, verdict, detail, fixed, reverted)
