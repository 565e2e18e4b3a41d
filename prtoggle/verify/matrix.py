"""Every toggle against every guard: what a toggle breaks beside what it is meant to break.

One process a toggle runs all guards, and one more runs them with every fix in: a guard that fails there tells
nothing of any toggle. The diagonal has to be red. A red cell off the diagonal is either declared by the
toggle (`masks:`) or a finding: the toggle takes out more than its fix.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from prtoggle.verify.entries import entries_of
from prtoggle.verify.proof import reverted_with
from prtoggle.verify.rounds import run_round
from prtoggle.verify.side_by_side import run_side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from prtoggle.spec import Toggle
    from prtoggle.verify.guard_run import GuardRunner
    from prtoggle.verify.verdict import GuardRun


#: The round in which nothing is reverted.
_FIXED: Final = ""
#: Of a toggle whose revert nobody looks out for.
_NO_GUARDS: Final = "the spec names no guards"


class Cell(StrEnum):
    """What one toggle did to one toggle's guards."""

    CAUGHT = "caught"  # on the diagonal, red
    MISSED = "missed"  # on the diagonal, green
    QUIET = "quiet"  # off the diagonal, green
    MASKED = "masked"  # off the diagonal, red, declared
    FINDING = "finding"  # off the diagonal, red, not declared
    ERROR = "error"  # the guards could not be run

    @property
    def is_bad(self) -> bool:
        """Whether the cell needs somebody's attention."""
        return self in {Cell.MISSED, Cell.FINDING, Cell.ERROR}


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows are toggles that were reverted, columns are the toggles whose guards ran.

    `trouble` says of each cell that is ERROR why, by (reverted, guard of).
    """

    ids: tuple[str, ...]
    titles: Mapping[str, str]
    cells: Mapping[tuple[str, str], Cell]
    masks: Mapping[str, tuple[str, ...]]
    trouble: Mapping[tuple[str, str], str]

    @property
    def findings(self) -> tuple[tuple[str, str, Cell], ...]:
        """The cells that need attention, as (reverted, guard of, cell)."""
        return tuple((row, column, cell) for (row, column), cell in self.cells.items() if cell.is_bad)

    @property
    def stale_masks(self) -> tuple[tuple[str, str], ...]:
        """Masks that are declared but do not show, as (reverted, guard of)."""
        return tuple(
            (row, column)
            for row, masked in self.masks.items()
            for column in masked
            if self.cells.get((row, column)) is Cell.QUIET
        )


def build_matrix(
    toggles: Sequence[Toggle],
    runner: GuardRunner,
    *,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _id: None,
) -> Matrix:
    """Run every guard under every toggle; `progress` is told of each toggle whose guards all ran."""
    entries = {toggle.id: entries_of(toggle.guards, runner.root) for toggle in toggles}
    everything = tuple(dict.fromkeys(entry for of_toggle in entries.values() for entry in of_toggle))
    with_required = {toggle.id: reverted_with(toggle, runner) for toggle in toggles}
    calls = {
        toggle_id: functools.partial(run_round, runner, everything, ids, by_test=False)
        for toggle_id, ids in with_required.items()
    }
    calls[_FIXED] = functools.partial(run_round, runner, everything, (), by_test=False)
    rounds = run_side_by_side(
        calls, runner.groups, jobs=jobs, ended=lambda key: None if key is _FIXED else progress(key)
    )
    fixed = {
        column: _broken([rounds[_FIXED].parts[entry] for entry in entries[column]]) for column in entries
    }
    parts = {
        (row, column): [rounds[row].parts[entry] for entry in of_column]
        for row in entries
        for column, of_column in entries.items()
    }
    masks = {toggle.id: toggle.masks for toggle in toggles if toggle.masks}
    return Matrix(
        ids=tuple(entries),
        titles={toggle.id: toggle.title for toggle in toggles},
        cells={
            (row, column): Cell.ERROR
            if fixed[column] or (row == column and not guards)
            else _cell(
                guards,
                own=row == column,
                declared=column in masks.get(row, ()) or column in with_required[row],
            )
            for (row, column), guards in parts.items()
        },
        masks=masks,
        trouble={
            (row, column): trouble
            for (row, column), guards in parts.items()
            if (trouble := fixed[column] or (_trouble(guards) if guards or row != column else _NO_GUARDS))
        },
    )


def _cell(guards: Sequence[GuardRun], *, own: bool, declared: bool) -> Cell:
    """Judge the guards of one toggle where another was reverted, or itself, which each has to notice."""
    if _trouble(guards):
        return Cell.ERROR
    red = [bool(guard.failed) for guard in guards]
    if own:
        return Cell.CAUGHT if all(red) else Cell.MISSED
    if not any(red):
        return Cell.QUIET
    return Cell.MASKED if declared else Cell.FINDING


def _broken(guards: Sequence[GuardRun]) -> str:
    """Why the guards of a toggle tell nothing, as they are with every fix in; empty when they pass."""
    trouble = _trouble(guards)
    for guard in guards:
        if not trouble and guard.failed:
            trouble = f"{guard.failed[0].name}: {guard.failed[0].message}"
        if not trouble and not guard.ran:
            trouble = "no test ran: all were skipped, or expected to fail"
    return trouble and f"with the fix: {trouble}"


def _trouble(guards: Sequence[GuardRun]) -> str:
    """Why a cell cannot be judged; empty when it can."""
    for guard in guards:
        if guard.trouble:
            return guard.trouble
        if guard.errors:
            return f"{guard.errors[0].name}: {guard.errors[0].message or 'error outside the test body'}"
        if not guard.tests:
            return "no test ran"
    return ""
