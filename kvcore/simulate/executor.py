"""What stands in for the model: it is shown each prepared batch and says which tokens come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kvcore.simulate.token_ids import output_ids
from kvcore.simulate.workload import job_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.req import Req
    from kvcore.schedule_batch import ScheduleBatch
    from kvcore.simulate.acceptance import AcceptanceModel


class Executor(Protocol):
    """Runs batches in the order in which they are launched, ahead of the host by one step."""

    compared: int
    """Token positions whose logits have been compared with a reference."""

    def extend(self, batch: ScheduleBatch) -> list[Sequence[int]]:
        """New tokens per request: one where the extend reached the end, none after a chunk in the middle."""
        ...

    def receive(self, batch: ScheduleBatch) -> list[Sequence[int]]:
        """The KV of ``fill_ids`` is here, and with it the first token of requests that have none."""
        ...

    def decode(self, batch: ScheduleBatch) -> list[Sequence[int]]:
        """New tokens per request, at least one."""
        ...

    def forget(self, req: Req) -> None:
        """``req`` has lost its row, or is about to; what it still has in flight will be dropped."""
        ...


class CountingExecutor:
    """Computes nothing: tokens are numbered, and accepted lengths are drawn."""

    def __init__(self, acceptance: AcceptanceModel) -> None:
        self._acceptance = acceptance
        self.compared = 0

    def extend(self, batch: ScheduleBatch) -> list[Sequence[int]]:
        """One token where the prompt ends."""
        tokens: list[Sequence[int]] = []
        for req in batch.reqs:
            job = job_of(req)
            if req.is_chunked:
                tokens.append(())
            else:
                job.num_said = len(req.output_ids) + 1
                tokens.append(output_ids(job.line, job.num_said - 1, 1))
        return tokens

    def receive(self, batch: ScheduleBatch) -> list[Sequence[int]]:
        """One token for requests without any."""
        tokens: list[Sequence[int]] = []
        for req in batch.reqs:
            job, num_new = job_of(req), 0 if req.output_ids else 1
            job.num_said = len(req.output_ids) + num_new
            tokens.append(output_ids(job.line, 0, num_new))
        return tokens

    def decode(self, batch: ScheduleBatch) -> list[Sequence[int]]:
        """As many tokens as the distribution says."""
        tokens: list[Sequence[int]] = []
        for req, gained in zip(batch.reqs, self._acceptance.draw(len(batch.reqs)), strict=True):
            job = job_of(req)
            tokens.append(output_ids(job.line, job.num_said, gained))
            job.num_said += gained
        return tokens

    def forget(self, req: Req) -> None:
        """Nothing is known of any request."""
