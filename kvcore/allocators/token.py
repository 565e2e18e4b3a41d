"""The allocator for page size 1: every slot is its own page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.allocators.free_list_allocator import FreeListAllocator

if TYPE_CHECKING:
    import torch


class TokenAllocator(FreeListAllocator):
    """Hands out single slots ``1..size``.

    ``free`` looks at no value, which would wait for the device: a slot freed twice is handed out twice, and
    so is slot 0 of a padded lane. The invariant checker finds it, and a free list that would hold more slots
    than the pool has refuses them.
    """

    def __init__(self, size: int, *, device: torch.device | str, need_sort: bool = False) -> None:
        super().__init__(size, 1, device=device, need_sort=need_sort)

    def alloc(self, num_slots: int) -> torch.Tensor | None:
        """Take ``num_slots`` slots; int64 [num_slots], or ``None`` with nothing changed."""
        if self.need_sort and num_slots > len(self._free):
            self._merge_released(num_slots)
        if num_slots > len(self._free):
            return None
        return self._free.take(num_slots)

    def alloc_extend(
        self,
        prefix_lens: torch.Tensor,  # noqa: ARG002  (a slot needs no neighbour at page size 1)
        prefix_lens_cpu: torch.Tensor,  # noqa: ARG002
        seq_lens: torch.Tensor,  # noqa: ARG002
        seq_lens_cpu: torch.Tensor,  # noqa: ARG002
        last_loc: torch.Tensor,  # noqa: ARG002
        extend_num_tokens: int,
    ) -> torch.Tensor | None:
        """Take ``extend_num_tokens`` slots; at page size 1 any slot follows any other."""
        return self.alloc(extend_num_tokens)

    def alloc_decode(
        self,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,  # noqa: ARG002
        last_loc: torch.Tensor,  # noqa: ARG002
    ) -> torch.Tensor | None:
        """Take one slot per request."""
        return self.alloc(seq_lens.shape[0])

    def free(self, slots: torch.Tensor) -> None:
        """Give back slots (int [n]); fast, and therefore without a look for duplicates."""
        if self._group_open:
            # The caller may overwrite the row that it passes a view of before the group ends.
            slots = slots.clone()
        self._put_back(slots)

    def free_segment(self, slots: torch.Tensor) -> None:
        """Give back slots (int [n]); the same as ``free`` at page size 1."""
        self.free(slots)
