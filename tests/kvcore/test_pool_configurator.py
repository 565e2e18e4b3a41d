"""Pool sizes follow from bytes: within the budget, close to it, in whole pages, or an error that says what to change."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from kvcore.errors import ConfigurationError, NotEnoughMemory
from kvcore.pool_configurator import (
    SWALayers,
    WindowCap,
    clip_max_new_tokens,
    configure_capped_swa_pools,
    configure_full_pool,
    configure_mamba_pool,
    configure_swa_pools,
    kv_budget_bytes,
    max_req_len,
    max_running_requests,
    mha_layer_bytes,
    mla_layer_bytes,
    smallest_of_ranks,
    states_per_request,
    window_cap,
    with_draft_layers,
)
from kvcore.pools.mha import MHATokenToKVPool
from kvcore.pools.mla import MLATokenToKVPool
from kvcore.pools.track_buffer import TrackPolicy
from kvcore.server_args import SpeculativeAlgorithm
from tests.kvcore.factories import make_server_args

PAGES = st.sampled_from([1, 4, 16, 64])


def test_the_budget_is_what_the_static_fraction_leaves():
    # 80 GiB, 30 GiB of weights, 85% static: 80 * 0.85 - 30 = 38 GiB
    budget = kv_budget_bytes(free_after_weights_gb=50, total_before_load_gb=80, mem_fraction_static=0.85)
    assert budget == pytest.approx(38 * 2**30, abs=1024)


def test_a_fraction_that_leaves_nothing_is_refused_with_the_smallest_that_would():
    with pytest.raises(ConfigurationError, match=r"leaves -2\.00 GiB .* set it above 0\.375"):
        kv_budget_bytes(free_after_weights_gb=50, total_before_load_gb=80, mem_fraction_static=0.35)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.uint8], ids=str)
def test_cells_are_what_pools_really_take(dtype):
    mha = MHATokenToKVPool(
        64, 4, dtype=dtype, head_num=2, head_dim=8, v_head_dim=6, layer_num=3, device="cpu"
    )
    assert mha_layer_bytes(2, 8, 6, dtype) * 3 * 68 == mha.bytes_used()
    mla = MLATokenToKVPool(64, 4, dtype=dtype, kv_lora_rank=8, qk_rope_head_dim=4, layer_num=3, device="cpu")
    assert mla_layer_bytes(8, 4, dtype) * 3 * 68 == mla.bytes_used()


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (SpeculativeAlgorithm.EAGLE, 133),
        (SpeculativeAlgorithm.DFLASH, 134),
        (SpeculativeAlgorithm.NGRAM, 100),
    ],
    ids=str,
)
def test_draft_layers_scale_the_cell(algorithm, expected):
    """100 * (3 + 1) / 3: chains round down, blocks round up, look-up has no layers."""
    assert with_draft_layers(100, 3, 1, algorithm) == expected


@given(
    budget=st.integers(1, 10**9),
    cell=st.integers(1, 10**5),
    page_size=PAGES,
    limit=st.none() | st.integers(1, 10**5),
)
def test_a_full_pool_fills_its_budget_to_a_page(budget, cell, page_size, limit):
    fits = budget // cell if limit is None else min(budget // cell, limit)
    if fits < page_size:
        with pytest.raises(NotEnoughMemory, match="not enough memory"):
            configure_full_pool(budget, cell, page_size, max_total_tokens=limit)
        return
    num_tokens = configure_full_pool(budget, cell, page_size, max_total_tokens=limit)
    assert num_tokens % page_size == 0
    assert fits - page_size < num_tokens <= fits


def test_ranks_agree_on_the_smallest():
    assert smallest_of_ranks([1000, 777, 900], 64) == 768


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({"num_tokens": 10**6, "context_len": 32768}, 4096),
        ({"num_tokens": 10**5, "context_len": 32768}, 2048),
        ({"num_tokens": 10**5, "context_len": 16384}, 3125),
        ({"num_tokens": 1000, "context_len": 4096}, 500),
        ({"num_tokens": 10**6, "context_len": 4096, "user_limit": 64, "dp_size": 4}, 16),
        ({"num_tokens": 10**6, "context_len": 4096, "num_states": 100, "states_per_request": 3}, 33),
    ],
)
def test_running_requests(kwargs, expected):
    assert max_running_requests(**kwargs) == expected


def test_a_pool_that_serves_no_request_is_refused():
    with pytest.raises(NotEnoughMemory, match="no request can run"):
        max_running_requests(10**6, 4096, num_states=2, states_per_request=3)


def test_a_request_fits_the_context_and_the_pool():
    assert max_req_len(1000, 4096) == 999
    assert max_req_len(10**6, 4096) == 4095
    assert clip_max_new_tokens(5000, 100, num_tokens=10**6, context_len=4096, page_size=16) == 3994
    assert (
        clip_max_new_tokens(5000, 100, num_tokens=1024, context_len=4096, page_size=16) == 1024 - 112 - 16 - 1
    )
    assert clip_max_new_tokens(7, 100, num_tokens=1024, context_len=4096, page_size=16) == 7


LAYERS = st.builds(
    SWALayers,
    num_full=st.integers(1, 8),
    num_swa=st.integers(1, 30),
    full_layer_bytes=st.integers(64, 4096),
    swa_layer_bytes=st.integers(64, 4096),
    num_draft_full=st.integers(0, 2),
    num_draft_swa=st.integers(0, 2),
)


@given(layers=LAYERS, ratio=st.floats(0.05, 1.0), page_size=PAGES, budget=st.integers(10**7, 10**9))
def test_both_pools_fill_their_budget_to_a_page(layers, ratio, page_size, budget):
    """Counting window layers whole would leave up to their share of the budget unused."""
    cell = layers.bytes_per_full_token + ratio * layers.bytes_per_window_token
    # Rounding takes up to a page from each pool, and the window pool has to keep more than a page.
    assume(int(budget / cell * ratio) > 3 * page_size + 2)
    full, swa = configure_swa_pools(budget, layers, page_size, sliding_window_size=1, full_tokens_ratio=ratio)
    used = full * layers.bytes_per_full_token + swa * layers.bytes_per_window_token
    slack = page_size * (layers.bytes_per_full_token + 2 * layers.bytes_per_window_token) + cell
    assert budget - slack <= used <= budget
    assert full % page_size == swa % page_size == 0
    assert swa == int(full * ratio) // page_size * page_size


def test_a_model_that_is_all_window_has_one_pool():
    layers = SWALayers(num_full=0, num_swa=10, full_layer_bytes=100, swa_layer_bytes=100)
    assert configure_swa_pools(10**6, layers, 4, sliding_window_size=64, full_tokens_ratio=0.5) == (0, 1000)


@pytest.mark.parametrize("ratio", [0.0, -1.0, 1.5])
def test_a_ratio_out_of_range_is_refused(ratio):
    layers = SWALayers(num_full=1, num_swa=1, full_layer_bytes=1, swa_layer_bytes=1)
    with pytest.raises(ConfigurationError, match="swa_full_tokens_ratio"):
        configure_swa_pools(10**6, layers, 4, sliding_window_size=8, full_tokens_ratio=ratio)


@pytest.mark.parametrize("num_full", [0, 2])
def test_a_window_pool_that_one_request_could_fill_is_refused(num_full):
    """One request holds a window and a page; nobody else could ever start."""
    layers = SWALayers(num_full=num_full, num_swa=2, full_layer_bytes=100, swa_layer_bytes=100)
    for window, fits in ((300, True), (496, False), (1000, False)):
        budget = 512 * layers.bytes_per_full_token + 512 * layers.bytes_per_window_token
        args = {"sliding_window_size": window, "full_tokens_ratio": 1.0}
        if fits:
            assert configure_swa_pools(budget, layers, 16, **args).swa == 512
        else:
            with pytest.raises(ConfigurationError, match="a window pool of 512 tokens cannot serve a window"):
                configure_swa_pools(budget, layers, 16, **args)


def test_a_user_limit_holds_for_both_pools():
    layers = SWALayers(num_full=1, num_swa=1, full_layer_bytes=10, swa_layer_bytes=10)
    sizes = configure_swa_pools(
        10**6, layers, 4, sliding_window_size=8, full_tokens_ratio=0.5, max_total_tokens=1001
    )
    assert sizes == (1000, 500)


@pytest.mark.parametrize(
    ("spec", "kwargs", "cap_kwargs", "expected"),
    [
        # (window 100 + interval 128 + page 16 + a page) * 8 requests, two chunks of 64, a page
        (None, {}, {}, 8 * 260 + 2 * 64 + 16),
        (None, {"disable_overlap_schedule": True}, {}, 8 * 260 + 64 + 16),
        # drafts: interval * 4, and the reserve of 8
        ("eagle", {}, {}, 8 * (100 + 512 + 16 + 8) + 2 * 64 + 16),
        # without overlap one step's tokens, in whole pages
        ("eagle", {"disable_overlap_schedule": True}, {}, 8 * (100 + 512 + 16 + 16) + 64 + 16),
        # on the decode side no chunks, but windows of what arrives
        (None, {}, {"decode_extra_slots": 3}, 8 * 260 + 3 * 116),
    ],
)
def test_the_most_that_can_be_live_in_a_window_pool(spec, kwargs, cap_kwargs, expected):
    args = make_server_args(spec, page_size=16, **kwargs)
    cap = WindowCap(8, 100, 128, 64, **cap_kwargs)
    assert window_cap(cap, args) == math.ceil(expected / 16) * 16


def test_a_capped_window_pool_leaves_the_rest_to_the_full_one():
    layers = SWALayers(num_full=2, num_swa=4, full_layer_bytes=100, swa_layer_bytes=50)
    sizes = configure_capped_swa_pools(10**6, layers, 16, swa_tokens=1600)
    assert sizes.swa == 1600
    assert sizes.full == (10**6 - 1600 * 200) // 200 // 16 * 16
    limited = configure_capped_swa_pools(10**6, layers, 16, swa_tokens=1600, max_total_tokens=1000)
    assert limited == (992, 992)
    with pytest.raises(NotEnoughMemory):
        configure_capped_swa_pools(10**5, layers, 16, swa_tokens=1600)


@pytest.mark.parametrize(
    ("track", "radix", "expected"),
    [
        (TrackPolicy(), False, 1),
        (TrackPolicy(), True, 3),
        (TrackPolicy(num_slots=1), True, 4),
        (TrackPolicy(num_slots=2), True, 5),
        (TrackPolicy(num_slots=2, lazy=True), True, 4),
    ],
)
def test_states_of_a_request(track, radix, expected):
    assert states_per_request(radix_cache=radix, track=track) == expected


def test_states_take_their_share_and_leave_the_rest():
    sizes = configure_mamba_pool(1_900_000, 1000, per_request=3, radix_cache=True)
    assert sizes == (900, 1_000_000)


def test_draft_states_come_out_of_the_same_share():
    sizes = configure_mamba_pool(1_900_000, 1000, per_request=3, radix_cache=True, num_draft_tokens=6)
    assert sizes.num_states == 300
    assert sizes.kv_budget_bytes == 1_900_000 - 1000 * (300 + 100 * 6)


def test_users_fix_the_number_of_states():
    fixed = configure_mamba_pool(
        10**6, 1000, per_request=3, radix_cache=True, max_mamba_cache_size=64, dp_size=2
    )
    assert fixed.num_states == 32
    without_cache = configure_mamba_pool(
        10**6, 1000, per_request=1, radix_cache=False, max_running_requests=48
    )
    assert without_cache == (48, 10**6 - 48_000)


@pytest.mark.parametrize(
    "kwargs", [{"max_mamba_cache_size": 0}, {"max_mamba_cache_size": 5000}, {"ratio": 0.0}]
)
def test_no_states_or_nothing_beside_them_is_refused(kwargs):
    with pytest.raises(NotEnoughMemory, match="states of 1000 bytes leave"):
        configure_mamba_pool(10**6, 1000, per_request=3, radix_cache=True, **kwargs)


def test_a_context_parallel_group_holds_the_tokens_of_all_its_ranks():
    assert configure_full_pool(10**5, 100, 16, dcp_size=4) == 4 * 992
