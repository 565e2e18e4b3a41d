"""One simulation from its settings and its requests to its counters."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kvcore.errors import ConfigurationError
from kvcore.simulate.acceptance import AcceptanceModel
from kvcore.simulate.admission import Admission
from kvcore.simulate.checks import Checks
from kvcore.simulate.clock import VirtualClock
from kvcore.simulate.compute.decoder import VOCAB_SIZE, Decoder, DecoderShape
from kvcore.simulate.compute.executor import ComputingExecutor
from kvcore.simulate.compute.stores import build_store
from kvcore.simulate.executor import CountingExecutor
from kvcore.simulate.loop import Loop
from kvcore.simulate.reception import Reception
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
    from kvcore.simulate.executor import Executor
    from kvcore.simulate.stack import Stack
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
    stack = _built(config)
    result = SimulationResult(
        requests=len(requests), pool_size=stack.size, shares_prefixes=config.cache != "chunk"
    )
    guard = Guard(stack.rows.max_context_len)
    checks = Checks(stack, guard, result, every_step=config.check == "every-step")
    queue = _make_queue(config, requests, result)
    executor = _make_executor(config, stack)
    admission = Admission(stack, queue, guard, result, chunk_size=config.chunk_size)
    clock, series = VirtualClock(), Series()
    reception = Reception(stack, admission, clock, guard) if config.disaggregation else None
    loop = Loop(
        stack,
        queue,
        admission,
        executor,
        checks,
        clock,
        guard,
        result,
        series,
        reception=reception,
        overlap=config.overlap,
    )
    started = time.perf_counter()
    loop.run(on_progress)
    checks.at_end()
    result.wall_s = time.perf_counter() - started
    result.virtual_s = clock.now_ms / 1000.0
    result.compared_tokens = executor.compared
    _count_evictions(stack, result)
    return Outcome(result, series.samples)


def _built(config: SimulationConfig) -> Stack:
    try:
        return build_stack(config)
    except (MemoryError, RuntimeError) as error:
        # torch says "can't allocate memory" on the CPU, and "Tried to allocate" on a device.
        if not isinstance(error, MemoryError) and "allocate" not in str(error):
            raise
        raise ConfigurationError(
            f"the pools do not fit into memory ({config.pool_tokens} slots, {config.max_requests} rows of "
            f"{config.context_len} tokens and more, {config.num_draft_tokens} draft tokens): lower "
            "--pool-size, --max-requests, --context-len, or the size of the draft tree"
        ) from error


def _make_queue(
    config: SimulationConfig, requests: Sequence[TraceRequest], result: SimulationResult
) -> WaitingQueue:
    """The requests, shrunk where that is asked for; counts those that do not fit the context."""
    shrunk = [
        shrink(request, prompt_factor=config.prompt_shrink, output_factor=config.output_shrink)
        for request in requests
    ]
    lengths = [Lengths(request.input_len, request.output_len) for request in shrunk]
    result.cut_to_context = sum(cut_to_context(one, config.context_len) != one for one in lengths)
    make = partial(
        make_req,
        context_len=config.context_len,
        block_len=TRACE_BLOCK // config.prompt_shrink,
        vocab_size=VOCAB_SIZE if config.compute else None,
    )
    return WaitingQueue(shrunk, make)


def _count_evictions(stack: Stack, result: SimulationResult) -> None:
    evictions = stack.tree_cache.evictions
    result.evicted_tokens = evictions.num_tokens
    result.evicted_window_tokens = evictions.num_window_tokens
    result.evicted_states = evictions.num_states
    result.tombstones = stack.tombstones()


def _make_executor(config: SimulationConfig, stack: Stack) -> Executor:
    if not config.compute:
        drafts = config.max_drafts_accepted
        return CountingExecutor(
            AcceptanceModel(seed=config.seed, max_drafts=drafts, topk=config.num_branches)
        )
    # Under overlap a step may run, and be dropped, for a request that has reached the context.
    shape = DecoderShape(window=stack.window, max_positions=stack.rows.max_context_len)
    return ComputingExecutor(
        Decoder(shape, seed=config.seed),
        build_store(stack.allocator, shape),
        topk=config.num_branches,
        num_draft_tokens=config.num_draft_tokens,
        seed=config.seed,
    )
