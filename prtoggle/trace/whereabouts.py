"""In which run a thread is: the program's own, or the other one with the threads that it starts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from prtoggle.trace.world import World


class _Here(threading.local):
    """What this thread is doing."""

    #: The world of the other run that the thread has begun.
    world: World | None = None
    #: Whether values of the program are being copied, compared or told.
    is_looking = False
    #: Frames that the recursion limit is too high by.
    owed = 0


here = _Here()
_started: WeakKeyDictionary[threading.Thread, World] = WeakKeyDictionary()


def world_here() -> World | None:
    """The world of the other run that this thread belongs to; None in the program's own."""
    if here.world is not None or not _started:
        return here.world
    return _started.get(threading.current_thread())


def follow_threads() -> None:
    """Let every thread that another run starts belong to that run, until it ends."""
    plain: Any = threading.Thread.start
    if getattr(plain, "__wrapped__", None) is not None:
        return

    def start(self: threading.Thread) -> None:
        world = world_here()
        if world is not None:
            _started[self] = world
        plain(self)

    start.__wrapped__ = plain  # type: ignore[attr-defined]  # what `inspect` reads
    start.__doc__ = plain.__doc__
    start.__qualname__ = plain.__qualname__
    threading.Thread.start = start  # type: ignore[method-assign]  # the one way that leads to new threads
