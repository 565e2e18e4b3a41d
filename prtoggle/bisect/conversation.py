"""A search as a conversation: it yields the set of toggles to revert next, and is sent what became of it.

So one and the same search can be replayed from what is known already: after an interruption, or with an
assumed answer, to find out what would be asked next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

from prtoggle.bisect.space import Space, ToggleSet
from prtoggle.bisect.verdicts import Verdict

Result = TypeVar("Result")
NOTHING: ToggleSet = frozenset()


class Known(NamedTuple):
    """What is known of a set: its verdict, the toggles whose reverted code ran, whether no run was needed.

    `blamed` are toggles of it that could not be put into effect, when the run told which.
    """

    verdict: Verdict
    reached: ToggleSet = NOTHING
    free: bool = False
    blamed: ToggleSet = NOTHING


Asking = Generator[ToggleSet, Known, Result]
Outcome = Literal["cause", "agree", "unjudged", "nothing"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What the search came to.

    `outcome` is "cause"; "agree" when the ends have one verdict; "unjudged" when the build as it is cannot be
    judged; "nothing" when further sets were tested in vain: inside of the ends, and of pairs in no end.
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


def judged_together(asked: Mapping[ToggleSet, Known], toggles: ToggleSet) -> bool:
    """Whether one of the sets that were asked holds all of these toggles, and could be judged."""
    return any(toggles <= tested and known.verdict is not Verdict.UNKNOWN for tested, known in asked.items())


class Talk:
    """One conversation: the sets that go together, what was asked, and the verdict of the build as it is."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.asked: dict[ToggleSet, Known] = {}
        self.base = Verdict.UNKNOWN

    def ask(self, toggles: ToggleSet) -> Asking[Known]:
        """What is known of a set; it is asked once."""
        if toggles not in self.asked:
            self.asked[toggles] = yield toggles
        return self.asked[toggles]

    def changes(self, toggles: ToggleSet) -> Asking[bool]:
        """Whether the set changes the verdict of the build as it is."""
        return self.has_changed((yield from self.ask(toggles)))

    def has_changed(self, known: Known) -> bool:
        """Whether that is the other verdict."""
        return known.verdict is self.base.opposite

    def judged_together(self, toggles: ToggleSet) -> bool:
        """Whether a set with all of them was tested and could be judged."""
        return judged_together(self.asked, toggles)

    @property
    def tests(self) -> int:
        """How many of the sets had to be run."""
        return sum(not known.free for known in self.asked.values())
