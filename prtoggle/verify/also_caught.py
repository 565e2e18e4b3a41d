"""Which tests of a suite, other than a toggle's own guards, notice that its fix is gone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prtoggle.spec import Toggle
    from prtoggle.verify.guard_run import GuardRunner


def also_caught_by(
    toggles: Sequence[Toggle],
    suite: Sequence[str],
    runner: GuardRunner,
    *,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _id: None,
) -> dict[str, list[str]]:
    """Test files of `suite` with a test that passes as things are and fails with the toggle, by toggle id.

    One run of the suite for the state with all fixes, and one a toggle. Tests that fail anyway tell nothing.
    """
    guards = {guard.split("::")[0] for toggle in toggles for guard in toggle.guards}
    healthy = {test.name for test in runner.run(suite).tests if test.kind == "passed"}
    caught: dict[str, list[str]] = {}
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        futures = {pool.submit(runner.run, suite, (t.id, *t.requires)): t.id for t in toggles}
        for future in as_completed(futures):
            noticed = {
                test.name.split("::")[0]
                for test in future.result().tests
                if test.kind in {"failed", "error"} and test.name in healthy
            }
            caught[futures[future]] = sorted(noticed - guards)
            progress(futures[future])
    return caught
