"""Which set to test next, and what follows from the answers: the search, without a process or a file.

It is a conversation. `search` yields the set of toggles to revert next and is sent what became of it, so that
one and the same search can be replayed from what is known already: after an interruption, or with an assumed
answer to find out what would be asked next.

Two stages. The first takes it that one toggle is the cause, and halves:

    suspects  [ a b c d | e f g h ]   test {a b c d}: changed -> go on inside; not -> one of e f g h
    in the end one toggle is left, and is tested by itself unless the last answer was about it alone.

If that test does not change the verdict, several toggles work together, or one undoes what another did. The
second stage assumes nothing. It keeps a set that was tested and is as the unchanged build (`lower`), and a
larger one that was tested and is not (`whole`), and closes the gap between them toggle by toggle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

from prtoggle.bisect.space import Space, ToggleSet
from prtoggle.bisect.verdicts import Verdict

Result = TypeVar("Result")
NOTHING: ToggleSet = frozenset()


class Known(NamedTuple):
    """What is known of a set: its verdict, the toggles whose reverted code ran, whether no run was needed."""

    verdict: Verdict
    reached: ToggleSet = NOTHING
    free: bool = False


Asking = Generator[ToggleSet, Known, Result]
Outcome = Literal["cause", "agree", "unjudged", "nothing"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What the search came to.

    `outcome` is "cause"; "agree" when the ends have one verdict; "unjudged" when the build as it is cannot be
    judged; "nothing" when sets inside of an end that could not be judged were tested in vain.
    `asked` holds what was asked, in order; `located` how many tests it took until one toggle was left;
    `single` whether that toggle alone was the cause. `members` gives, for each toggle of the cause, the
    verdict without it.
    """

    outcome: Outcome
    asked: dict[ToggleSet, Known]
    cause: ToggleSet = NOTHING
    members: dict[str, Verdict] = field(default_factory=dict)
    located: int = 0
    single: bool = False


def search(space: Space, *, unmask: bool = False) -> Asking[Finding]:
    """Looks for a minimal set that changes the verdict; see the module."""
    return (yield from _Search(space, unmask=unmask).run())


def replay(
    start: Callable[[], Asking[Finding]], lookup: Callable[[ToggleSet], Known | None]
) -> ToggleSet | Finding:
    """The first set that `lookup` does not know, or the finding when it knows all that is asked."""
    talk = start()
    try:
        asked = next(talk)
        while True:
            known = lookup(asked)
            if known is None:
                return asked
            asked = talk.send(known)
    except StopIteration as stop:
        finding: Finding = stop.value
        return finding


def upcoming(
    start: Callable[[], Asking[Finding]], lookup: Callable[[ToggleSet], Known | None], count: int
) -> list[ToggleSet] | Finding:
    """Up to `count` sets that are asked next: the one that is needed, then those that may be, nearest first.

    The finding when there is nothing left to ask.
    """
    wanted: list[ToggleSet] = []
    assumptions: deque[dict[ToggleSet, Known]] = deque([{}])
    # Some assumptions end the search or lead to a set that is wanted already.
    for _ in range(4 * count):
        if not assumptions or len(wanted) >= count:
            break
        assumed = assumptions.popleft()
        result = replay(start, _assuming(assumed, lookup))
        if isinstance(result, Finding):
            if not assumed:
                return result
            continue
        if result not in wanted:
            wanted.append(result)
        assumptions += [
            {**assumed, result: Known(verdict, result)} for verdict in (Verdict.FAIL, Verdict.PASS)
        ]
    return wanted


def _assuming(
    assumed: Mapping[ToggleSet, Known], lookup: Callable[[ToggleSet], Known | None]
) -> Callable[[ToggleSet], Known | None]:
    return lambda asked: assumed.get(asked) or lookup(asked)


