"""Why a search cannot begin or go on."""

from __future__ import annotations

from prtoggle.errors import PrToggleError


class BisectError(PrToggleError, ValueError):
    """What was asked for cannot be searched; nothing was run or changed."""


class StaleStateError(BisectError):
    """A state file belongs to another search; `differences` says in what, one line each."""

    def __init__(self, message: str, *, differences: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.differences = differences
