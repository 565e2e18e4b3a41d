"""One call of a traced function: the program's own run, the other run on copies, and the comparison."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Final

from prtoggle.trace import calls, process_state, randomness
from prtoggle.trace.answers import AnswersWatch
from prtoggle.trace.comparing import Comparison, NotComparedError
from prtoggle.trace.copying import NotCopiedError
from prtoggle.trace.differences import Difference
from prtoggle.trace.ledger import Finding
from prtoggle.trace.muted import muted
from prtoggle.trace.outcomes import Outcome, outcome_of
from prtoggle.trace.shared import first_changed, put_back
from prtoggle.trace.shared_things import watches
from prtoggle.trace.shortening import shorten
from prtoggle.trace.variables import Variables
from prtoggle.trace.whereabouts import here, world_here
from prtoggle.trace.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.trace.ledger import Ledger
    from prtoggle.trace.process_state import Setting
    from prtoggle.trace.randomness import State
    from prtoggle.trace.traced import Traced

#: Frames for copying and comparing.
_ROOM: Final = 300
#: Ends of the program, or of a run of it, which no second run is to follow.
_INTERRUPTIONS: Final = (KeyboardInterrupt, GeneratorExit)


class _deeper:  # noqa: N801  # a context manager that reads as an adverb
    """Allows for so many frames of ours: the program goes as deep as without tracing, and no deeper."""

    __slots__ = ("_frames",)

    def __init__(self, frames: int) -> None:
        self._frames = frames

    def __enter__(self) -> None:
        sys.setrecursionlimit(sys.getrecursionlimit() + self._frames)

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        try:
            sys.setrecursionlimit(sys.getrecursionlimit() - self._frames - here.owed)
            here.owed = 0
        except RecursionError:
            # The stack has grown to what the limit was: the program is at its end, but for a few frames. What
            # could not be taken back is, once the stack has become smaller.
            here.owed += self._frames
            if kind is None:
                raise


@contextlib.contextmanager
def _looking() -> Iterator[None]:
    """Values of the program are copied, compared or told in the block, which needs room of its own."""
    with _deeper(_ROOM):
        here.is_looking = True
        try:
            yield
        finally:
            here.is_looking = False


class Handler:
    """Answers the calls of one traced function."""

    def __init__(
        self, traced: Traced, ledger: Ledger, everybody: Sequence[Traced], *, max_bytes: int, max_calls: int
    ) -> None:
        """`everybody` are all traced functions, this one among them. `max_calls` 0 compares all calls."""
        self._traced = traced
        self._ledger = ledger
        self._everybody = everybody
        self._max_bytes = max_bytes
        self._max_calls = max_calls

    def answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
        """What the program goes on with."""
        with _deeper(calls.frames):
            world = world_here()
            if world is not None:
                # The other run calls a function of the same toggles: it is the other variant there too.
                return outcome_of(world.function(self._traced), args, kwargs)
            if here.is_looking:
                # A class of the program calls a traced function for being copied or compared.
                return outcome_of(self._traced.own_function(), args, kwargs)
            return self._compared(args, kwargs)

    def _compared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
        with _looking():
            number = self._ledger.begin()
            own = self._traced.own_function()
            call = self._prepared(number, args, kwargs)
        with _deeper(1):
            outcome = outcome_of(own, args, kwargs)
            if call is not None:
                self._settle(call, number, outcome)
        return outcome

    def _prepared(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
        """The call with everything copied; None, and counted, when it is not to be compared."""
        if self._max_calls and number > self._max_calls:
            self._ledger.not_compared(f"after the first {self._max_calls} calls (--calls)")
            return None
        try:
            return _Call(self._traced, self._everybody, args, kwargs, self._max_bytes)
        except NotCopiedError as reason:
            self._ledger.not_compared(str(reason))
            return None

    def _settle(self, call: _Call, number: int, outcome: Outcome) -> None:
        """Run the other variant, and take down what came of both."""
        if isinstance(outcome.error, _INTERRUPTIONS):
            self._ledger.not_compared(f"the call was interrupted by {type(outcome.error).__name__}")
            return
        with _looking():
            changed = call.shared_change()
        if changed is not None:
            self._ledger.not_compared(f"the call changes {changed}, which both runs would share")
            return
        refusal = call.refusal()
        if refusal is not None:
            self._ledger.not_compared(refusal)
            return
        other = call.run_other()
        with _looking():
            changed = call.put_back_shared()
        if isinstance(other.error, _INTERRUPTIONS):
            self._ledger.not_compared(f"the other run was interrupted by {type(other.error).__name__}")
            raise other.error
        if changed is not None:
            self._ledger.not_compared(f"the other run changes {changed}")
            return
        with _looking():
            try:
                differences = call.differences(outcome, other)
            except NotComparedError as reason:
                self._ledger.not_compared(str(reason))
                return
            if differences:
                self._ledger.differs(self._finding(call, number, (outcome.text, other.text), differences))
            else:
                self._ledger.equal()

    def _finding(
        self, call: _Call, number: int, texts: tuple[str, str], differences: list[Difference]
    ) -> Finding:
        if not self._traced.continues_fixed:
            texts = texts[1], texts[0]
            differences = [Difference(where, theirs, ours) for where, ours, theirs in differences]
        return Finding(number, call.shown, *texts, tuple(differences))


class _Call:
    """One call that is compared: its arguments as the program gave them, and their copies."""

    def __init__(
        self,
        traced: Traced,
        everybody: Sequence[Traced],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        max_bytes: int,
    ) -> None:
        """Copies everything, and writes the arguments down before the run can change them."""
        self._traced = traced
        if randomness.captured_on_cuda():
            raise NotCopiedError("a CUDA graph is being captured, which a second run would go into")
        self._arguments = list(zip(_names(traced, len(args), kwargs), [*args, *kwargs.values()], strict=True))
        classes = [value if isinstance(value, type) else type(value) for _, value in self._arguments]
        self._world = World(everybody, max_bytes, classes)
        self._copies = [self._world.copied(f"argument {name}", value) for name, value in self._arguments]
        self._positional = len(args)
        self._keywords = list(kwargs)
        self.shown = tuple((name, shorten(value)) for name, value in self._arguments)
        self._world.check_copies()
        held = self._world.held
        self._watches = watches(everybody, held.steps, self._arguments, self._world.uncopied())
        self._watches += [AnswersWatch(name, cache) for name, cache in held.caches.items()]
        self._random = randomness.saved(held.generators)
        self._settings = process_state.settings()
        self._context = held.context()
        self._variables = Variables(self._context)
        self._beside: list[Difference | None] = []

    def shared_change(self) -> str | None:
        """What the program's own run changed that the other run would share."""
        return first_changed(self._watches) or self._world.held.changed(self._comparison())

    def refusal(self) -> str | None:
        """Why the other run cannot take place now."""
        if self._world.held.swaps.are_seen:
            return "the call starts a thread, which would find copies that are meant for the other run"
        return None

    def put_back_shared(self) -> str | None:
        """What the other run changed that both share, and what became of it."""
        changed = first_changed(self._watches)
        return changed and f"{changed}, which both runs share; {put_back(self._watches)}"

    def run_other(self) -> Outcome:
        """The other variant on the copies; the program's random numbers, settings and output stay."""
        after, settings = randomness.saved(self._world.held.generators), process_state.settings()
        randomness.put_back(self._random)
        self._variables.note()
        try:
            with self._world.held.swaps.in_place():
                return self._context.run(self._run_within, after, settings)
        finally:
            randomness.put_back(after)
            process_state.put_back(settings)

    def _run_within(self, after: list[State], settings: list[Setting]) -> Outcome:
        """The same in the context of the other run, whose own settings are those of this context."""
        copies = tuple(self._copies[: self._positional])
        named = dict(zip(self._keywords, self._copies[self._positional :], strict=True))
        process_state.put_back(self._settings)
        here.world = self._world
        try:
            with muted(), _deeper(2):
                return outcome_of(self._world.function(self._traced), copies, named)
        finally:
            here.world = None
            self._beside = [
                randomness.difference(after, randomness.saved(self._world.held.generators)),
                process_state.difference(settings, process_state.settings()),
            ]

    def _comparison(self) -> Comparison:
        return Comparison(self._world.counterparts, self._world.originals)

    def differences(self, ours: Outcome, theirs: Outcome) -> list[Difference]:
        """The first difference in the outcome, and in each thing that was handed in.

        Raises NotComparedError.
        """
        comparison = self._comparison()
        found = [_outcomes(comparison, ours, theirs)]
        for (name, value), copy in zip(self._arguments, self._copies, strict=True):
            found.append(comparison.first(name, value, copy))
        found += [comparison.first(name, one, other) for name, one, other in self._world.surroundings()]
        found += [comparison.first(*triple) for triple in self._variables.changed(self._context)]
        found += self._beside
        return [difference for difference in found if difference is not None]


def _outcomes(comparison: Comparison, ours: Outcome, theirs: Outcome) -> Difference | None:
    if (ours.error is None) != (theirs.error is None):
        return Difference("outcome", ours.text, theirs.text)
    if ours.error is not None:
        return comparison.first("exception", ours.error, theirs.error)
    return comparison.first("result", ours.result, theirs.result)


def _names(traced: Traced, count: int, kwargs: dict[str, Any]) -> list[str]:
    """What the arguments are called in reports: by the parameters of the variant that the program runs."""
    code = traced.fixed.code
    plain = list(code.co_varnames[: code.co_argcount])
    starred = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
    rest = starred[0] if starred else "args"
    names = plain[:count] + [f"{rest}[{at}]" for at in range(max(0, count - len(plain)))]
    return [*names, *kwargs]
