"""Every toggle against every guard: what a toggle breaks beside what it is meant to break.

One process a toggle runs all guards. The diagonal has to be red. A red cell off the diagonal is either
declared by the toggle (`masks:`) or a finding: the toggle takes out more than its fix.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prtoggle.spec import Toggle
    from prtoggle.verify.guard_run import GuardRunner
    from prtoggle.verify.verdict import GuardRun, TestOutcome


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
    """Rows are toggles that were reverted, columns are the toggles whose guards ran."""

    ids: tuple[str, ...]
    titles: Mapping[str, str]
    cells: Mapping[tuple[str, str], Cell]
    masks: Mapping[str, tuple[str, ...]]
    trouble: Mapping[str, str]

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
    """Run every guard under every toggle; `progress` is told of each toggle whose process ended."""
    guarded = [toggle for toggle in toggles if toggle.guards]
    guards = tuple(dict.fromkeys(guard for toggle in guarded for guard in toggle.guards))
    runs: dict[str, GuardRun] = {}
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        futures = {
            pool.submit(runner.run, guards, (toggle.id, *toggle.requires)): toggle.id for toggle in guarded
        }
        for future in as_completed(futures):
            runs[futures[future]] = future.result()
            progress(futures[future])
    return Matrix(
        ids=tuple(toggle.id for toggle in guarded),
        titles={toggle.id: toggle.title for toggle in guarded},
        cells={
            (row.id, column.id): _cell(row, column, runs[row.id]) for row in guarded for column in guarded
        },
        masks={toggle.id: toggle.masks for toggle in guarded if toggle.masks},
        trouble={toggle_id: run.trouble for toggle_id, run in runs.items() if run.trouble},
    )


def _cell(row: Toggle, column: Toggle, run: GuardRun) -> Cell:
    """Judge the guards of `column` in the run that reverted `row`."""
    tests = list(_tests_of(column, run))
    if run.trouble or not tests or any(test.kind == "error" for test in tests):
        return Cell.ERROR
    red = any(test.kind == "failed" for test in tests)
    if row.id == column.id:
        return Cell.CAUGHT if red else Cell.MISSED
    if not red:
        return Cell.QUIET
    return Cell.MASKED if column.id in row.masks or column.id in row.requires else Cell.FINDING


def _tests_of(toggle: Toggle, run: GuardRun) -> Iterator[TestOutcome]:
    """The tests of `run` that belong to the guards of `toggle`; a guard is a file or a node id in one."""
    for test in run.tests:
        name = test.name.replace("\\", "/")
        if any(name == guard or name.startswith((f"{guard}::", f"{guard}[")) for guard in toggle.guards):
            yield test
