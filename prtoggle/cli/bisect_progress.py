"""What `prtoggle bisect` prints while it searches: what is searched, and a line for each run."""

from __future__ import annotations

import math
from contextlib import ExitStack
from textwrap import shorten
from typing import TYPE_CHECKING, Final, Self

from rich.text import Text

from prtoggle.bisect.verdicts import Verdict
from prtoggle.cli.progress import progress_bar

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from rich.console import Console

    from prtoggle.bisect.candidates import Candidates
    from prtoggle.bisect.range_toggles import Commits
    from prtoggle.bisect.records import RunRecord
    from prtoggle.bisect.space import Space, ToggleSet

STYLE: Final = {Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.UNKNOWN: "yellow"}
#: Sets up to this size are listed in full.
LISTED: Final = 4


def print_start(
    out: Console, candidates: Candidates, commits: Commits | None, state: Path, resumed: int
) -> None:
    """What is searched, what is not, and where the search is kept."""
    number = len(candidates.space.order)
    where = f"; {counted(resumed, 'run')} taken from it" if resumed else ""
    out.print(f"searching {counted(number, 'toggle')}, state in {state}{where}", soft_wrap=True)
    if candidates.pulled_in:
        out.print(f"with what they require: {', '.join(candidates.pulled_in)}", soft_wrap=True)
    tops = candidates.space.tops()
    if len(tops) > 1:
        sizes = ", ".join(str(len(top)) for top in tops)
        out.print(
            f"not all can be reverted together: the far end is {len(tops)} sets, of {sizes}", soft_wrap=True
        )
    if commits is not None and commits.changed:
        out.print(
            "the work tree has changes that are in no commit; they are part of every run", style="yellow"
        )


class RunLines:
    """Prints a line when a run has ended, above a progress bar where there is a terminal."""

    def __init__(self, out: Console, space: Space, repeat: int, done: int) -> None:
        self._out = out
        self._space = space
        self._number = done
        # One cause takes as many tests as this; more than one takes longer than the bar says.
        self._expected = (math.ceil(math.log2(len(space.order))) + 3) * repeat
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._advance = self._stack.enter_context(progress_bar("bisect", self._expected))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away."""
        self._stack.close()

    def show(self, record: RunRecord) -> None:
        """Print what a run came to."""
        self._number += 1
        toggles = listed(self._space, frozenset(record.toggles))
        when = ", after the search" if record.closing else ""
        line = f"run {self._number}{when}: {toggles} reverted: "
        told = Text(line).append(record.verdict.value, style=STYLE[record.verdict])
        how = shorten(record.how, 120, placeholder="...")
        self._out.print(told.append(f" ({how}, {record.seconds:.1f} s)"), soft_wrap=True)
        self._advance(f"{toggles}")


def counted(number: int, what: str) -> str:
    """A number of things in words: "1 run", "2 runs"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def listed(space: Space, toggles: ToggleSet) -> str:
    """The ids of a small set, the number and the first ones of a large one."""
    line = space.ordered(toggles)
    if not line:
        return "nothing"
    if len(line) <= LISTED:
        return ", ".join(line)
    return f"{len(line)} ({', '.join(line[:2])}, ... {line[-1]})"
