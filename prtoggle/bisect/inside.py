"""A set that changes the verdict, inside of ends that cannot be judged, or in which one revert hides another.

Halves, then their halves, breadth first. A toggle that cannot be judged by itself spoils every set with it:
once it is known, everything without it is tested, which settles the matter when that can be judged.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from prtoggle.bisect.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prtoggle.bisect.conversation import Asking, Talk
    from prtoggle.bisect.space import ToggleSet


class Inside:
    """Looks into ends; with `unmask` into those, too, that have the verdict of the build as it is."""

    def __init__(self, talk: Talk, tops: Sequence[ToggleSet], *, unmask: bool) -> None:
        self._talk = talk
        self._tops = tops
        self._unmask = unmask
        self._spoilers: set[str] = set()
        self._seen: set[ToggleSet] = set(tops)
        self._pieces = deque(tops[:1])

    def find(self) -> Asking[ToggleSet | None]:
        """A set that changes the verdict, or None."""
        found = yield from self._without_blamed()
        if found is None and not self._settled():
            found = yield from self._first(self._added())
        while self._pieces and found is None and not self._settled():
            found = yield from self._first(self._halves(self._pieces.popleft()))
        return found

    def _without_blamed(self) -> Asking[ToggleSet | None]:
        """The ends without toggles that a run told could not be put into effect; then those, one by one."""
        talk, blamed = self._talk, set[str]()
        for top in self._tops:
            rest = top
            while rest and (new := talk.asked[rest].blamed & rest):
                blamed |= new
                rest = talk.space.without(rest, new)
                if rest and (yield from talk.changes(rest)):
                    return rest
        # Whoever was blamed is judged alone: not searched is only what cannot be judged there either.
        for toggle_id in talk.space.ordered(blamed):
            alone = talk.space.close([toggle_id])
            if (yield from talk.changes(alone)):
                return alone
            self._seen.add(alone)
            if talk.asked[alone].verdict is Verdict.UNKNOWN:
                self._spoilers.add(toggle_id)
        return None

    def _added(self) -> Iterator[ToggleSet]:
        """What each further end adds to those before it; the rest of it is looked into with the first."""
        covered = self._tops[0]
        for top in self._tops[1:]:
            yield self._talk.space.close(top - covered)
            covered |= top

    def _halves(self, piece: ToggleSet) -> Iterator[ToggleSet]:
        line = self._talk.space.ordered(piece)
        half = (len(line) + 1) // 2
        for part in (line[:half], line[half:]):
            yield self._talk.space.close(part)

    def _first(self, tests: Iterable[ToggleSet]) -> Asking[ToggleSet | None]:
        """The first of these sets, or of what they lead to, that changes the verdict."""
        for test in tests:
            if not test or test in self._seen:
                continue
            self._seen.add(test)
            known = yield from self._talk.ask(test)
            if self._talk.has_changed(known):
                return test
            if known.verdict is Verdict.UNKNOWN:
                found = yield from self._without_spoiler(test)
                if found is not None:
                    return found
            if self._unmask or known.verdict is Verdict.UNKNOWN:
                self._pieces.append(test)
        return None

    def _without_spoiler(self, test: ToggleSet) -> Asking[ToggleSet | None]:
        """The ends without a toggle that cannot be judged by itself, when that was just found."""
        found = {
            toggle_id for toggle_id in test - self._spoilers if self._talk.space.close([toggle_id]) == test
        }
        if not found:
            return None
        self._spoilers |= found
        for rest in self._rests():
            if rest and (yield from self._talk.changes(rest)):
                return rest
        return None

    def _rests(self) -> list[ToggleSet]:
        return [self._talk.space.without(top, self._spoilers) for top in self._tops]

    def _settled(self) -> bool:
        """Whether all that can be judged was reverted together, without a change."""
        asked, base = self._talk.asked, self._talk.base
        return not self._unmask and all(
            not rest or (rest in asked and asked[rest].verdict is base) for rest in self._rests()
        )
