"""The decode side of disaggregation: rows and slots first, then the KV arrives, then the request runs."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kvcore.disaggregation.decode import alloc_for_decode_prealloc, prealloc_fill_len, window_tail_len

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.req import Req
    from kvcore.simulate.admission import Admission
    from kvcore.simulate.clock import VirtualClock
    from kvcore.simulate.stack import Stack
    from kvcore.simulate.violation import Guard


class _Arrival(NamedTuple):
    at_ms: float
    req: Req


class Reception:
    """Requests that hold their row and slots and wait for their KV; first started, first here."""

    def __init__(self, stack: Stack, admission: Admission, clock: VirtualClock, guard: Guard) -> None:
        self._stack = stack
        self._admission = admission
        self._clock = clock
        self._guard = guard
        self._on_the_way: deque[_Arrival] = deque()

    @property
    def waiting_reqs(self) -> list[Req]:
        """Requests whose KV is on its way."""
        return [arrival.req for arrival in self._on_the_way]

    @property
    def next_arrival_ms(self) -> float | None:
        """When the next KV is here, or ``None``."""
        return self._on_the_way[0].at_ms if self._on_the_way else None

    def preallocate(self, running: Sequence[Req]) -> int:
        """Give rows and slots to waiting requests as far as they go; returns to how many."""
        num_started = 0
        holding = [*running, *self.waiting_reqs]
        while (req := self._admission.next_whole(holding, self._window_need)) is not None:
            fill_len = prealloc_fill_len(req)
            with self._guard("alloc_for_decode_prealloc", (req,)):
                alloc_for_decode_prealloc(
                    req,
                    fill_len=fill_len,
                    tree_cache=self._stack.tree_cache,
                    allocator=self._stack.allocator,
                    req_to_token_pool=self._stack.rows,
                    sliding_window_size=self._stack.window,
                )
            req.fill_ids = req.token_ids[:fill_len]
            transferred = fill_len - req.prefix_indices.numel()
            self._on_the_way.append(_Arrival(self._clock.after(transferred), req))
            holding.append(req)
            num_started += 1
        return num_started

    def arrived(self, num_running: int) -> list[Req]:
        """Requests whose KV is here and that may run beside ``num_running`` others; no longer kept."""
        reqs: list[Req] = []
        while self._on_the_way and num_running + len(reqs) < self._stack.max_running:
            if self._on_the_way[0].at_ms > self._clock.now_ms:
                break
            reqs.append(self._on_the_way.popleft().req)
        return reqs

    def _window_need(self, req: Req) -> int:
        """Window slots that receiving ``req`` takes; only a request without a prefix leaves some out."""
        page_size = self._stack.allocator.page_size
        fill_len, prefix_len = prealloc_fill_len(req), req.prefix_indices.numel()
        if self._stack.window is None or prefix_len:
            return fill_len - prefix_len + page_size
        return window_tail_len(fill_len, self._stack.window, page_size) + page_size
