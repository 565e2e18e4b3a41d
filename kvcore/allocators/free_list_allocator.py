"""What allocators over one pool share: the free list, the released pages, the free group, snapshots.

alloc* <- free list <- (merge, in order) <- released pages      need_sort
alloc* <- free list <------------------------ free*             otherwise
                       group, until its end <- free*            inside a free group
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kvcore.allocators.base import TokenToKVPoolAllocator
from kvcore.allocators.free_list import FreeList
from kvcore.errors import ConfigurationError, FreeGroupError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class PoolState:
    """A copy of what one pool has free, as ``backup_state`` took it; nothing touches it later."""

    free_pages: torch.Tensor
    """int64, page ids in the order in which they are handed out."""
    release_pages: torch.Tensor
    """int64, page ids that wait for a merge."""
    queued: tuple[torch.Tensor, ...]
    """int64 each, page ids that the open group has collected."""
    group_open: bool


class FreeListAllocator(TokenToKVPoolAllocator):
    """One pool of ``size // page_size`` pages, of which some are free."""

    def __init__(
        self, size: int, page_size: int, *, device: torch.device | str, need_sort: bool = False
    ) -> None:
        if page_size < 1 or size < 0 or size % page_size:
            raise ConfigurationError(
                f"a pool holds whole pages, found size {size} and page_size {page_size}; "
                "round the size down to a multiple of the page size"
            )
        self.size = size
        self.page_size = page_size
        self.num_pages = size // page_size
        self.device = torch.device(device)
        self.need_sort = need_sort
        self._free = FreeList(self.num_pages, self.device)
        self._released = FreeList(self.num_pages if need_sort else 0, self.device, full=False)
        self._group_open = False
        self._queued: list[torch.Tensor] = []

    def available_size(self) -> int:
        """Free slots, counting whole pages: the free list and what waits for a merge."""
        return (len(self._free) + len(self._released)) * self.page_size

    @property
    def free_group_open(self) -> bool:
        """Whether a free group collects what is freed."""
        return self._group_open

    def free_group_begin(self) -> None:
        """Collect what is freed until ``free_group_end``; raises FreeGroupError when a group is open."""
        if self._group_open:
            raise FreeGroupError(
                f"a free group is open already, with {len(self._queued)} frees in it; groups do not nest: "
                "end the first one before beginning the next"
            )
        self._group_open = True

    def free_group_end(self) -> None:
        """Free what the group collected, once; a no-op when no group is open."""
        if not self._group_open:
            return
        queued, self._queued = self._queued, []
        self._group_open = False
        if queued:
            self._put_back(torch.cat(queued))

    def clear(self) -> None:
        """Forget all allocations and any open group: every slot is free again, in ascending order."""
        self._free.fill()
        self._released.clear()
        self._group_open = False
        self._queued = []

    def backup_state(self) -> PoolState:
        """A copy of what is free, to go back to. Costs what the pool holds."""
        return PoolState(
            self._free.to_tensor(), self._released.to_tensor(), tuple(self._queued), self._group_open
        )

    def restore_state(self, state: PoolState) -> None:
        """Make exactly that free which was free when ``state`` was taken; ``state`` stays usable."""
        self._free.assign(state.free_pages)
        self._released.assign(state.release_pages)
        self._queued = list(state.queued)
        self._group_open = state.group_open

    @property
    def free_pages(self) -> torch.Tensor:
        """int64 page ids in the order in which they are handed out; a copy, for inspection."""
        return self._free.to_tensor()

    @property
    def release_pages(self) -> torch.Tensor:
        """int64 page ids that wait for a merge (``need_sort``); a copy, for inspection."""
        return self._released.to_tensor()

    def free_page_ids(self) -> torch.Tensor:
        """int64 page ids: free list, release list and open group; one freed twice shows twice."""
        return torch.cat((self.free_pages, self.release_pages, *self._queued))

    def set_free_pages(self, pages: Sequence[int]) -> None:
        """Make ``pages`` the free list, in this order, and nothing else free; for tests and warm starts."""
        self.clear()
        self._free.assign(torch.tensor(pages, dtype=torch.int64, device=self.device))

    def _put_back(self, pages: torch.Tensor) -> None:
        """Give pages (int [n], no view of what may change) to the group, the release or the free list."""
        if self._group_open:
            self._queued.append(pages)
        elif self.need_sort:
            self._released.push(pages)
        else:
            self._free.push(pages)

    def _merge_released(self, num_pages: int) -> None:
        """Append the released pages to the free list in ascending order; sorts only them.

        Changes nothing where ``num_pages`` could not be taken even then.
        """
        if num_pages > len(self._free) + len(self._released):
            return
        released = self._released.take(len(self._released))
        self._free.push(released.sort().values)
