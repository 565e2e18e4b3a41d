"""From a memory budget to the sizes of pools. Host arithmetic only: bytes in, tokens and states out."""

from __future__ import annotations

from kvcore.pool_configurator.budget import kv_budget_bytes
from kvcore.pool_configurator.cell_size import mha_layer_bytes, mla_layer_bytes, with_draft_layers
from kvcore.pool_configurator.dsv4 import DSV4Layers, configure_dsv4_pools
from kvcore.pool_configurator.full import configure_full_pool, smallest_of_ranks
from kvcore.pool_configurator.limits import clip_max_new_tokens, max_req_len, max_running_requests
from kvcore.pool_configurator.mamba import MambaPoolSize, configure_mamba_pool, states_per_request
from kvcore.pool_configurator.swa import (
    SWALayers,
    SWAPoolSizes,
    WindowCap,
    configure_capped_swa_pools,
    configure_swa_pools,
    window_cap,
)

__all__ = [
    "DSV4Layers",
    "MambaPoolSize",
    "SWALayers",
    "SWAPoolSizes",
    "WindowCap",
    "clip_max_new_tokens",
    "configure_capped_swa_pools",
    "configure_dsv4_pools",
    "configure_full_pool",
    "configure_mamba_pool",
    "configure_swa_pools",
    "kv_budget_bytes",
    "max_req_len",
    "max_running_requests",
    "mha_layer_bytes",
    "mla_layer_bytes",
    "smallest_of_ranks",
    "states_per_request",
    "window_cap",
    "with_draft_layers",
]
