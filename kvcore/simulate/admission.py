"""Which requests start, or go on with their prompt, in the next step: what rows, slots and budget allow."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kvcore.admission import cancel_admission, match_for_admission, set_extend_range
from kvcore.page_math import align_down, align_up

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvcore.req import Req
    from kvcore.simulate.result import SimulationResult
    from kvcore.simulate.stack import Stack
    from kvcore.simulate.violation import Guard
    from kvcore.simulate.waiting import WaitingQueue

_EXPECTED_SHARE = 0.35
"""Share of their remaining output that running requests are expected to need at once.

Too low a share brings retractions, too high a share leaves slots unused; engines adapt it between 0.1 and
0.7.
"""


class Admission:
    """Fills the next prefill batch; owns the one request whose prompt is being computed in chunks."""

    def __init__(
        self, stack: Stack, queue: WaitingQueue, guard: Guard, result: SimulationResult, *, chunk_size: int
    ) -> None:
        self._stack = stack
        self._queue = queue
        self._guard = guard
        self._result = result
        self._chunk_size = chunk_size
        self._page_size = stack.allocator.page_size
        self.chunked: Req | None = None
        """Holds a row and waits for its next chunk; what it has computed so far is in the cache's hands."""
        self._retry_from = 0
        """The head of the queue did not fit; it is not matched again before so many slots are in reach."""

    def next_batch(self, running: Sequence[Req]) -> list[Req]:
        """Requests whose next extend is set and fits; empty when there is nothing to prefill."""
        budget = self._chunk_size
        batch: list[Req] = []
        promised = self._promised(running)
        if self.chunked is not None:
            req = self.chunked
            most = self._within_pools(budget, taken=0)
            if most < self._page_size:
                return []
            promised += self._need(req)
            set_extend_range(req, most, self._page_size)
            batch.append(req)
            budget -= align_up(req.extend_len, self._page_size)
            self.chunked = req if req.is_chunked else None
        places = self._stack.free_rows()
        while self.chunked is None and budget >= self._page_size and len(batch) < places:
            taken = self._chunk_size - budget
            num_others = len(running) + len(batch)
            head = self._admit_head(
                promised, alone=num_others == 0, fits=partial(self._chunk_fits, budget, taken, num_others)
            )
            if head is None:
                break
            set_extend_range(head, self._within_pools(budget, taken=taken), self._page_size)
            batch.append(head)
            budget -= align_up(head.extend_len, self._page_size)
            promised += self._need(head)
            if head.is_chunked:
                self.chunked = head
        return batch

    def next_whole(self, running: Sequence[Req], window_need: Callable[[Req], int]) -> Req | None:
        """The head of the queue, matched and locked, if all of its slots are in reach; ``None`` otherwise.

        For requests that are not computed here. ``window_need`` says how many window slots one takes.
        """
        if self._stack.free_rows() == 0:
            return None
        return self._admit_head(
            self._promised(running),
            alone=not running,
            fits=lambda req: self._window_fits(window_need(req), len(running)),
        )

    def _chunk_fits(self, budget: int, taken: int, num_others: int, req: Req) -> bool:
        """Whether the next chunk of ``req`` finds its slots, when ``taken`` are spoken for in this step."""
        chunk = align_up(min(req.seqlen - req.prefix_indices.numel(), budget), self._page_size)
        within = self._within_pools(budget, taken=taken) >= self._page_size
        return within and self._window_fits(taken + chunk, num_others)

    def _window_fits(self, num_slots: int, num_others: int) -> bool:
        """Whether window slots are left for what ``num_others`` running requests, and this one, will add."""
        growth = (num_others + 1) * self._stack.window_growth
        return growth == 0 or num_slots + growth <= self._stack.window_slots_in_reach()

    def _within_pools(self, budget: int, *, taken: int) -> int:
        """Tokens that can be computed now, in whole pages, when ``taken`` slots of this step are spoken for.

        Every computed token takes a window slot, and there are fewer of these than of the others.
        """
        in_reach = min(self._stack.slots_in_reach(), self._stack.window_slots_in_reach())
        return align_down(min(budget, in_reach - taken), self._page_size)

    def _admit_head(self, promised: int, *, alone: bool, fits: Callable[[Req], bool]) -> Req | None:
        """Match, lock and take the head of the queue; ``None`` leaves it, and everything else, as it was.

        Alone in the stack a request that does not fit never will: it is aborted, and the next one gets its
        turn.
        """
        while (req := self._queue.head()) is not None:
            if self._stack.slots_in_reach() - promised < self._retry_from and not alone:
                return None
            with self._guard("match_for_admission", (req,)):
                match_for_admission(req, self._stack.tree_cache)
            # Locking what matched has taken it out of reach, so all sizes are asked for only now.
            need = self._need(req)
            if need <= self._stack.slots_in_reach() - promised and fits(req):
                self._retry_from = 0
                self._result.prompt_tokens += req.seqlen
                self._result.cached_tokens += req.prefix_indices.numel()
                return self._queue.pop()
            with self._guard("cancel_admission", (req,)):
                cancel_admission(req, self._stack.tree_cache)
            if not alone:
                self._retry_from = need
                return None
            self._queue.pop()
            self._result.aborted += 1
        return None

    def _need(self, req: Req) -> int:
        """Slots that ``req`` is expected to take from now on, beyond its cached prefix."""
        computed = (
            align_up(req.seqlen + self._stack.decode_reserve, self._page_size) - req.prefix_indices.numel()
        )
        return computed + self._page_size + self._expected(req)

    def _promised(self, running: Sequence[Req]) -> int:
        """Slots that running requests are expected to take yet."""
        return sum(self._expected(req) + self._page_size for req in running)

    @staticmethod
    def _expected(req: Req) -> int:
        return int((req.max_new_tokens - len(req.output_ids)) * _EXPECTED_SHARE)
