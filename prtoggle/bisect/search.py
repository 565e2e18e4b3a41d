"""Which set to test next, and what follows from the answers: the search, without a process or a file.

Two stages. The first takes it that one toggle is the cause, and halves:

    suspects  [ a b c d | e f g h ]   test {a b c d}: changed -> go on inside; not -> one of e f g h
    in the end one toggle is left, and is tested by itself unless the last answer was about it alone.

If that test does not change the verdict, several toggles work together, or one undoes what another did. The
second stage assumes nothing. It keeps a set that was tested and is as the unchanged build (`lower`), and a
larger one that was tested and is not (`whole`), and closes the gap between them toggle by toggle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prtoggle.bisect.apart import find_apart
from prtoggle.bisect.conversation import NOTHING, Finding, Talk
from prtoggle.bisect.inside import Inside
from prtoggle.bisect.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.bisect.conversation import Asking
    from prtoggle.bisect.space import Space, ToggleSet


def search(space: Space, *, unmask: bool = False) -> Asking[Finding]:
    """Looks for a minimal set that changes the verdict; see the module."""
    return (yield from _Search(space).run(unmask=unmask))


class _Search:
    """One search and its conversation."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._talk = Talk(space)
        self._located = 0

    def run(self, *, unmask: bool) -> Asking[Finding]:
        asked = self._talk.asked
        self._talk.base = (yield from self._talk.ask(NOTHING)).verdict
        if self._talk.base is Verdict.UNKNOWN:
            return Finding("unjudged", asked)
        tops = self._space.tops()
        unchanged: set[str] = set()
        for top in tops:
            if (yield from self._talk.changes(top)):
                return (yield from self._cause(top, (top - unchanged) or top))
            unchanged |= top if asked[top].verdict is self._talk.base else NOTHING
        doubtful = [top for top in tops if unmask or asked[top].verdict is Verdict.UNKNOWN]
        if not doubtful:
            return Finding("agree", asked)
        found = yield from Inside(self._talk, doubtful, unmask=unmask).find()
        if found is None and unmask:
            found = yield from find_apart(self._talk)
        if found is None:
            return Finding("nothing", asked)
        return (yield from self._cause(found, found))

    def _cause(self, whole: ToggleSet, suspects: ToggleSet) -> Asking[Finding]:
        whole, single = yield from self._halve(whole, suspects)
        if not single:
            whole = yield from self._close_in(whole)
        whole = yield from self._remove(whole, 1)
        members = {}
        for toggle_id in self._space.ordered(whole):
            rest = self._space.without(whole, [toggle_id])
            members[toggle_id] = self._talk.asked[rest].verdict
        return Finding("cause", self._talk.asked, whole, members, self._located, single)

    def _halve(self, whole: ToggleSet, suspects: ToggleSet) -> Asking[tuple[ToggleSet, bool]]:
        """The smallest set that was seen to change the verdict, and whether it is one toggle's."""
        line = self._space.ordered(self._reached(whole, suspects))
        while len(line) > 1:
            half = (len(line) + 1) // 2
            for part, other in ((line[:half], line[half:]), (line[half:], line[:half])):
                test = self._space.close(part)
                known = yield from self._talk.ask(test)
                if self._talk.has_changed(known):
                    inside = [toggle_id for toggle_id in line if toggle_id in test]
                    whole = test
                    line = self._space.ordered(
                        self._reached(test, frozenset(inside if len(inside) < len(line) else part))
                    )
                    break
                if known.verdict is self._talk.base:
                    line = other
                    break
            else:
                return whole, False
        self._located = self._talk.tests
        alone = self._space.close(line)
        if (yield from self._talk.changes(alone)):
            return alone, True
        return whole, False

    def _reached(self, tested: ToggleSet, suspects: ToggleSet) -> ToggleSet:
        """The suspects whose code ran in that test: what did not run made no difference there."""
        return (suspects & self._talk.asked[tested].reached) or suspects

    def _close_in(self, whole: ToggleSet) -> Asking[ToggleSet]:
        """A set inside of `whole` that changes the verdict and of which no member is known to be idle."""
        ran = self._space.close(self._talk.asked[whole].reached & whole)
        if ran and ran < whole and (yield from self._talk.changes(ran)):
            whole = ran
        needed: ToggleSet = NOTHING
        while True:
            lower = self._space.close(needed)
            known = yield from self._talk.ask(lower)
            if self._talk.has_changed(known):
                return lower
            if known.verdict is Verdict.UNKNOWN:
                break
            rest = self._space.ordered(whole - lower)
            last = yield from self._turning_point(lower, rest)
            if last is None:
                break
            whole = self._space.close(lower | frozenset(rest[: last + 1]))
            needed |= {rest[last]}
        # Tests that cannot say are in the way: look for any smaller set instead.
        return (yield from self._remove(whole, (len(whole) + 1) // 2))

    def _turning_point(self, lower: ToggleSet, rest: Sequence[str]) -> Asking[int | None]:
        """The index in `rest` whose toggle changes the verdict on top of `lower` and of those before it.

        `lower` is known to be unchanged, with all of `rest` it is changed. None when nothing around the
        middle can be judged.
        """
        low, high = 0, len(rest)
        while high - low > 1:
            quarter = (high - low) // 4
            middle = (low + high) // 2
            for cut in dict.fromkeys((middle, middle - quarter, middle + quarter)):
                known = yield from self._talk.ask(self._space.close(lower | frozenset(rest[:cut])))
                if known.verdict is not Verdict.UNKNOWN:
                    break
            else:
                return None
            low, high = (low, cut) if self._talk.has_changed(known) else (cut, high)
        return high - 1

    def _remove(self, whole: ToggleSet, size: int) -> Asking[ToggleSet]:
        """`whole` less what can go without changing the verdict back, in pieces of `size`, then of one."""
        while True:
            line = self._space.ordered(whole)
            for start in range(0, len(line), size):
                smaller = self._space.without(whole, line[start : start + size])
                if (yield from self._talk.changes(smaller)):
                    whole = smaller
                    break
            else:
                if size == 1:
                    return whole
                size = (size + 1) // 2