class _Search:
    """One conversation: what was asked, and which verdict the build has as it is."""

    def __init__(self, space: Space, *, unmask: bool) -> None:
        self._space = space
        self._unmask = unmask
        self._asked: dict[ToggleSet, Known] = {}
        self._base = Verdict.UNKNOWN
        self._located = 0

    def run(self) -> Asking[Finding]:
        self._base = (yield from self._ask(NOTHING)).verdict
        if self._base is Verdict.UNKNOWN:
            return Finding("unjudged", self._asked)
        tops = self._space.tops()
        unchanged: set[str] = set()
        for top in tops:
            known = yield from self._ask(top)
            if self._changed(known):
                return (yield from self._cause(top, (top - unchanged) or top))
            unchanged |= top if known.verdict is self._base else NOTHING
        doubtful = [top for top in tops if self._unmask or self._asked[top].verdict is Verdict.UNKNOWN]
        if not doubtful:
            return Finding("agree", self._asked)
        found = yield from self._dig(doubtful)
        if found is None:
            return Finding("nothing", self._asked)
        return (yield from self._cause(found, found))

    def _ask(self, toggles: ToggleSet) -> Asking[Known]:
        if toggles not in self._asked:
            self._asked[toggles] = yield toggles
        return self._asked[toggles]

    def _changed(self, known: Known) -> bool:
        return known.verdict is self._base.opposite

    def _tests(self) -> int:
        return sum(not known.free for known in self._asked.values())

    def _dig(self, tops: Sequence[ToggleSet]) -> Asking[ToggleSet | None]:
        """A set that changes the verdict, inside of sets that cannot be judged (or mask each other)."""
        queue, seen = deque(tops), set(tops)
        spoilers: set[str] = set()
        while queue:
            piece = queue.popleft()
            line = self._space.ordered(piece)
            half = (len(line) + 1) // 2
            for part in (line[:half], line[half:]):
                test = self._space.close(part)
                if not test or test in seen:
                    continue
                seen.add(test)
                known = yield from self._ask(test)
                if self._changed(known):
                    return test
                if known.verdict is Verdict.UNKNOWN and len(part) == 1:
                    spoilers |= set(part)
                    found = yield from self._ask_first(
                        [self._space.without(top, spoilers) for top in tops if spoilers & top]
                    )
                    if found is not None:
                        return found
                if len(test) > 1 and (self._unmask or known.verdict is Verdict.UNKNOWN):
                    queue.append(test)
            if self._settled(tops, spoilers):
                return None
        return None

    def _ask_first(self, tests: Sequence[ToggleSet]) -> Asking[ToggleSet | None]:
        for test in tests:
            if test and self._changed((yield from self._ask(test))):
                return test
        return None

    def _settled(self, tops: Sequence[ToggleSet], spoilers: set[str]) -> bool:
        """Whether all that can be judged was reverted together, without a change."""
        rests = [self._space.without(top, spoilers) for top in tops]
        return not self._unmask and all(
            not rest or (rest in self._asked and self._asked[rest].verdict is self._base) for rest in rests
        )

    def _cause(self, whole: ToggleSet, suspects: ToggleSet) -> Asking[Finding]:
        whole, single = yield from self._halve(whole, suspects)
        if not single:
            whole = yield from self._close_in(whole)
        whole = yield from self._remove(whole, 1)
        members = {}
        for toggle_id in self._space.ordered(whole):
            rest = self._space.without(whole, [toggle_id])
            members[toggle_id] = self._asked[rest].verdict
        return Finding("cause", self._asked, whole, members, self._located, single)

    def _halve(self, whole: ToggleSet, suspects: ToggleSet) -> Asking[tuple[ToggleSet, bool]]:
        """The smallest set that was seen to change the verdict, and whether it is one toggle's."""
        line = self._space.ordered(self._reached(whole, suspects))
        while len(line) > 1:
            half = (len(line) + 1) // 2
            for part, other in ((line[:half], line[half:]), (line[half:], line[:half])):
                test = self._space.close(part)
                known = yield from self._ask(test)
                if self._changed(known):
                    inside = [toggle_id for toggle_id in line if toggle_id in test]
                    whole = test
                    line = self._space.ordered(
                        self._reached(test, frozenset(inside if len(inside) < len(line) else part))
                    )
                    break
                if known.verdict is self._base:
                    line = other
                    break
            else:
                return whole, False
        self._located = self._tests()
        alone = self._space.close(line)
        if self._changed((yield from self._ask(alone))):
            return alone, True
        return whole, False

    def _reached(self, tested: ToggleSet, suspects: ToggleSet) -> ToggleSet:
        """The suspects whose code ran in that test: what did not run made no difference there."""
        return (suspects & self._asked[tested].reached) or suspects

    def _close_in(self, whole: ToggleSet) -> Asking[ToggleSet]:
        """A set inside of `whole` that changes the verdict and of which no member is known to be idle."""
        ran = self._space.close(self._asked[whole].reached & whole)
        if ran and ran < whole and self._changed((yield from self._ask(ran))):
            whole = ran
        needed: ToggleSet = NOTHING
        while True:
            lower = self._space.close(needed)
            known = yield from self._ask(lower)
            if self._changed(known):
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
                known = yield from self._ask(self._space.close(lower | frozenset(rest[:cut])))
                if known.verdict is not Verdict.UNKNOWN:
                    break
            else:
                return None
            low, high = (low, cut) if self._changed(known) else (cut, high)
        return high - 1

    def _remove(self, whole: ToggleSet, size: int) -> Asking[ToggleSet]:
        """`whole` less what can go without changing the verdict back, in pieces of `size`, then of one."""
        while True:
            line = self._space.ordered(whole)
            for start in range(0, len(line), size):
                smaller = self._space.without(whole, line[start : start + size])
                if self._changed((yield from self._ask(smaller))):
                    whole = smaller
                    break
            else:
                if size == 1:
                    return whole
                size = (size + 1) // 2
