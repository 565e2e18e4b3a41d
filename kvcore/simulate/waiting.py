"""Requests that do not run: not here yet, waiting, or sent back."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kvcore.req import Req
    from kvcore.simulate.trace import TraceRequest


class WaitingQueue:
    """First come, first served; whoever was sent back stands in front.

    A request gets its token ids when it comes to the head: under overload thousands wait, and their ids would
    fill the memory.
    """

    def __init__(self, requests: Iterable[TraceRequest], make_req: Callable[[TraceRequest], Req]) -> None:
        self._future = deque(requests)
        self._arrived: deque[TraceRequest] = deque()
        self._ready: deque[Req] = deque()
        self._make_req = make_req

    def __len__(self) -> int:
        """Requests that could start now."""
        return len(self._arrived) + len(self._ready)

    @property
    def next_arrival_ms(self) -> float | None:
        """When the next request comes, or ``None`` after the last one."""
        return self._future[0].arrival_ms if self._future else None

    def arrive_until(self, now_ms: float) -> None:
        """Let everything in that has arrived by ``now_ms``."""
        future = self._future
        while future and future[0].arrival_ms <= now_ms:
            self._arrived.append(future.popleft())

    def head(self) -> Req | None:
        """Who is next; stays in the queue."""
        if not self._ready:
            if not self._arrived:
                return None
            self._ready.append(self._make_req(self._arrived.popleft()))
        return self._ready[0]

    def pop(self) -> Req:
        """Take the head out."""
        return self._ready.popleft()

    def send_back(self, reqs: Iterable[Req]) -> None:
        """Put retracted requests in front, the first of them first."""
        self._ready.extendleft(reversed(list(reqs)))
