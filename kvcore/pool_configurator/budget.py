"""How many bytes the KV pools may have."""

from __future__ import annotations

from kvcore.errors import ConfigurationError

_GIB = 1 << 30


def kv_budget_bytes(
    *, free_after_weights_gb: float, total_before_load_gb: float, mem_fraction_static: float
) -> int:
    """What is left of the static fraction of the memory once the weights are in it; sizes in GiB.

    ``total_before_load_gb`` was free before the weights were loaded; ``1 - mem_fraction_static`` of it stays
    free for activations. Raises ConfigurationError, naming the smallest fraction that would do, when nothing
    is left.
    """
    rest = free_after_weights_gb - total_before_load_gb * (1 - mem_fraction_static)
    if rest <= 0:
        smallest = 1 - free_after_weights_gb / total_before_load_gb
        raise ConfigurationError(
            f"mem_fraction_static {mem_fraction_static} leaves {rest:.2f} GiB for the KV cache, the weights "
            f"take {total_before_load_gb - free_after_weights_gb:.2f} of {total_before_load_gb:.2f} GiB; "
            f"set it above {smallest:.3f}"
        )
    return int(rest * _GIB)
