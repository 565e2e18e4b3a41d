"""Whole runs on small traces: what is counted, who is retracted, cut or given up, and that a broken promise shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kvcore.allocation_sizing import get_alloc_reserve_per_decode
from kvcore.errors import ConfigurationError
from kvcore.simulate.config import SimulationConfig
from kvcore.simulate.run import simulate
from kvcore.simulate.trace import BUNDLED_TRACE, TraceRequest, read_trace
from kvcore.simulate.violation import Violation

if TYPE_CHECKING:
    from kvcore.server_args import ServerArgs

ROW_WIDTH = "kvcore.simulate.stack.get_req_to_token_extra_context_len"


def make_requests(*lengths: tuple[int, int], apart_ms: float = 0.0) -> list[TraceRequest]:
    return [
        TraceRequest(line, line * apart_ms, prompt, output, None)
        for line, (prompt, output) in enumerate(lengths, start=1)
    ]


def make_config(**settings: Any) -> SimulationConfig:
    defaults = {"page_size": 4, "context_len": 256, "max_requests": 8, "chunk_size": 64, "pool_size": 2048}
    return SimulationConfig(**{**defaults, **settings})


SPECULATION = [
    {"spec": "none"},
    {"topk": 1},
    {"topk": 4},
    {"spec": "dflash", "draft_tokens": 9},
    {"spec": "ngram", "draft_tokens": 6},
]


@pytest.mark.parametrize(
    ("cache", "page_size", "spec"),
    # Page sizes take turns, so that each meets every cache and nearly every kind of speculation.
    [
        (cache, (1, 16, 64)[(i + j) % 3], spec)
        for i, cache in enumerate(("chunk", "radix", "swa"))
        for j, spec in enumerate(SPECULATION)
    ],
    ids=str,
)
def test_every_request_gets_all_its_tokens_and_every_law_holds(
    cache: str, page_size: int, spec: dict[str, Any]
) -> None:
    requests = read_trace(BUNDLED_TRACE, limit=8)
    config = make_config(cache=cache, page_size=page_size, context_len=1024, pool_size=8192, **spec)

    result, samples = simulate(config, requests)

    wanted = [(min(r.input_len, 1024), r.output_len) for r in requests]
    assert (result.requests, result.finished, result.aborted) == (8, 8, 0)
    assert result.output_tokens == sum(
        min(out, 1024 - min(prompt, 1024 - min(out, 512))) for prompt, out in wanted
    )
    assert result.checks == len(samples) + 2
    assert 0 < result.peak_slots <= result.pool_size


@pytest.mark.parametrize(
    ("cache", "page_size", "spec"),
    [
        ("chunk", 16, {"topk": 4}),
        ("radix", 1, {"topk": 4}),
        ("radix", 16, {"spec": "none"}),
        ("swa", 1, {"spec": "none"}),
        ("swa", 16, {"topk": 4}),
    ],
    ids=str,
)
def test_a_decode_server_receives_every_prompt_and_computes_none(
    cache: str, page_size: int, spec: dict[str, Any]
) -> None:
    requests = read_trace(BUNDLED_TRACE, limit=8)
    config = make_config(cache=cache, page_size=page_size, context_len=1024, pool_size=8192, **spec)

    received = simulate(replace(config, disaggregation=True), requests).result

    assert (received.finished, received.prefill_steps) == (8, 0)
    assert received.output_tokens == simulate(config, requests).result.output_tokens


def test_a_decode_server_takes_retracted_requests_back_with_their_outputs() -> None:
    requests = make_requests(*[(20, 200)] * 8)

    result = simulate(make_config(pool_size=600, disaggregation=True), requests).result

    assert result.retractions > 0
    assert (result.finished, result.output_tokens) == (8, 8 * 200)


@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_recurrent_states_are_shared_evicted_and_all_accounted_for(page_size: int) -> None:
    # Every prompt begins with the same 512 tokens, and goes on by itself.
    requests = [TraceRequest(line, 150.0 * line, 900, 12, (0, line)) for line in range(1, 25)]
    config = make_config(cache="mamba", page_size=page_size, spec="none", context_len=1024, pool_size=8192)

    result = simulate(replace(config, max_requests=2), requests).result

    assert (result.finished, result.aborted) == (24, 0)
    assert result.evicted_states > 10
    # At page size 1 every chunk leaves a state, and there are too few to keep that of the shared ones.
    assert (result.cached_tokens > 5_000) == (page_size > 1)


def test_a_snapshot_is_taken_where_prompts_branch() -> None:
    requests = [TraceRequest(line, 150.0 * line, 900, 12, (0, line)) for line in range(1, 11)]
    config = make_config(
        cache="mamba", page_size=64, spec="none", context_len=1024, pool_size=8192, chunk_size=1024
    )

    # The first prompt leaves its state after 768 tokens, the second finds out that 512 would have been shared.
    assert simulate(config, requests).result.cached_tokens == 8 * 512


def test_runs_are_reproducible_and_follow_the_seed() -> None:
    requests = read_trace(BUNDLED_TRACE, limit=10)
    steps = [simulate(make_config(seed=seed), requests).result.decode_steps for seed in (1, 1, 2)]

    assert steps[0] == steps[1] != steps[2]


def test_equal_prompts_are_computed_once_with_a_radix_cache() -> None:
    ids = (5, 6)
    requests = [TraceRequest(line, 1000.0 * line, 640, 4, ids) for line in (1, 2, 3)]
    config = make_config(cache="radix", spec="none", context_len=1024)

    result = simulate(config, requests).result

    # The last token is always computed, and only whole pages are shared.
    assert (result.prompt_tokens, result.cached_tokens) == (3 * 640, 2 * 636)
    assert simulate(make_config(spec="none", context_len=1024), requests).result.cached_tokens == 0


def test_a_full_pool_evicts_what_the_radix_cache_keeps() -> None:
    requests = make_requests(*[(100, 8)] * 20, apart_ms=200.0)

    result = simulate(make_config(cache="radix", pool_size=512), requests).result

    assert (result.finished, result.retractions) == (20, 0)
    assert result.evicted_tokens > 1000


def test_a_window_makes_tombstones_and_gives_window_slots_back() -> None:
    requests = read_trace(BUNDLED_TRACE, limit=40)

    result = simulate(
        make_config(cache="swa", window=32, spec="none", check="end", context_len=1024, pool_size=8192),
        requests,
    ).result

    assert result.finished == 40
    assert result.evicted_window_tokens > result.evicted_tokens > 0
    assert result.tombstones > 0


def test_a_short_pool_retracts_and_still_finishes_everything() -> None:
    requests = make_requests(*[(20, 200)] * 8)

    result = simulate(make_config(pool_size=600, spec="none"), requests).result

    assert result.retractions > 0
    assert (result.finished, result.aborted) == (8, 0)
    assert result.output_tokens == 8 * 200
    assert result.prompt_tokens > 8 * 20


def test_a_request_that_cannot_fit_alone_is_aborted_and_the_others_go_on() -> None:
    requests = make_requests((10, 5), (220, 10), (10, 5))

    result = simulate(make_config(pool_size=128), requests).result

    assert (result.finished, result.aborted) == (2, 1)


def test_a_request_that_outgrows_the_pool_alone_is_aborted() -> None:
    requests = make_requests((30, 220), (10, 5))

    result = simulate(make_config(pool_size=132, spec="none"), requests).result

    assert (result.finished, result.aborted) == (1, 1)


def test_long_requests_are_cut_to_the_context_and_reach_it() -> None:
    result = simulate(make_config(), make_requests((5000, 3), (10, 5000), (100, 100))).result

    assert result.cut_to_context == 2
    assert result.output_tokens == 3 + 246 + 100


def test_requests_arrive_when_the_trace_says() -> None:
    result = simulate(make_config(spec="none"), make_requests((10, 2), (10, 2), apart_ms=60_000.0)).result

    assert result.virtual_s == pytest.approx(120.0, abs=1.0)
    assert result.prefill_steps == 2


def test_progress_counts_up_to_all_requests() -> None:
    seen: list[int] = []
    simulate(make_config(), make_requests(*[(30, 10)] * 5), on_progress=seen.append)

    assert seen == sorted(seen)
    assert seen[-1] == 5


def without_fixes(*missing: str) -> Any:
    """The row headroom as it was before the fixes in ``missing``."""

    def extra(args: ServerArgs) -> int:
        base = 4 + (args.max_speculative_num_draft_tokens or 0)
        reserve = get_alloc_reserve_per_decode(args)
        if args.speculative_algorithm is None or "26972" in missing:
            return base
        if args.page_size == 1:
            return base if "33581" in missing else max(base, reserve)
        if "31616" in missing:
            return max(base, reserve) if args.topk > 1 else base
        return max(base, reserve + args.page_size - 1)

    return extra


@pytest.mark.parametrize(
    ("missing", "settings"),
    [
        ("26972", {"page_size": 16, "topk": 4}),
        ("31616", {"page_size": 16, "topk": 1}),
        ("31616", {"page_size": 64, "topk": 1, "chunk_size": 128}),
        ("33581", {"page_size": 1, "topk": 1, "steps": 7}),
        ("33581", {"page_size": 1, "spec": "dflash"}),
    ],
)
def test_a_row_without_its_headroom_is_a_violation_that_names_the_request(
    missing: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = make_requests((100, 20), *[(10_000, 30)] * 6)
    config = make_config(**settings)
    clean = simulate(config, requests).result
    monkeypatch.setattr(ROW_WIDTH, without_fixes(missing))
    monkeypatch.setenv("PRTOGGLE", missing)

    with pytest.raises(Violation, match="RowOverflow") as caught:
        simulate(config, requests)

    assert clean.finished == 7
    assert caught.value.operation == "prepare_for_decode"
    assert caught.value.request is not None
    assert "226 prompt tokens" in caught.value.request
    assert "row width" in caught.value.numbers
    assert str(caught.value).endswith(f"active toggles: {missing}")


def test_a_leak_is_found_at_the_end_and_earlier_when_every_step_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kvcore.release._free_over_allocated", lambda *_args: None)
    requests = make_requests(*[(30, 10)] * 5, apart_ms=500.0)
    moments = {}
    for check in ("every-step", "end"):
        with pytest.raises(Violation, match="lost, held by nobody") as caught:
            simulate(make_config(check=check), requests)
        moments[check] = caught.value

    assert moments["end"].operation == "the check at the end"
    assert moments["every-step"].operation.startswith("the check after ")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"page_size": 0}, "--page-size must be at least 1, found 0"),
        ({"context_len": 1}, "--context-len must be at least 2"),
        ({"spec": "none", "topk": 2}, "--topk means nothing with --spec none"),
        ({"spec": "dflash", "steps": 2}, "--steps means nothing with --spec dflash"),
        (
            {"topk": 1, "steps": 2, "draft_tokens": 9},
            "--draft-tokens 9 is more than a tree of 2 steps and 1 branches",
        ),
        ({"window": 7}, "--window belongs to --cache swa"),
        ({"policy": "lfu", "cache": "swa"}, "--policy belongs to --cache radix"),
        ({"cache": "mamba"}, "--cache mamba goes with --spec none"),
        ({"cache": "mamba", "spec": "none", "disaggregation": True}, "without --disaggregation"),
        ({"page_size": 128}, "--chunk-size 64 is less than a page of 128"),
        ({"pool_size": 3}, "--pool-size 3 holds no page of 4"),
        ({"cache": "radix", "policy": "best"}, "best"),
        ({"cache": "radix", "policy": ""}, "unknown eviction policy ''"),
        ({"pool_size": 10**13}, "--pool-size must be at most 2147483647"),
        ({"context_len": 10**20}, "--context-len must be at most 2147483647"),
        ({"max_requests": 2**31}, "--max-requests must be at most 2147483647"),
        ({"cache": "swa", "pool_size": 64}, "--pool-size 64 is too small for --window 128"),
    ],
)
def test_settings_that_make_no_stack_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        simulate(make_config(**settings), make_requests((1, 1)))
