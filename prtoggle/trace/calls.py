"""Where the code that stands in traced functions finds what handles their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from prtoggle.trace.outcomes import Outcome

#: The handlers, by the number in the function's code; entries stay, as functions may.
HANDLERS: list[Callable[[tuple[Any, ...], dict[str, Any]], Outcome]] = []


_FRAMES: Final = 4
#: Frames that stand between a caller and the variant that it calls, in the shortest case.
frames = _FRAMES


def _call(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Outcome:
    return HANDLERS[number](args, kwargs)


#: Answers one call of a traced function; looked up by each call anew.
call: Callable[[int, tuple[Any, ...], dict[str, Any]], Outcome] = _call


def keep_out_of(dynamo: Any) -> None:
    """Let torch.compile end its graph in front of a traced function, and compile nothing of what compares."""
    global call, frames  # noqa: PLW0603  # the one place where traced functions look
    frames = _FRAMES + 1
    call = dynamo.disable(_call, reason="prtoggle compares both variants of this function")
