"""Whether a command still says after the search what it said in it, of the build as it is and of the cause.

A command that keeps state (a file that it leaves, a cache that it fills) or fails now and then changes its
verdict by itself, and what is reverted in that run is taken for the cause. Asked again, it gives itself away:

    state        passes fails fails ... and nothing reverted: fails
    every third  passes fails passes passes fails, and nothing reverted: passes; the cause: passes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from prtoggle.bisect.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    #: What is run next, or what the closing runs came to.
    Step = Literal["nothing", "cause", "steady", "unsteady"]

#: A command that fails every second or third time is told from a toggle's doing.
_PERIODS: Final = (2, 3)


def closing_step(
    base: Verdict, search: Sequence[Verdict], closing: Sequence[tuple[bool, Verdict]], repeat: int
) -> Step:
    """What is to be run after the search, or whether the closing runs agree with it.

    `base` is the verdict of the build as it is, `search` are the verdicts of the runs in their order, and
    `closing` those after the search, each with whether it was a run of the cause.

    One run of nothing reverted and one of the cause are enough, but for two cases. As long as the verdicts of
    all runs could be those of a command that changes it with every second or third run, the cause is run
    again: that takes two more at most. And where a side fails now and then, it has to fail in one of `repeat`
    runs.
    """
    nothing = _confirms(base, [verdict for is_cause, verdict in closing if not is_cause], repeat)
    cause = _confirms(base.opposite, [verdict for is_cause, verdict in closing if is_cause], repeat)
    if nothing is False or cause is False:
        return "unsteady"
    if nothing is None:
        return "nothing"
    everything = [*search, *(verdict for _, verdict in closing)]
    if cause is None or (repeat == 1 and any(_repeats(everything, period) for period in _PERIODS)):
        return "cause"
    return "steady"


def _confirms(expected: Verdict, runs: Sequence[Verdict], repeat: int) -> bool | None:
    """Whether the closing runs of one side say what was expected; None while one more is needed."""
    if expected is Verdict.FAIL and repeat > 1:
        if Verdict.FAIL in runs:
            return True
        return False if Verdict.UNKNOWN in runs or len(runs) >= repeat else None
    return None if not runs else all(verdict is expected for verdict in runs)


def _repeats(verdicts: Sequence[Verdict], period: int) -> bool:
    """Whether each run came to the same as the one `period` runs earlier, where both could be judged."""
    pairs = zip(verdicts, verdicts[period:], strict=False)
    return all(one is other for one, other in pairs if Verdict.UNKNOWN not in (one, other))
