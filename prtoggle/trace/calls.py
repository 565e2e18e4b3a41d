"""Where the code that stands in traced functions finds what handles their calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: The handlers, by the number in the function's code; entries stay, as functions may.
HANDLERS: list[Callable[[tuple[Any, ...], dict[str, Any]], Any]] = []


def call(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answers one call of a traced function."""
    return HANDLERS[number](args, kwargs)


# torch.compile would trace into the comparison; told so, it ends its graph in front of the call.
vars(call).update(
    _torchdynamo_disable=True,
    _torchdynamo_disable_msg="prtoggle compares both variants of this function",
)
