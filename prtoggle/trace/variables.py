"""Variables of a context: the other run has a context of its own, and what both leave there is compared."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, Final

from prtoggle.trace.differences import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Settings of libraries that are compared by what they say.
_SETTINGS: Final = frozenset({"decimal_context", "numpy.ufunc.extobj"})


class Variables:
    """How the variables stood before both runs, and after the program's own."""

    def __init__(self, context: contextvars.Context) -> None:
        """`context` is what the other run goes in."""
        self._copied = dict(context.items())
        self._before = dict(contextvars.copy_context().items())
        self._ours: Mapping[contextvars.ContextVar[Any], Any] = {}

    def note(self) -> None:
        """Take down what the program's own run has left."""
        self._ours = dict(contextvars.copy_context().items())

    def changed(self, context: contextvars.Context) -> Iterator[tuple[str, Any, Any]]:
        """Name, value in the program's own run and value in the other, of all that either has set."""
        for variable in {**self._ours, **context}:
            ours, theirs = self._ours.get(variable, MISSING), context.get(variable, MISSING)
            is_own = ours is not self._before.get(variable, MISSING)
            is_other = theirs is not self._copied.get(variable, MISSING)
            is_copied = self._copied.get(variable) is not self._before.get(variable)
            if (is_own or is_other or is_copied) and variable.name not in _SETTINGS:
                yield f"context variable {variable.name}", ours, theirs
