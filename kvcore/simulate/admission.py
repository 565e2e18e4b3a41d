"""Which requests start, or go on with their prompt, in the next step: what rows, slots and budget allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.admission import cancel_admission, match_for_admission, set_extend_range
from kvcore.page_math import align_down, align_up

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        if self.chunked is not None:
            if not self._continue_chunked(budget):
                return []
            batch.append(self.chunked)
            budget -= self.chunked.extend_len
            self.chunked = self.chunked if self.chunked.is_chunked else None
        promised = self._promised(running)
        while self.chunked is None and budget >= self._page_size and len(batch) < self._stack.free_rows():
            req = self._admit_head(budget, promised, alone=not running and not batch)
            if req is None:
                break
            batch.append(req)
            budget -= req.extend_len
            promised += self._need(req)
            if req.is_chunked:
                self.chunked = req
        return batch

    def _continue_chunked(self, budget: int) -> bool:
        """Set the next chunk as long as slots are in reach; False when decoding has to make room first."""
        req = self.chunked
        assert req is not None
        most = min(budget, align_down(self._stack.slots_in_reach(), self._page_size))
        if most < self._page_size:
            return False
        set_extend_range(req, most, self._page_size)
        return True

    def _admit_head(self, budget: int, promised: int, *, alone: bool) -> Req | None:
        """Match, lock and set the head of the queue; ``None`` leaves it, and everything else, as it was.

        Alone in the stack a request that does not fit never will: it is aborted, and the next one gets its
        turn.
        """
        while (req := self._queue.head()) is not None:
            if self._stack.slots_in_reach() - promised < self._retry_from and not alone:
                return None
            with self._guard("match_for_admission", (req,)):
                match_for_admission(req, self._stack.tree_cache)
            need = self._need(req)
            if need <= self._stack.slots_in_reach() - promised:
                break
            with self._guard("cancel_admission", (req,)):
                cancel_admission(req, self._stack.tree_cache)
            if not alone:
                self._retry_from = need
                return None
            self._queue.pop()
            self._result.aborted += 1
        else:
            return None
        self._retry_from = 0
        set_extend_range(req, budget, self._page_size)
        self._result.prompt_tokens += req.seqlen
        self._result.cached_tokens += req.prefix_indices.numel()
        return self._queue.pop()

    def _need(self, req: Req) -> int:
        """Slots that ``req`` is expected to take from now on, beyond its cached prefix."""
        computed = (
            align_up(req.seqlen + self._stack.decode_reserve, self._page_size) - req.prefix_indices.numel()
        )
        return computed + self._page_size + self._expected(req)

    def _promised(self, running: Sequence[Req]) -> int:
        """Slots that running requests, and the chunked one, are expected to take yet."""
        promised = sum(self._expected(req) + self._page_size for req in running)
        return promised if self.chunked is None else promised + self._need(self.chunked)

    @staticmethod
    def _expected(req: Req) -> int:
        return int((req.max_new_tokens - len(req.output_ids)) * _EXPECTED_SHARE)
