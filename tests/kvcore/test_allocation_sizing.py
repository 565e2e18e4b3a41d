"""Golden numbers of the sizing helpers, and the row width as the later fixes found it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcore import allocation_sizing
from kvcore.allocation_sizing import (
    get_alloc_len_per_decode,
    get_alloc_reserve_per_decode,
    get_req_to_token_extra_context_len,
    page_aligned_decode_alloc_lens,
    spec_decode_alloc_len_per_request,
)
from kvcore.errors import ConfigurationError
from kvcore.req import ReqKvInfo
from kvcore.server_args import ServerArgs, SpeculativeAlgorithm, get_server_args, set_server_args

# steps, topk, draft tokens, page size, algorithm -> alloc_len, reserve, extra as first reported, extra as it is
GOLDEN = [
    (None, None, None, 1, None, 1, 2, 4, 4),
    (None, None, None, 64, None, 1, 2, 4, 4),
    (3, 1, 4, 1, "EAGLE", 4, 8, 8, 8),
    (3, 1, 4, 16, "EAGLE", 4, 8, 8, 23),
    (3, 1, 4, 64, "EAGLE", 4, 8, 8, 71),
    (7, 1, 8, 1, "EAGLE", 8, 16, 12, 16),
    (5, 8, 64, 1, "EAGLE", 64, 128, 68, 128),
    (3, 4, 8, 16, "EAGLE", 128, 256, 256, 271),
    (5, 4, 8, 4, "EAGLE", 32, 64, 64, 67),
    (5, 8, 64, 64, "EAGLE", 1024, 2048, 2048, 2111),
    (1, 1, 17, 1, "DFLASH", 17, 34, 21, 34),
    (1, 1, 17, 64, "DFLASH", 17, 34, 21, 97),
    # n-gram lookup drafts no chain of KV of its own, so no branch takes pages
    (1, 4, 12, 16, "NGRAM", 12, 24, 24, 39),
]
GOLDEN_IDS = [f"S{s}-K{k}-D{d}-P{p}-{a}" for s, k, d, p, a, *_ in GOLDEN]

# The statements that three fixes of the row width brought, and what stood there before each.
REVERTS = {
    "26972": (
        "    base = 4 + (server_args.max_speculative_num_draft_tokens or 0)\n",
        "    base = 4 + (server_args.max_speculative_num_draft_tokens or 0)\n    return base\n",
    ),
    "31616": (
        "    return max(base, reserve + page_size - 1)\n",
        "    return max(base, reserve) if server_args.topk > 1 else base\n",
    ),
    "33581": ("        return max(base, reserve)\n", "        return base\n"),
}


def make_args(
    steps: Any, topk: Any, draft: Any, page_size: int, algorithm: str | None, **kwargs: Any
) -> ServerArgs:
    return ServerArgs(
        context_len=4096,
        page_size=page_size,
        speculative_algorithm=None if algorithm is None else SpeculativeAlgorithm(algorithm),
        speculative_num_steps=steps,
        speculative_eagle_topk=topk,
        speculative_num_draft_tokens=draft,
        **kwargs,
    )


def reverted(*ids: str) -> Any:
    """``get_req_to_token_extra_context_len`` from its own text, with the fixes ``ids`` edited out."""
    text = inspect.getsource(get_req_to_token_extra_context_len)
    for toggle_id in ids:
        fixed, before = REVERTS[toggle_id]
        assert text.count(fixed) == 1, f"{toggle_id} no longer matches exactly once"
        text = text.replace(fixed, before)
    namespace = dict(vars(allocation_sizing))
    exec(compile(text, "reverted", "exec"), namespace)
    return namespace["get_req_to_token_extra_context_len"]


@pytest.mark.parametrize("row", GOLDEN, ids=GOLDEN_IDS)
def test_lengths_are_the_golden_ones(row):
    *given_args, alloc_len, reserve, _, extra = row
    args = make_args(*given_args)
    assert get_alloc_len_per_decode(args) == alloc_len
    assert get_alloc_reserve_per_decode(args) == reserve
    assert get_req_to_token_extra_context_len(args) == extra


@pytest.mark.parametrize("row", GOLDEN, ids=GOLDEN_IDS)
def test_row_width_as_first_reported_is_what_the_later_fixes_changed(row):
    *given_args, _, _, first_reported, _ = row
    assert reverted("31616", "33581")(make_args(*given_args)) == first_reported


@pytest.mark.parametrize("others", [(), ("31616",), ("33581",), ("31616", "33581")], ids=str)
@pytest.mark.parametrize("row", GOLDEN, ids=GOLDEN_IDS)
def test_without_the_first_fix_the_headroom_is_four_and_the_draft_tokens(row, others):
    args = make_args(*row[:5])
    assert reverted("26972", *others)(args) == 4 + (row[2] or 0)


@given(
    steps=st.integers(1, 8),
    topk=st.integers(1, 8),
    draft=st.integers(1, 64),
    page_size=st.sampled_from([1, 2, 16, 64]),
)
def test_each_later_fix_reverts_its_own_pages_only(steps, topk, draft, page_size):
    args = make_args(steps, topk, draft, page_size, "EAGLE")
    base, reserve = 4 + draft, get_alloc_reserve_per_decode(args)
    strict = max(base, reserve + page_size - 1)
    at_page_one = page_size == 1
    assert reverted("33581")(args) == (base if at_page_one else strict)
    gated = max(base, reserve) if topk > 1 else base
    assert reverted("31616")(args) == (strict if at_page_one else gated)
    assert reverted("31616", "33581")(args) == (base if at_page_one else gated)
    assert reverted("33581", "31616")(args) == reverted("31616", "33581")(args)


@given(
    algorithm=st.sampled_from([None, "EAGLE", "NGRAM", "DFLASH"]),
    steps=st.integers(1, 8),
    topk=st.integers(1, 8),
    draft=st.integers(1, 64),
    page_size=st.sampled_from([1, 2, 4, 16, 64]),
    dcp_size=st.integers(1, 4),
    committed=st.integers(0, 4096),
)
def test_no_watermark_runs_past_the_row(algorithm, steps, topk, draft, page_size, dcp_size, committed):
    """Whatever a request has committed within the context, its next watermark fits.

    Only a speculative step has a watermark, in whole pages; a plain one writes its one token.
    """
    args = make_args(steps, topk, draft, page_size, algorithm, dcp_size=dcp_size)
    width = args.context_len + get_req_to_token_extra_context_len(args)
    if algorithm is None:
        assert committed + get_alloc_len_per_decode(args) <= width
        return
    reserve = get_alloc_reserve_per_decode(args)
    kv = ReqKvInfo(1, kv_committed_len=committed, kv_allocated_len=committed)
    assert page_aligned_decode_alloc_lens([kv], reserve, args.alloc_page_size).nxt[0] <= width


def test_pages_of_context_parallel_ranks_count_together():
    alone = make_args(3, 1, 4, 4, "EAGLE")
    shared = make_args(3, 1, 4, 4, "EAGLE", dcp_size=4)
    assert shared.alloc_page_size == 16
    assert get_req_to_token_extra_context_len(shared) == 23
    assert get_req_to_token_extra_context_len(alone) == 11


def test_adaptive_speculation_is_sized_for_its_longest_chain():
    args = make_args(3, 1, 4, 1, "EAGLE", speculative_candidate_steps=(1, 3, 7))
    assert args.max_speculative_num_draft_tokens == 8
    assert get_alloc_len_per_decode(args) == 8


def test_watermark_is_whole_pages_and_never_moves_back():
    first = ReqKvInfo(1, kv_committed_len=10, kv_allocated_len=10)
    second = ReqKvInfo(2, kv_committed_len=13, kv_allocated_len=20)
    ahead = ReqKvInfo(3, kv_committed_len=0, kv_allocated_len=40)
    lens = page_aligned_decode_alloc_lens([first, second, ahead], 8, 4)
    assert lens.cur == [10, 20, 40]
    assert lens.nxt == [20, 24, 40]
    assert lens.num_needed == 14


@pytest.mark.parametrize(
    ("page_size", "topk", "expected"), [(1, 1, 4), (1, 4, 12), (16, 1, 16), (16, 4, 128)], ids=str
)
def test_without_overlap_every_branch_copies_the_shared_page(page_size, topk, expected):
    assert spec_decode_alloc_len_per_request(make_args(3, topk, 4, page_size, "EAGLE")) == expected


def test_helpers_ask_the_process_wide_settings_when_given_none():
    set_server_args(make_args(3, 4, 8, 16, "EAGLE"))
    try:
        assert get_alloc_len_per_decode() == 128
        assert get_alloc_reserve_per_decode() == 256
    finally:
        set_server_args(None)
    with pytest.raises(ConfigurationError, match="set_server_args"):
        get_server_args()


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"context_len": 0}, "context_len must be at least 1, found 0"),
        ({"page_size": 0}, "page_size must be at least 1"),
        ({"dcp_size": 0}, "dcp_size must be at least 1"),
        ({"speculative_num_steps": -1}, "speculative_num_steps must be at least 0"),
        ({"speculative_num_draft_tokens": 0}, "speculative_num_draft_tokens must be at least 1"),
        ({"speculative_algorithm": SpeculativeAlgorithm.EAGLE}, "EAGLE needs speculative_num_draft_tokens"),
        ({"speculative_eagle_topk": 2, "speculative_candidate_steps": (1, 3)}, "drafts one chain"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(kwargs, match):
    with pytest.raises(ConfigurationError, match=match):
        ServerArgs(**{"context_len": 64, **kwargs})
