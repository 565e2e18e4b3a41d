"""What the code that may run finds at the places that it names, made ready for the other run.

Generators of random numbers stay where they are, and are set back. Variables of a context belong to the
context that the other run goes in. What else can change and can be copied is swapped for its copy; what
cannot be copied is watched, where all that it keeps can be seen, or refused.
"""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, Any

from prtoggle.trace.answers import is_cache
from prtoggle.trace.comparing import Comparison, NotComparedError
from prtoggle.trace.constants import CONSTANTS
from prtoggle.trace.copying import Copier, NotCopiedError
from prtoggle.trace.differences import MISSING
from prtoggle.trace.kinds import can_change, draws_numbers, held_by, is_all_members
from prtoggle.trace.reached import Place, Reached
from prtoggle.trace.swaps import WARNED, Swaps, can_hold
from prtoggle.trace.traced import names_bound_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prtoggle.trace.reached import Step
    from prtoggle.trace.traced import Traced


class Held:
    """The generators, variables and things of one call, as they stood when it began."""

    def __init__(self, everybody: Sequence[Traced], classes: Sequence[type], copier: Copier) -> None:
        """`classes` are those of the arguments."""
        self._copier = copier
        reached = Reached(everybody, classes)
        self.steps = reached.steps
        self._places = list(reached.places())
        #: The generators of random numbers, each with its name.
        self.generators: list[tuple[str, Any]] = []
        #: Variables of the context whose values both runs can change.
        self.variables: dict[contextvars.ContextVar[Any], Any] = {}
        #: Things that stand for themselves in the other run, each with its name.
        self.watched: list[tuple[str, Any]] = []
        self.swaps = Swaps()
        self._beside_threads: list[tuple[Place, Any]] = []
        # With other threads about, a copy at a place would be found by those too.
        self._is_alone = threading.active_count() == 1
        self._keep_generators()

    @property
    def caches(self) -> dict[str, Any]:
        """The caches of functions that may be called, by what they are called."""
        return {place.key: place.value for place, _ in self._places if is_cache(place.value)}

    def _keep_generators(self) -> None:
        seen: set[int] = set()
        for place, _ in self._places:
            value = held_by(place.value)
            if draws_numbers(value) and id(value) not in seen:
                seen.add(id(value))
                self._copier.remember(value, value)
                self.generators.append((f"{place.label} ({len(self.generators) + 1})", value))

    def prepare(self, copies: Mapping[int, Mapping[str, Any]], max_bytes: int) -> None:
        """Copy what is to be swapped. `copies` are those of global variables, by the id of their namespace.

        Raises NotCopiedError.
        """
        for place, step in self._places:
            known = copies.get(id(place.owner), {})
            value = place.value
            if isinstance(value, contextvars.ContextVar):
                self._prepare_variable(value, max_bytes)
            elif place.key in known:
                if not step.is_traced:
                    # The traced function has a namespace of its own; what it calls looks here.
                    self._swap(place, known[place.key])
            elif can_change(value):
                self._prepare_thing(place, value, max_bytes)
        for step in self.steps:
            self._prepare_bound(step, copies.get(id(step.namespace), {}), max_bytes)

    def _prepare_variable(self, variable: contextvars.ContextVar[Any], max_bytes: int) -> None:
        try:
            value = variable.get()
        except LookupError:
            return
        if type(value) not in CONSTANTS:
            made, _ = self._copier.copy_if_possible(value, max_bytes)
            if made is not value:
                self.variables[variable] = made
            else:
                self.watched.append((f"the value of {variable.name}", value))

    def _prepare_thing(self, place: Place, value: Any, max_bytes: int) -> None:
        made, refusal = self._copier.copy_if_possible(value, max_bytes)
        if refusal is None:
            if made is not value:
                self._swap(place, made)
        elif is_all_members(value):
            self.watched.append((place.key, value))
        else:
            raise NotCopiedError(f"{place.label}: {refusal}")

    def _prepare_bound(self, step: Step, known: Mapping[str, Any], max_bytes: int) -> None:
        """What the code of a step binds anew in the module, such as a counter that is a number."""
        for name in sorted(names_bound_by(step.code)) if not step.is_traced else ():
            value = known.get(name, step.namespace.get(name, MISSING))
            if name not in known and value is not MISSING:
                value, _ = self._copier.copy_if_possible(value, max_bytes)
            self._swap(Place(f"global variable {name}", step.namespace, name), value)
        if self._is_alone:
            place = Place(WARNED, step.namespace, WARNED)
            registry = step.namespace.get(WARNED, MISSING)
            self.swaps.add(place, MISSING if registry is MISSING else dict(registry))

    def _swap(self, place: Place, made: Any) -> None:
        if self._is_alone and can_hold(place.owner):
            self.swaps.add(place, made)
        else:
            self._beside_threads.append((place, made))

    def changed(self, comparison: Comparison) -> str | None:
        """The first place that is not what it was, of those that are not swapped since other threads look."""
        for place, made in self._beside_threads:
            try:
                found = comparison.pair(place.label, place.value, made)
            except (NotComparedError, KeyError, AttributeError):
                return place.label
            if found is not None:
                return place.label
        return None

    def context(self) -> contextvars.Context:
        """The variables of this context, with copies of what can change."""
        made = contextvars.copy_context()
        for variable, value in self.variables.items():
            made.run(variable.set, value)
        return made
