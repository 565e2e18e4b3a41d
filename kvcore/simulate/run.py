"""One simulation from its settings and its requests to its counters."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kvcore.simulate.acceptance import AcceptanceModel
from kvcore.simulate.admission import Admission
from kvcore.simulate.checks import Checks
from kvcore.simulate.clock import VirtualClock
from kvcore.simulate.executor import CountingExecutor
from kvcore.simulate.loop import Loop
from kvcore.simulate.result import SimulationResult
from kvcore.simulate.series import Sample, Series
from kvcore.simulate.stack import build_stack
from kvcore.simulate.trace import TRACE_BLOCK
from kvcore.simulate.violation import Guard
from kvcore.simulate.waiting import WaitingQueue
from kvcore.simulate.workload import Lengths, cut_to_context, make_req, shrink

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvcore.simulate.config import SimulationConfig
    from kvcore.simulate.trace import TraceRequest


class Outcome(NamedTuple):
    """What a clean run leaves behind."""

    result: SimulationResult
    samples: list[Sample]


def _ignore_progress(_done: int) -> None:
    pass


def simulate(
    config: SimulationConfig,
    requests: Sequence[TraceRequest],
    *,
    on_progress: Callable[[int], None] = _ignore_progress,
) -> Outcome:
    """Replay ``requests`` (in the order of their arrival) through a fresh stack.

    ``on_progress`` is called after every step with the number of requests that are done. Raises Violation as
    soon as the stack breaks a promise, ConfigurationError when no such stack can be built.
    """
    stack = build_stack(config)
    if config.shrink > 1:
        requests = [shrink(request, config.shrink) for request in requests]
    lengths = [Lengths(request.input_len, request.output_len) for request in requests]
    result = SimulationResult(
        requests=len(requests),
        cut_to_context=sum(cut_to_context(one, config.context_len) != one for one in lengths),
        pool_size=stack.size,
    )
    guard = Guard(stack.rows.max_context_len)
    checks = Checks(stack, guard, result, every_step=config.check == "every-step")
    queue = WaitingQueue(
        requests, partial(make_req, context_len=config.context_len, block_len=TRACE_BLOCK // config.shrink)
    )
    executor = CountingExecutor(
        AcceptanceModel(seed=config.seed, max_drafts=config.max_drafts_accepted, topk=config.num_branches)
    )
    admission = Admission(stack, queue, guard, result, chunk_size=config.chunk_size)
    clock, series = VirtualClock(), Series()
    loop = Loop(stack, queue, admission, executor, checks, clock, guard, result, series)
    started = time.perf_counter()
    loop.run(on_progress)
    checks.at_end()
    result.wall_s = time.perf_counter() - started
    result.evicted_tokens = stack.evictions.num_tokens
    result.evicted_window_tokens = stack.evictions.num_window_tokens
    result.evicted_states = stack.evictions.num_states
    result.tombstones = stack.tombstones()
    result.virtual_s = clock.now_ms / 1000.0
    return Outcome(result, series.samples)
