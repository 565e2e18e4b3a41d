"""Guard of 18039: full and window pool together use the budget up to a few pages."""

from __future__ import annotations

import pytest

from kvcore.pool_configurator.swa import SWALayers, configure_swa_pools


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("page_size", [1, 64])
def test_both_pools_fill_the_budget(ratio: float, page_size: int) -> None:
    layers = SWALayers(num_full=4, num_swa=20, full_layer_bytes=1024, swa_layer_bytes=512)
    budget = 64 << 20
    sizes = configure_swa_pools(budget, layers, page_size, sliding_window_size=128, full_tokens_ratio=ratio)
    used = sizes.full * layers.bytes_per_full_token + sizes.swa * layers.bytes_per_window_token
    cell = layers.bytes_per_full_token + ratio * layers.bytes_per_window_token
    slack = page_size * (cell + layers.bytes_per_window_token) + cell
    assert used <= budget
    assert budget - used <= slack, f"{budget - used} of {budget} bytes are left unused"
