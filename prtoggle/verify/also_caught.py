"""Which tests of a suite, other than a toggle's own guards, notice that its fix is gone."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from prtoggle.errors import PrToggleError
from prtoggle.verify.entries import Entry, entries_of
from prtoggle.verify.proof import reverted_with
from prtoggle.verify.rounds import run_round
from prtoggle.verify.side_by_side import run_side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from prtoggle.spec import Toggle
    from prtoggle.verify.guard_run import GuardRunner
    from prtoggle.verify.rounds import Round


class SuiteError(PrToggleError, RuntimeError):
    """Tests that are asked who else notices cannot be run even with all fixes in."""


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
    these tells nothing: it is broken, or fails now and then. Raises SuiteError when one ends the process.
    """
    entries = entries_of(suite, runner.root)
    guards = {
        Entry(entry.file).name(runner.root)
        for toggle in toggles
        for entry in entries_of(toggle.guards, runner.root)
    }
    before = run_round(runner, entries)
    _refuse_trouble(before, runner.root)
    calls = {
        toggle.id: functools.partial(run_round, runner, entries, reverted_with(toggle, runner), by_test=False)
        for toggle in toggles
    }
    rounds = run_side_by_side(calls, runner.groups, jobs=jobs, ended=progress)
    healthy = _names(before, "passed") & _names(run_round(runner, entries), "passed")
    return {
        toggle_id: sorted(
            {name.split("::")[0] for name in _names(done, "failed", "error") & healthy} - guards
        )
        for toggle_id, done in rounds.items()
    }


def _names(done: Round, *kinds: str) -> set[str]:
    return {name for part in done.parts.values() for kind in kinds for name in part.names(kind)}


def _refuse_trouble(done: Round, root: Path) -> None:
    for entry, part in done.parts.items():
        if part.trouble:
            raise SuiteError(
                f"{entry.name(root)} cannot be asked who else notices, for it does not run with all fixes "
                f"in: {part.trouble}. Repair it, or leave it out of --also"
            )
