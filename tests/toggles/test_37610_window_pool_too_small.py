"""Guard of 37610: a window pool in which one request would wait for itself is not built."""

from __future__ import annotations

import pytest

from kvcore.errors import ConfigurationError
from kvcore.pool_configurator.swa import SWALayers, configure_swa_pools

LAYERS = SWALayers(num_full=1, num_swa=1, full_layer_bytes=10, swa_layer_bytes=10)


def test_a_pool_of_a_window_and_a_page_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="a window pool of 80 tokens cannot serve a window of 64"):
        configure_swa_pools(1600, LAYERS, 16, sliding_window_size=64, full_tokens_ratio=1.0)


def test_a_pool_of_one_page_more_is_built() -> None:
    sizes = configure_swa_pools(1920, LAYERS, 16, sliding_window_size=64, full_tokens_ratio=1.0)
    assert sizes == (96, 96)
