"""Pairs of toggles that go together but in no far end: tests inside of the ends never hold both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prtoggle.bisect.conversation import Asking, Talk
    from prtoggle.bisect.space import ToggleSet

#: How many pairs are tested, whatever the number of toggles; with more toggles, as many as there are.
_FEW: Final = 10


def find_apart(talk: Talk) -> Asking[ToggleSet | None]:
    """A set with such a pair that changes the verdict, or None.

    First a largest set with each pair, which mostly holds several of them; then each pair by itself, which no
    other revert can mask.
    """
    space = talk.space
    pairs = space.apart()[: max(_FEW, len(space.order))]
    for pair in pairs:
        if not talk.judged_together(pair):
            largest = space.grown(space.close(pair), space.ordered(space.order))
            if (yield from talk.changes(largest)):
                return largest
    for pair in pairs:
        smallest = space.close(pair)
        if (yield from talk.changes(smallest)):
            return smallest
    return None
