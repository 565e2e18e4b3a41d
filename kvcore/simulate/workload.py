"""Turns rows of a trace into requests that end within the context."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kvcore.page_math import ceil_div
from kvcore.req import Req
from kvcore.simulate.token_ids import prompt_ids

if TYPE_CHECKING:
    from kvcore.simulate.trace import TraceRequest


class Lengths(NamedTuple):
    """Prompt and output of a request, in tokens."""

    prompt: int
    output: int


@dataclass(slots=True)
class Job:
    """What the simulation knows of a request beyond the stack's record; found at ``Req.user_data``."""

    line: int
    epoch: int = 0
    """Raised when the request loses its row; results of steps launched in an earlier epoch are dropped."""
    num_said: int = 0
    """Output tokens that the executor has said, one step ahead of the ``output_ids`` that the host knows."""


def cut_to_context(lengths: Lengths, context_len: int) -> Lengths:
    """``lengths`` with prompt plus output at ``context_len`` at most.

    The output keeps up to half of the context and the prompt gets the rest, so that a long request still
    decodes, and decodes up to the limit.
    """
    output = min(lengths.output, max(1, context_len // 2))
    prompt = min(lengths.prompt, context_len - output)
    return Lengths(prompt, min(lengths.output, context_len - prompt))


def shrink(request: TraceRequest, *, prompt_factor: int, output_factor: int) -> TraceRequest:
    """The request with its lengths divided, rounded up; blocks keep their ids, and so what they share."""
    return replace(
        request,
        input_len=ceil_div(request.input_len, prompt_factor),
        output_len=ceil_div(request.output_len, output_factor),
    )


def make_req(
    request: TraceRequest, *, context_len: int, block_len: int, vocab_size: int | None = None
) -> Req:
    """A fresh request of the stack with all its prompt ids, folded into ``vocab_size`` where one is given."""
    prompt_len, output_len = cut_to_context(Lengths(request.input_len, request.output_len), context_len)
    ids = prompt_ids(request, prompt_len, block_len)
    if vocab_size is not None:
        ids = [token_id % vocab_size for token_id in ids]
    return Req(
        rid=f"r{request.line}",
        origin_input_ids=ids,
        max_new_tokens=output_len,
        user_data=Job(request.line),
    )


def job_of(req: Req) -> Job:
    """The simulation's record of ``req``."""
    job: Job = req.user_data
    return job
