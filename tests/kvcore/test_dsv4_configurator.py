"""The six pools of compressed attention from bytes: within the budget, close to it, and what the allocator takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from kvcore.allocators.dsv4 import DSV4Allocator
from kvcore.allocators.dsv4_values import DSV4PoolSizes
from kvcore.errors import ConfigurationError, NotEnoughMemory
from kvcore.pool_configurator import DSV4Layers, configure_dsv4_pools

LAYERS = DSV4Layers(
    num_layers=4,
    num_c4=2,
    num_c128=1,
    nope_dim=448,
    rope_dim=64,
    index_dim=128,
    state_dtype=torch.float32,
)
ARGS = {"sliding_window_size": 128, "full_tokens_ratio": 0.25, "max_running_requests": 8}


def test_bytes_of_entries_and_states_in_numbers():
    assert (LAYERS.kv_entry_bytes, LAYERS.index_entry_bytes) == (448 + 128 + 8, 128 + 4)
    assert LAYERS.bytes_per_window_token == 4 * 584
    # Two layers with an entry and an index in 4 tokens, one with an entry in 128: 362.6 bytes.
    assert LAYERS.bytes_per_token == 363
    assert LAYERS.c4_state_bytes == 2 * 2 * (448 + 64 + 128) * 4 * 2
    assert LAYERS.c128_state_bytes == 2 * (448 + 64) * 4


def test_a_draft_layer_adds_its_share():
    drafting = replace(LAYERS, num_draft_layers=1)
    assert drafting.bytes_per_window_token == 5 * 584
    assert drafting.bytes_per_token == 454  # 362.5625 * 5 / 4 = 453.2
    assert drafting.c4_state_bytes == LAYERS.c4_state_bytes


def test_sizes_in_numbers():
    states = 3072 * LAYERS.c4_state_bytes + 3072 * LAYERS.c128_state_bytes
    budget = states + 12_800 * 363 + 3_200 * 4 * 584

    assert configure_dsv4_pools(budget, LAYERS, 128, **ARGS) == DSV4PoolSizes(
        full=12_800, swa=3_200, c4=3_200, c128=100, c4_state=3_072, c128_state=3_072
    )
    assert configure_dsv4_pools(budget - 1, LAYERS, 128, **ARGS).full == 12_800 - 128
    assert configure_dsv4_pools(budget, LAYERS, 128, **ARGS, max_total_tokens=6_500).full == 6_400


@given(
    ratio=st.floats(0.05, 1.0),
    page_size=st.sampled_from([128, 256]),
    budget=st.integers(2 * 10**8, 10**9),
    requests=st.integers(1, 12),
)
def test_the_budget_is_filled_to_a_page_and_the_allocator_takes_the_sizes(ratio, page_size, budget, requests):
    args = {"sliding_window_size": 1, "full_tokens_ratio": ratio, "max_running_requests": requests}
    full_bytes, window_bytes = LAYERS.bytes_per_token, LAYERS.bytes_per_window_token
    cell = full_bytes + ratio * window_bytes
    # Twelve requests have states of 151 MB at page size 256.
    assume(ratio * (budget - 160 * 10**6) / cell > 2 * page_size + 2)
    sizes = configure_dsv4_pools(budget, LAYERS, page_size, **args)

    states = sizes.c4_state * LAYERS.c4_state_bytes + sizes.c128_state * LAYERS.c128_state_bytes
    used = states + sizes.full * full_bytes + sizes.swa * window_bytes
    assert budget - page_size * (full_bytes + 2 * window_bytes) - cell <= used <= budget
    allocator = DSV4Allocator(sizes, page_size, num_rows=requests + 1, device="cpu")
    assert allocator.full_available_size() == sizes.full
    assert allocator.available_size() == min(sizes.full, sizes.swa)


def test_states_that_leave_nothing_are_refused():
    with pytest.raises(
        NotEnoughMemory, match="the compress states of 8 requests take 75497472 of 75497472 bytes"
    ):
        configure_dsv4_pools(75_497_472, LAYERS, 128, **ARGS)


def test_a_budget_without_a_page_is_refused():
    with pytest.raises(NotEnoughMemory, match="not one page of 128"):
        configure_dsv4_pools(75_497_472 + 1000, LAYERS, 128, **ARGS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"page_size": 64}, "pages of a multiple of 128"),
        ({"full_tokens_ratio": 0.0}, "swa_full_tokens_ratio"),
        ({"sliding_window_size": 4096}, "cannot serve a window of 4096"),
    ],
)
def test_settings_that_cannot_be_are_refused(changed, message):
    with pytest.raises(ConfigurationError, match=message):
        configure_dsv4_pools(91_000_000, LAYERS, **{"page_size": 128, **ARGS, **changed})
