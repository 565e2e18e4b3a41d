"""Which tests of a suite, other than a toggle's own guards, notice that its fix is gone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prtoggle.spec import Toggle
    from prtoggle.verify.guard_run import GuardRunner
    from prtoggle.verify.verdict import GuardRun


def also_caught_by(
    toggles: Sequence[Toggle],
    suite: Sequence[str],
    runner: GuardRunner,
    *,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _id: None,
) -> dict[str, list[str]]:
    """Test files of `suite` with a test that passes as things are and fails with the toggle, by toggle id.

    One run of the suite a toggle, between two for the state with all fixes. A test that fails in either of
    these tells nothing: it is broken, or fails now and then.
    """
    guards = {guard.split("::")[0] for toggle in toggles for guard in toggle.guards}
    healthy = _names(runner.run(suite), {"passed"})
    failing: dict[str, set[str]] = {}
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        futures = {pool.submit(runner.run, suite, (t.id, *t.requires)): t.id for t in toggles}
        for future in as_completed(futures):
            failing[futures[future]] = _names(future.result(), {"failed", "error"})
            progress(futures[future])
    healthy &= _names(runner.run(suite), {"passed"})
    return {
        toggle_id: sorted({name.split("::")[0] for name in names & healthy} - guards)
        for toggle_id, names in failing.items()
    }


def _names(run: GuardRun, kinds: set[str]) -> set[str]:
    return {test.name for test in run.tests if test.kind in kinds}
