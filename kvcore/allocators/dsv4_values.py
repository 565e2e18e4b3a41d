"""Values of the allocator for compressed attention: sizes, locations of a step, a copy of the pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

    from kvcore.allocators.dsv4_pages import CompressedPagesState
    from kvcore.allocators.dsv4_states import StatePoolState
    from kvcore.allocators.swa import SWAState


class DSV4PoolSizes(NamedTuple):
    """Entries of each pool; full, swa and the states in pages of P, c4 of P/4, c128 of P/128."""

    full: int
    swa: int
    c4: int
    c128: int
    c4_state: int
    c128_state: int


class DSV4OutCacheLoc(NamedTuple):
    """Where the new tokens of a step go, int64 each, requests concatenated."""

    full: torch.Tensor
    """[new tokens], what the rows hold."""
    swa: torch.Tensor
    """[new tokens], window slots."""
    c4: torch.Tensor
    """[entries that become complete], ratio 4."""
    c128: torch.Tensor
    """[entries that become complete], ratio 128."""
    c4_state: torch.Tensor
    c128_state: torch.Tensor


class DSV4State(NamedTuple):
    """A copy of all six pools, as ``backup_state`` took it."""

    kv: SWAState
    compressed: tuple[CompressedPagesState, ...]
    states: tuple[StatePoolState, ...]
