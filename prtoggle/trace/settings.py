"""What `prtoggle trace` tells the processes of its command, in one variable of the environment."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from prtoggle.errors import ActivationError

VARIABLE: Final = "PRTOGGLE_TRACE"


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """Which toggles are traced, and how."""

    toggles: tuple[str, ...]
    #: Distinct argument sets that are told in full, for each function.
    limit: int = 5
    #: Calls that are compared, for each function and process; 0 compares all.
    calls: int = 0
    #: Bytes that the copy of one call's inputs may take.
    max_copy: int = 64 << 20
    #: Whether the program goes on with what the fixed variant gives.
    continues_fixed: bool = True

    def as_text(self) -> str:
        """The value of the variable."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> TraceSettings:
        """The settings of a variable's value. Raises ActivationError for one that `as_text` did not make."""
        try:
            values = json.loads(text)
            return cls(**{**values, "toggles": tuple(values["toggles"])})
        except (ValueError, TypeError, KeyError) as error:
            raise ActivationError(
                f"{VARIABLE} is set by `prtoggle trace` for the processes that it starts, and holds "
                f"something else: {text!r}; unset it"
            ) from error
