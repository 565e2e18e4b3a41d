"""Whether a command still says of the build as it is what it said at first, asked once a cause was found.

A command that keeps state (a file that it leaves, a cache that it fills) or fails now and then changes its
verdict by itself, and what is reverted in that run is taken for the cause. Asked again, it gives itself away:

    state        passes fails fails ... and nothing reverted: fails
    alternating  passes fails passes fails, and nothing reverted: passes fails
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from prtoggle.bisect.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence


def is_steady(
    base: Verdict, search: Sequence[Verdict], closing: Sequence[Verdict], repeat: int
) -> bool | None:
    """Whether the closing runs agree with `base`; None while one more is needed to tell.

    `search` and `closing` are the verdicts of the runs in their order. One closing run is enough, but for two
    cases: where the verdicts have alternated from the first run to the last a second one is needed, and where
    a build fails now and then it has to fail in one of `repeat` runs.
    """
    if base is Verdict.FAIL and repeat > 1:
        if Verdict.FAIL in closing:
            return True
        return False if Verdict.UNKNOWN in closing or len(closing) >= repeat else None
    if any(verdict is not base for verdict in closing):
        return False
    needed = 2 if all(one is not other for one, other in pairwise([*search, *closing[:1]])) else 1
    return True if len(closing) >= needed else None
