"""A request to end, of a terminal or a scheduler, as an exception: what was started ends on the way out."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_REQUESTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Interruption(KeyboardInterrupt):
    """Somebody asked the command to end; `status` is what a shell reports of a program that did."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by signal {number}")
        self.status = 128 + number


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interruption in the block for the first request to end; those after it are not heeded.

    A signal that the command was started to ignore (under nohup, in the background) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        # Signals come to the main thread only.
        yield
        return
    heard: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        heard.append(number)
        if len(heard) == 1:
            raise Interruption(number)

    before = {
        number: signal.signal(number, interrupt)
        for number in _REQUESTS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
