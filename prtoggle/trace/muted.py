"""Keeps what a second run prints from being printed."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any

from prtoggle.trace.whereabouts import world_here

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Muted:
    """A stream that drops what the other run writes; all else reaches the real one."""

    def __init__(self, stream: Any) -> None:
        self._prtoggle_stream = stream

    def write(self, text: Any) -> Any:
        """Write, unless the other run does."""
        if world_here() is not None:
            return len(text)
        return self._prtoggle_stream.write(text)

    def writelines(self, lines: Any) -> None:
        """Write, unless the other run does."""
        if world_here() is None:
            self._prtoggle_stream.writelines(lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._prtoggle_stream, name)


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """Drops what the other run, with its threads, writes to `sys.stdout` and `sys.stderr` in the block."""
    before = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    ours = {name: _Muted(stream) for name, stream in before.items() if stream is not None}
    for name, stream in ours.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in ours.items():
            # A stream that the block itself put there was meant for the program's own run.
            if getattr(sys, name) is stream or threading.active_count() == 1:
                setattr(sys, name, before[name])


def drop_warnings() -> None:
    """Let nobody hear of what the other run warns of; an exception that a filter makes of it is raised."""
    plain: Any = warnings._showwarnmsg  # type: ignore[attr-defined]  # noqa: SLF001  # what every warning goes through
    if hasattr(plain, "__wrapped__"):
        return

    @functools.wraps(plain)
    def show(message: Any) -> None:
        if world_here() is None:
            plain(message)

    warnings._showwarnmsg = show  # type: ignore[attr-defined]  # noqa: SLF001


def drop_log_records(module: Any) -> None:
    """Let no handler of `logging` get what the other run logs."""
    plain: Any = module.Logger.callHandlers
    if hasattr(plain, "__wrapped__"):
        return

    @functools.wraps(plain)
    def hand_on(self: Any, record: Any) -> None:
        if world_here() is None:
            plain(self, record)

    module.Logger.callHandlers = hand_on
