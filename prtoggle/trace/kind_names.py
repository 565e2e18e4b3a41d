"""What a value and an error are called in the reason why something was not copied."""

from __future__ import annotations


def kind_of(value: object) -> str:
    """The name of the type, with its module unless that is the interpreter's."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def said_by(error: BaseException) -> str:
    """The first line of the message, or the type of an error that has none."""
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
