"""In which run a thread is: the program's own, or the other one with the threads that it starts."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

    from prtoggle.trace.world import World


#: The module of the executors whose workers are threads.
EXECUTORS: Final = "concurrent.futures.thread"


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
    if hasattr(plain, "__wrapped__"):
        return

    @functools.wraps(plain)
    def start(self: threading.Thread) -> None:
        world = world_here()
        # Workers of an executor serve whoever hands work to it; what they are handed is followed.
        if world is not None and getattr(vars(self).get("_target"), "__module__", None) != EXECUTORS:
            _started[self] = world
        plain(self)

    threading.Thread.start = start  # type: ignore[method-assign]  # the way that leads to new threads


def follow_work(module: Any) -> None:
    """Let work that another run hands to an executor of threads belong to that run."""
    plain: Any = module.ThreadPoolExecutor.submit
    if hasattr(plain, "__wrapped__"):
        return

    @functools.wraps(plain)
    def submit(self: Any, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        world = world_here()
        return plain(self, work if world is None else _within(world, work), *args, **kwargs)

    module.ThreadPoolExecutor.submit = submit


def _within(world: World, work: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        before, here.world = here.world, world
        try:
            return work(*args, **kwargs)
        finally:
            here.world = before

    return run
