"""What a call came to: a result, or an exception."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prtoggle.trace.shortening import shorten

if TYPE_CHECKING:
    from types import FunctionType


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result, or an exception that is to be raised; one with its traceback from the function on."""

    result: Any = None
    error: BaseException | None = None

    @property
    def text(self) -> str:
        """The outcome in one line."""
        return shorten(self.result) if self.error is None else f"raises {shorten(self.error)}"


def outcome_of(function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
    """Run the function once."""
    try:
        return Outcome(function(*args, **kwargs))
    except BaseException as error:  # noqa: BLE001  # told, and raised again by the code in the function
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next
        return Outcome(error=error)
