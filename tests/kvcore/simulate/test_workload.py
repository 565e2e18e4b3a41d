from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcore.simulate.trace import TraceRequest
from kvcore.simulate.workload import Lengths, cut_to_context, job_of, make_req, shrink


@given(prompt=st.integers(1, 300), output=st.integers(1, 300), context=st.integers(2, 200))
def test_a_cut_request_ends_at_the_context_and_a_short_one_is_untouched(
    prompt: int, output: int, context: int
) -> None:
    cut = cut_to_context(Lengths(prompt, output), context)

    assert sum(cut) == min(prompt + output, context)
    assert 1 <= cut.prompt <= prompt
    assert 1 <= cut.output <= output


@pytest.mark.parametrize(
    ("lengths", "cut"),
    [((50_000, 3), (97, 3)), ((50_000, 400), (50, 50)), ((10, 10_000), (10, 90)), ((60, 40), (60, 40))],
)
def test_the_output_keeps_up_to_half_of_the_context(lengths: tuple[int, int], cut: tuple[int, int]) -> None:
    assert cut_to_context(Lengths(*lengths), 100) == cut


def test_a_request_carries_its_ids_its_limit_and_its_line() -> None:
    req = make_req(TraceRequest(7, 0.0, 600, 30, (1, 2)), context_len=4096, block_len=512)

    assert (req.rid, len(req.origin_input_ids), req.max_new_tokens) == ("r7", 600, 30)
    assert req.kv is None
    assert job_of(req).line == 7


def test_shrinking_divides_lengths_and_keeps_what_is_shared() -> None:
    requests = [TraceRequest(1, 0.0, 1024, 30, (1, 2)), TraceRequest(2, 0.0, 1500, 9, (1, 3, 4))]
    reqs = [
        make_req(shrink(r, prompt_factor=16, output_factor=4), context_len=4096, block_len=32, vocab_size=509)
        for r in requests
    ]

    ids = [req.origin_input_ids for req in reqs]
    assert [len(one) for one in ids] == [64, 94]
    assert [req.max_new_tokens for req in reqs] == [8, 3]
    assert ids[0][:32] == ids[1][:32]
    assert ids[0][32] != ids[1][32]
    assert max(ids[0] + ids[1]) < 509
