"""The number of recurrent states, and what they leave of the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvcore.errors import NotEnoughMemory

if TYPE_CHECKING:
    from kvcore.pools.track_buffer import TrackPolicy

_DEFAULT_RATIO = 0.9
_STATES_WITH_RADIX = 3
"""A request's own, one that it shares with the tree, and one that the tree may keep for others."""


class MambaPoolSize(NamedTuple):
    """States to make, and bytes left for keys and values."""

    num_states: int
    kv_budget_bytes: int


def states_per_request(*, radix_cache: bool, track: TrackPolicy) -> int:
    """States that the pool needs for each running request."""
    if not radix_cache:
        return 1
    return _STATES_WITH_RADIX + track.num_initial


def configure_mamba_pool(
    budget_bytes: int,
    state_bytes: int,
    *,
    per_request: int,
    radix_cache: bool,
    ratio: float = _DEFAULT_RATIO,
    max_mamba_cache_size: int | None = None,
    max_running_requests: int | None = None,
    num_draft_tokens: int = 0,
    dp_size: int = 1,
) -> MambaPoolSize:
    """States for ``ratio`` bytes to one byte of keys and values; or as many as the user says.

    ``state_bytes`` is one state in all layers, ``per_request`` what ``states_per_request`` says. Without a
    prefix cache a limit on requests fixes the number. With speculation every request also keeps a state per
    draft token, which come out of the same share. Raises NotEnoughMemory when no state, or nothing beside the
    states, fits.
    """
    share = budget_bytes * ratio / (1 + ratio)
    if max_mamba_cache_size is not None:
        num_states = max_mamba_cache_size // dp_size
    elif not radix_cache and max_running_requests is not None:
        num_states = max_running_requests // dp_size
    else:
        num_states = int(share // (state_bytes * (1 + num_draft_tokens / per_request)))
    num_requests = num_states // per_request
    if max_running_requests is not None:
        num_requests = min(num_requests, max_running_requests // dp_size)
    rest = budget_bytes - state_bytes * (num_states + num_requests * num_draft_tokens)
    if num_states <= 0 or rest <= 0:
        raise NotEnoughMemory(
            f"not enough memory: {num_states} states of {state_bytes} bytes leave {rest} of {budget_bytes} "
            "bytes for keys and values; raise mem_fraction_static, or ask for fewer states"
        )
    return MambaPoolSize(num_states, rest)
