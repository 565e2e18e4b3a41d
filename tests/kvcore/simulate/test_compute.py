"""The oracle over the whole stack: token for token the logits of a dense pass, and no wrong slot goes unseen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from kvcore.pools.mha import MHATokenToKVPool
from kvcore.simulate.compute.executor import ComputingExecutor
from kvcore.simulate.config import SimulationConfig
from kvcore.simulate.run import simulate
from kvcore.simulate.trace import BUNDLED_TRACE, TraceRequest, read_trace
from kvcore.simulate.violation import Violation

if TYPE_CHECKING:
    from kvcore.req import Req
    from kvcore.schedule_batch import ScheduleBatch
    from kvcore.simulate.run import Outcome

NUM_REQUESTS = 12
# They come four times as fast, so that many run at once.
REQUESTS = [replace(r, arrival_ms=r.arrival_ms / 4) for r in read_trace(BUNDLED_TRACE, limit=NUM_REQUESTS)]


def run(requests: list[TraceRequest] = REQUESTS, **settings: Any) -> Outcome:
    options = {"compute": True, "check": "end", "chunk_size": 32, **settings}
    return simulate(SimulationConfig.from_options(options), requests)


SPECULATION: list[dict[str, Any]] = [
    {"spec": "none"},
    {"topk": 1},
    {"topk": 4},
    {"spec": "dflash"},
    {"spec": "ngram"},
]


@pytest.mark.parametrize(
    ("cache", "page_size", "spec"),
    [
        (cache, (1, 4, 16)[(i + j) % 3], spec)
        for i, cache in enumerate(("chunk", "radix", "swa"))
        for j, spec in enumerate(SPECULATION)
    ],
    ids=str,
)
def test_every_logit_is_that_of_a_dense_pass(cache: str, page_size: int, spec: dict[str, Any]) -> None:
    result = run(cache=cache, page_size=page_size, **spec).result

    assert (result.finished, result.aborted) == (NUM_REQUESTS, 0)
    # Every token is computed once or comes from the cache; the last one of a request is never fed back.
    computed = result.prompt_tokens - result.cached_tokens + result.output_tokens - result.finished
    assert computed <= result.compared_tokens
    assert result.prefill_steps > NUM_REQUESTS, "prompts are computed in chunks"
    assert (result.cached_tokens > 100) == (cache != "chunk")


@pytest.mark.parametrize("spec", [{"spec": "none"}, {"topk": 4}], ids=str)
@pytest.mark.parametrize("cache", ["chunk", "radix", "swa"])
def test_a_decode_server_reads_what_it_received(cache: str, spec: dict[str, Any]) -> None:
    result = run(cache=cache, page_size=4, disaggregation=True, pool_size=1600, **spec).result

    assert (result.finished, result.prefill_steps) == (NUM_REQUESTS, 0)
    assert result.compared_tokens >= result.output_tokens - result.finished


@pytest.mark.parametrize("page_size", [1, 16])
def test_rows_that_share_states_share_keys_and_values(page_size: int) -> None:
    result = run(cache="mamba", page_size=page_size, spec="none").result

    assert result.finished == NUM_REQUESTS
    assert result.cached_tokens > 0


def test_page_64_too() -> None:
    assert (
        run(cache="radix", page_size=64, topk=4, pool_size=12_288, chunk_size=64).result.finished
        == NUM_REQUESTS
    )


@pytest.mark.parametrize("cache", ["chunk", "radix"])
def test_under_retraction_and_eviction(cache: str) -> None:
    # Eight requests of 20 prompt and 100 output tokens in a pool that three of them fill.
    requests = [TraceRequest(line, 0.0, 20 * 16, 100 * 4, (line // 2,)) for line in range(8)]

    result = run(requests, cache=cache, page_size=4, topk=1, pool_size=400).result

    assert result.finished == 8
    assert result.retractions > 0
    assert (result.evicted_tokens > 0) == (cache == "radix")


def test_a_window_with_tombstones() -> None:
    result = run(
        cache="swa", page_size=4, spec="none", window=8, pool_size=1024, max_requests=4, chunk_size=16
    ).result

    assert result.finished == NUM_REQUESTS
    assert result.evicted_window_tokens > 0


def test_different_stacks_say_the_same_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accepted drafts are what decoding one by one would have said."""
    said: list[dict[str, list[int]]] = []
    forget = ComputingExecutor.forget

    def recorded(self: ComputingExecutor, req: Req) -> None:
        said[-1][req.rid] = list(req.output_ids)
        forget(self, req)

    monkeypatch.setattr(ComputingExecutor, "forget", recorded)
    for settings in ({"spec": "none"}, {"topk": 4, "cache": "radix"}, {"topk": 1, "page_size": 1}):
        said.append({})
        run(**settings)

    assert said[0] == said[1] == said[2]
    assert len({token for ids in said[0].values() for token in ids}) > 50


def corrupt_row_of_first(batch: ScheduleBatch, column: int) -> None:
    """Let one column of one row name its neighbour's slot."""
    kv = batch.reqs[0].kv
    assert kv is not None
    row = batch.req_to_token_pool.req_to_token[kv.req_pool_idx]
    row[column] = row[column + 1]


@pytest.mark.parametrize("column", [0, 1, 14])
@pytest.mark.parametrize("settings", [{"spec": "none"}, {"topk": 4}], ids=str)
def test_one_wrong_slot_in_one_row_is_seen(
    column: int, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = ComputingExecutor.decode
    calls = 0

    def corrupted(self: ComputingExecutor, batch: ScheduleBatch) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            corrupt_row_of_first(batch, column)
        return decode(self, batch)

    monkeypatch.setattr(ComputingExecutor, "decode", corrupted)

    with pytest.raises(Violation, match=r"differ by .* from a dense pass without a cache") as caught:
        run(page_size=1, **settings)
    assert caught.value.request is not None


@pytest.mark.parametrize(
    "settings", [{"spec": "none"}, {"topk": 4}, {"cache": "radix"}, {"cache": "swa"}], ids=str
)
def test_one_slot_written_over_in_the_pool_is_seen(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    decode = ComputingExecutor.decode
    calls = 0

    def corrupted(self: ComputingExecutor, batch: ScheduleBatch) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            kv = batch.reqs[0].kv
            assert kv is not None
            slot = batch.req_to_token_pool.req_to_token[
                kv.req_pool_idx, kv.kv_committed_len - 2 : kv.kv_committed_len - 1
            ]
            junk = torch.ones(1, 2, 16)
            self._store.write(0, slot.to(torch.int64), junk, junk)
        return decode(self, batch)

    monkeypatch.setattr(ComputingExecutor, "decode", corrupted)

    with pytest.raises(Violation, match="from a dense pass"):
        run(**settings)


def test_accepted_drafts_that_are_not_moved_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MHATokenToKVPool, "move_kv_cache", lambda *_args: None)

    with pytest.raises(Violation, match="from a dense pass"):
        run(topk=4)


def test_a_slot_that_two_requests_hold_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The free list hands out a page again that is in use."""
    from kvcore.allocators import TokenAllocator

    alloc = TokenAllocator.alloc
    first: list[torch.Tensor] = []

    def twice(self: TokenAllocator, num_slots: int) -> torch.Tensor | None:
        slots = alloc(self, num_slots)
        if slots is not None and num_slots > 4:
            first.append(slots[:2].clone())
            if len(first) == 4:
                slots[:2] = first[2]
        return slots

    monkeypatch.setattr(TokenAllocator, "alloc", twice)

    with pytest.raises(Violation):
        run(spec="none", page_size=1)
