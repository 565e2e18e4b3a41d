from __future__ import annotations

import pytest

from kvcore.simulate.acceptance import AcceptanceModel
from kvcore.simulate.clock import VirtualClock
from kvcore.simulate.series import Sample, Series
from kvcore.simulate.token_ids import output_ids, prompt_ids
from kvcore.simulate.trace import TRACE_BLOCK, TraceRequest


def request(line: int, length: int, hash_ids: tuple[int, ...] | None) -> TraceRequest:
    return TraceRequest(line, 0.0, length, 10, hash_ids)


def test_equal_hash_ids_give_equal_blocks_and_different_ones_share_no_id() -> None:
    first = prompt_ids(request(1, 1300, (7, 8, 9)), 1300)
    second = prompt_ids(request(2, 1100, (7, 8, 30)), 1100)

    assert first[: 2 * TRACE_BLOCK] == second[: 2 * TRACE_BLOCK]
    assert not set(first[2 * TRACE_BLOCK :]) & set(second[2 * TRACE_BLOCK :])
    assert (len(first), len(second)) == (1300, 1100)


def test_a_cut_prompt_is_a_prefix_of_the_whole_one() -> None:
    whole = request(1, 1300, (7, 8, 9))

    assert prompt_ids(whole, 600) == prompt_ids(whole, 1300)[:600]


def test_requests_without_hash_ids_share_nothing_with_anybody() -> None:
    ids = [set(prompt_ids(request(line, 900, None), 900)) for line in (1, 2)]
    blocks = set(prompt_ids(request(3, 900, (0, 1)), 900))
    outputs = set(output_ids(1, 0, 500)) | set(output_ids(2, 0, 500))

    assert all(len(one) == 900 for one in ids)
    assert len(ids[0] | ids[1] | blocks | outputs) == 900 + 900 + 900 + 1000


def test_output_ids_continue_where_they_stopped() -> None:
    assert [*output_ids(4, 0, 3), *output_ids(4, 3, 2)] == [*output_ids(4, 0, 5)]


def test_accepted_lengths_lie_between_the_bonus_token_and_all_drafts() -> None:
    draws = AcceptanceModel(seed=1, max_drafts=3, topk=2).draw(5000)

    assert (min(draws), max(draws)) == (1, 4)
    # One position fails with probability 0.4 ** 2, so the mean is (1 - 0.84 ** 4) / 0.16 = 3.14.
    assert sum(draws) / len(draws) == pytest.approx(3.14, abs=0.05)


def test_accepted_lengths_follow_the_seed() -> None:
    same = [AcceptanceModel(seed=5, max_drafts=7).draw(50) for _ in range(2)]

    assert same[0] == same[1]
    assert same[0] != AcceptanceModel(seed=6, max_drafts=7).draw(50)


def test_without_drafts_every_step_gains_one_token() -> None:
    assert AcceptanceModel(seed=0, max_drafts=0).draw(3) == [1, 1, 1]


def test_virtual_time_moves_with_steps_and_never_back() -> None:
    clock = VirtualClock(step_ms=10.0, token_ms=0.5)
    clock.step(100)
    clock.wait_until(20.0)

    assert clock.now_ms == 60.0

    clock.wait_until(75.0)

    assert clock.now_ms == 75.0


def test_a_series_keeps_a_bounded_number_of_samples_that_reach_the_end() -> None:
    series = Series()
    for step in range(50_000):
        if series.due():
            series.add(Sample(float(step), 0, 0, 0, 0, 0, 0, 0.0))

    times = [sample.now_ms for sample in series.samples]
    assert 500 <= len(times) < 1024
    assert times == sorted(times)
    assert times[-1] > 49_000
