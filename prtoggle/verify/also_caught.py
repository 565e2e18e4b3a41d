"""Which tests of a suite, other than a toggle's own guards, notice that its fix is gone."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from prtoggle.verify.entries import Entry, entries_of
from prtoggle.verify.proof import reverted_with
from prtoggle.verify.side_by_side import run_side_by_side

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

    One run of the suite a toggle, between two for the state with all fixes. A test that fails in either of
    these tells nothing: it is broken, or fails now and then.
    """
    guards = {
        Entry(entry.file).name(runner.root)
        for toggle in toggles
        for entry in entries_of(toggle.guards, runner.root)
    }
    healthy = runner.run(suite).names("passed")
    calls = {
        toggle.id: functools.partial(runner.run, suite, reverted_with(toggle, runner)) for toggle in toggles
    }
    runs = run_side_by_side(calls, runner.groups, jobs=jobs, ended=progress)
    healthy &= runner.run(suite).names("passed")
    return {
        toggle_id: sorted(
            {name.split("::")[0] for name in (run.names("failed") | run.names("error")) & healthy} - guards
        )
        for toggle_id, run in runs.items()
    }
