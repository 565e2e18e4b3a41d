"""The scheduler's loop: launch a step, then settle the one before, until every request is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvcore.page_math import align_down
from kvcore.pools.hybrid import HybridReqToTokenPool
from kvcore.prefix_cache.unfinished import maybe_cache_unfinished_req
from kvcore.release import release_kv_cache
from kvcore.schedule_batch import advance_request
from kvcore.simulate.series import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvcore.req import Req
    from kvcore.schedule_batch import ScheduleBatch
    from kvcore.simulate.admission import Admission
    from kvcore.simulate.checks import Checks
    from kvcore.simulate.clock import VirtualClock
    from kvcore.simulate.executor import Executor
    from kvcore.simulate.reception import Reception
    from kvcore.simulate.result import SimulationResult
    from kvcore.simulate.series import Series
    from kvcore.simulate.stack import Stack
    from kvcore.simulate.violation import Guard
    from kvcore.simulate.waiting import WaitingQueue


class Launched(NamedTuple):
    """A step that is under way; the host learns its tokens one step later."""

    operation: str
    reqs: list[Req]
    """All that the step was about."""
    results: list[tuple[Req, Sequence[int]]]
    """Requests that say something after it, and what: not those in the middle of their prompt."""
    is_extend: bool = False
    verified: bool = False
    """The tokens come out of a speculative verification."""


def _snapshot_len(req: Req, start: int, end: int, interval: int) -> int | None:
    """Length in ``(start, end]`` after which a step left a snapshot: at most one, where it is worth most."""
    branching = req.mamba_branching_seqlen
    if branching is not None and start < branching <= end:
        # Others share the prompt up to here; with a state they will start from it.
        return branching
    last = align_down(end, interval)
    return last if last > start else None


class Loop:
    """Drives the stack with overlap: step ``n + 1`` is prepared before the result of step ``n`` is known.

    host     prepare 1 | prepare 2 | settle 1 | prepare 3 | settle 2 | ...
    device             |--- step 1 ---|--- step 2 ---|--- step 3 ---|
    """

    def __init__(
        self,
        stack: Stack,
        queue: WaitingQueue,
        admission: Admission,
        executor: Executor,
        checks: Checks,
        clock: VirtualClock,
        guard: Guard,
        result: SimulationResult,
        series: Series,
        *,
        reception: Reception | None = None,
        overlap: bool = True,
    ) -> None:
        self._stack = stack
        self._queue = queue
        self._admission = admission
        self._executor = executor
        self._checks = checks
        self._clock = clock
        self._guard = guard
        self._result = result
        self._series = series
        self._reception = reception
        self._overlap = overlap
        self._running: ScheduleBatch = stack.batch([])

    def run(self, on_progress: Callable[[int], None]) -> None:
        """Take every request of the queue to its end; raises Violation."""
        in_flight: Launched | None = None
        step = 0
        while True:
            self._queue.arrive_until(self._clock.now_ms)
            self._guard.moment = f"step {step} ({self._clock.now_ms / 1000:.2f} s)"
            self._receive()
            launched = self._launch_extend() or self._launch_decode()
            settled = in_flight if self._overlap else launched
            if settled is not None:
                self._settle(settled)
            if launched is None and settled is None and not self._wait():
                return
            self._after_step(launched, settled)
            in_flight = launched if self._overlap else None
            on_progress(self._result.finished + self._result.aborted)
            step += 1

    def _wait(self) -> bool:
        """Nothing runs: go to the next arrival; False when there is none."""
        chunked = self._admission.chunked
        assert chunked is None, (
            f"{chunked.rid} waits for its next chunk behind {len(chunked.fill_ids)} of {chunked.seqlen} "
            "tokens, nothing runs, and nothing can make room"
        )
        received = None if self._reception is None else self._reception.next_arrival_ms
        arrivals = [at for at in (self._queue.next_arrival_ms, received) if at is not None]
        if not arrivals:
            assert len(self._queue) == 0, (
                f"{len(self._queue)} requests wait, nothing runs, and none of them can start"
            )
            return False
        self._clock.wait_until(min(arrivals))
        return True

    def _receive(self) -> None:
        """Disaggregation: start requests whose KV has arrived, and make room for others."""
        if self._reception is None:
            return
        reqs = self._reception.arrived(len(self._running.reqs))
        if reqs:
            batch = self._stack.batch(reqs)
            with self._guard("take_over", reqs):
                batch.take_over()
            tokens = self._executor.receive(batch)
            self._running.merge(batch)
            results = list(zip(reqs, tokens, strict=True))
            self._settle(Launched("take_over", reqs, results, is_extend=True))
        self._result.allocations += self._reception.preallocate(self._running.reqs)

    def _launch_extend(self) -> Launched | None:
        if self._reception is not None:
            return None
        tree_cache = self._stack.tree_cache
        chunked = self._admission.chunked
        if chunked is not None and len(chunked.fill_ids) > chunked.prefix_indices.numel():
            with self._guard("cache_unfinished_req", (chunked,)):
                maybe_cache_unfinished_req(chunked, tree_cache, chunked=True)
        reqs = self._admission.next_batch(self._running.reqs)
        if not reqs:
            return None
        batch = self._stack.batch(reqs)
        with self._guard("alloc_for_extend", reqs):
            batch.prepare_for_extend()
        self._result.allocations += 1
        self._result.prefill_steps += 1
        self._clock.step(sum(req.extend_len for req in reqs))
        with self._guard("extend", reqs):
            tokens = self._executor.extend(batch)
            self._track_states(reqs, [req.extend_len for req in reqs])
        complete = [i for i, req in enumerate(reqs) if not req.is_chunked]
        batch.filter(complete)
        self._running.merge(batch)
        results = [(reqs[i], tokens[i]) for i in complete]
        return Launched("alloc_for_extend", reqs, results, is_extend=True)

    def _launch_decode(self) -> Launched | None:
        running = self._running
        if not running.reqs:
            return None
        with self._guard("check_decode_mem", running.reqs):
            fits = running.check_decode_mem()
        if not fits:
            self._retract()
            if not running.reqs:
                return None
        reqs = list(running.reqs)
        with self._guard("prepare_for_decode", reqs):
            running.prepare_for_decode()
        self._result.allocations += 1
        self._result.decode_steps += 1
        self._clock.step(0)
        with self._guard("decode", reqs):
            tokens = self._executor.decode(running)
            self._track_states(reqs, [1] * len(reqs))
        results = list(zip(reqs, tokens, strict=True))
        return Launched("prepare_for_decode", reqs, results, verified=running.is_speculative)

    def _track_states(self, reqs: Sequence[Req], num_computed: Sequence[int]) -> None:
        """Count the snapshots of recurrent states that a step wrote at multiples of the track interval.

        The device works in order, so what the step wrote may be handed on before the host knows its result.
        """
        rows = self._stack.rows
        if not isinstance(rows, HybridReqToTokenPool) or not rows.track.num_slots:
            return
        for req, computed in zip(reqs, num_computed, strict=True):
            assert req.kv is not None, f"{req.rid} holds no row"
            end = req.kv.kv_committed_len
            boundary = _snapshot_len(req, end - computed, end, rows.track.interval)
            if boundary is not None and rows.begin_boundary(req, boundary, self._stack.tree_cache):
                rows.end_boundary(req, boundary)

    def _retract(self) -> None:
        with self._guard("retract_decode", self._running.reqs):
            retraction = self._running.retract_decode()
        for req in (*retraction.retracted, *retraction.aborted):
            self._forget(req)
        self._result.retractions += len(retraction.retracted)
        self._result.aborted += len(retraction.aborted)
        self._queue.send_back(retraction.retracted)

    def _forget(self, req: Req) -> None:
        with self._guard("the comparison with a dense pass", (req,)):
            self._executor.forget(req)

    def _settle(self, launched: Launched) -> None:
        """Learn what a step produced, hand finished prompts to the cache, release finished requests."""
        finished = 0
        for req, tokens in launched.results:
            if req.kv is None:
                continue
            if launched.is_extend:
                with self._guard("cache_unfinished_req", (req,)):
                    maybe_cache_unfinished_req(req, self._stack.tree_cache)
            said = len(req.output_ids)
            done = advance_request(req, tokens, verified=launched.verified)
            self._result.output_tokens += len(req.output_ids) - said
            if done:
                self._forget(req)
                with self._guard("release_kv_cache", (req,)):
                    release_kv_cache(req, self._stack.tree_cache)
                finished += 1
        if finished:
            self._result.finished += finished
            self._running.filter([i for i, req in enumerate(self._running.reqs) if req.kv is not None])

    def _after_step(self, launched: Launched | None, settled: Launched | None) -> None:
        used = self._stack.slots_taken()
        self._result.peak_slots = max(self._result.peak_slots, used)
        if self._checks.every_step:
            live = [req for req in (*self._running.reqs, self._admission.chunked) if req is not None]
            if self._reception is not None:
                live += self._reception.waiting_reqs
            touched = [req for step in (launched, settled) if step is not None for req in step.reqs]
            operation = "nothing" if launched is None else launched.operation
            self._checks.after_step(operation, live, touched)
        if self._series.due():
            self._series.add(self._sample(used))

    def _sample(self, taken: int) -> Sample:
        cache = self._stack.tree_cache
        evictable, protected = cache.evictable_size(), cache.protected_size()
        return Sample(
            now_ms=self._clock.now_ms,
            used=taken - evictable - protected,
            evictable=evictable,
            protected=protected,
            free=self._stack.size - taken,
            running=len(self._running.reqs),
            waiting=len(self._queue),
            hit_rate=self._result.hit_rate,
        )
