"""The allocator for models in which every layer has a sliding window: one pool in both roles."""

from __future__ import annotations

import torch

from kvcore.allocators.token import TokenAllocator


class PureSWAAllocator(TokenAllocator):
    """Single slots ``1..size``; a slot that left the window is given back for good.

    The mapping from full to window slots is the identity. After ``free_swa`` a row still shows the slot, so
    ranges are freed around what has been evicted (``swa_evicted``).
    """

    def __init__(self, size: int, *, device: torch.device | str, need_sort: bool = False) -> None:
        super().__init__(size, device=device, need_sort=need_sort)
        self.size_full = size
        self.size_swa = size
        self.full_to_swa_index_mapping = torch.arange(size + 2, device=self.device)
        """int64 [size + 2], the identity; the last entry is -1."""
        self.full_to_swa_index_mapping[-1:].fill_(-1)

    def full_available_size(self) -> int:
        """Free slots; the same pool as the window's."""
        return self.available_size()

    def swa_available_size(self) -> int:
        """Free slots; the same pool as the full one."""
        return self.available_size()

    def translate_loc_from_full_to_swa(self, slots: torch.Tensor) -> torch.Tensor:
        """The slots themselves, int64; -1 stays -1."""
        return self.full_to_swa_index_mapping[slots]

    def free(self, slots: torch.Tensor) -> None:
        """Give back slots (int [n]) but 0 and -1, which mark tokens that were evicted; may synchronise."""
        slots = slots[slots > 0]
        super().free(slots)

    def free_swa(self, slots: torch.Tensor) -> None:
        """The same as ``free``: there is no other pool in which the tokens could stay."""
        self.free(slots)

    def free_segment(self, slots: torch.Tensor, *, swa_evicted: int = 0) -> None:
        """Give back a run but its first ``swa_evicted`` slots, which are free already; no synchronisation."""
        super().free(slots[swa_evicted:])

    def free_swa_segment(self, slots: torch.Tensor) -> None:
        """Give back slots that left the window; synchronises nothing."""
        super().free(slots)
