"""What becomes of a request's slots when they are merged into a tree with tombstones.

Where the tree has nothing, it takes the slots. Where it has a live node, they are duplicates. Where it has a
tombstone, it takes their window slots and keeps its own full slots: rows of running requests may still show
those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from kvcore.allocators.swa import SWAAllocator


class SlotLedger:
    """Collects runs of full slots (int64, whole pages) by what is to happen to them, then does it in one go.

    The number of device operations does not depend on the number of runs.
    """

    __slots__ = ("_adopters", "_bare", "_donors", "_mapped", "_window_only")

    def __init__(self) -> None:
        self._mapped: list[torch.Tensor] = []
        self._bare: list[torch.Tensor] = []
        self._window_only: list[torch.Tensor] = []
        self._donors: list[torch.Tensor] = []
        self._adopters: list[torch.Tensor] = []

    def free(self, slots: torch.Tensor, *, mapped: bool) -> None:
        """Free full slots, and their window slots if they are ``mapped``."""
        (self._mapped if mapped else self._bare).append(slots)

    def free_window(self, slots: torch.Tensor) -> None:
        """Free the window slots of mapped ``slots``, and keep these."""
        self._window_only.append(slots)

    def hand_over(self, donors: torch.Tensor, adopters: torch.Tensor) -> None:
        """Let ``adopters`` lead to the window slots of ``donors``, and free these without them."""
        self._donors.append(donors)
        self._adopters.append(adopters)

    def settle(self, allocator: SWAAllocator) -> None:
        """Do all of it."""
        if self._donors:
            donors = torch.cat(self._donors)
            window_slots = allocator.translate_loc_from_full_to_swa(donors)
            allocator.set_full_to_swa_mapping(torch.cat(self._adopters), window_slots)
            allocator.set_full_to_swa_mapping(donors, torch.zeros_like(donors))
            self._bare.append(donors)
        if self._window_only:
            allocator.free_swa_segment(torch.cat(self._window_only))
        if self._bare or self._mapped:
            num_bare = sum(slots.shape[0] for slots in self._bare)
            allocator.free_segment(torch.cat(self._bare + self._mapped), swa_evicted=num_bare)
