"""The compressed KV entries of one ratio, in pages that follow the full pool's pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from kvcore.allocators.paged import PagedAllocator
from kvcore.errors import OutOfSlots

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvcore.allocators.free_list_allocator import PoolState


class CompressedPagesState(NamedTuple):
    """A copy of the pages of one ratio, as ``backup_state`` took it."""

    pool: PoolState
    page_of: torch.Tensor


class CompressedPages:
    """The KV entries of one ratio: a pool of pages, and which page belongs to which full page."""

    def __init__(
        self,
        ratio: int,
        size: int,
        page_size: int,
        *,
        num_full_pages: int,
        device: torch.device,
        need_sort: bool,
    ) -> None:
        self.ratio = ratio
        self.allocator = PagedAllocator(size, page_size // ratio, device=device, need_sort=need_sort)
        self._full_page_size = page_size
        self.page_of = torch.zeros(num_full_pages + 1, dtype=torch.int64, device=device)
        """int64 [num_full_pages + 1], compressed page of a full page; 0 where the full page is free."""

    def available_tokens(self) -> int:
        """Tokens for which there are free compressed pages."""
        return self.allocator.available_size() * self.ratio

    def check_room(self, num_tokens: int) -> None:
        """Raise OutOfSlots unless the entries of ``num_tokens`` tokens, whole pages, are free."""
        if num_tokens > self.available_tokens():
            raise OutOfSlots(
                f"DSV4 c{self.ratio} kv pool exhausted: {num_tokens // self.ratio} entries needed, "
                f"{self.allocator.available_size()} free; evict prefixes or enlarge the pool"
            )

    def bind(self, full_pages: torch.Tensor) -> None:
        """Take one compressed page for each new full page (int64 [n])."""
        pages = self.allocator.take_pages(full_pages.shape[0])
        assert pages is not None, f"the c{self.ratio} pool ran short after it was counted"
        self.page_of.scatter_(0, full_pages, pages)

    def free(self, full_pages: torch.Tensor) -> None:
        """Give back the compressed pages of full pages (int64 [n]) that are bound."""
        self.allocator.free_page_list(self.page_of[full_pages])
        self.page_of.index_fill_(0, full_pages, 0)

    def clear(self) -> None:
        """Forget all pages and bindings."""
        self.allocator.clear()
        self.page_of.zero_()

    def backup_state(self) -> CompressedPagesState:
        """A copy, to go back to."""
        return CompressedPagesState(self.allocator.backup_state(), self.page_of.clone())

    def restore_state(self, state: CompressedPagesState) -> None:
        """Go back to ``state``, which stays usable."""
        self.allocator.restore_state(state.pool)
        self.page_of.copy_(state.page_of)

    def completed_by(self, prefix_lens_cpu: torch.Tensor, seq_lens_cpu: torch.Tensor) -> NDArray[np.int64]:
        """Output indices of the new tokens with which an entry becomes complete."""
        return new_token_indices(prefix_lens_cpu, seq_lens_cpu, self.ratio, self.ratio - 1)

    def entries(self, full_slots: torch.Tensor) -> torch.Tensor:
        """Entries that the tokens at ``full_slots`` (int64 [n]) are compressed into; int64 [n]."""
        size = self._full_page_size
        return self.page_of[full_slots // size] * (size // self.ratio) + full_slots % size // self.ratio


def new_token_indices(
    prefix_lens_cpu: torch.Tensor, seq_lens_cpu: torch.Tensor, period: int, phase: int
) -> NDArray[np.int64]:
    """Output indices of the new tokens whose position in their sequence is ``phase`` modulo ``period``."""
    prefix, seq = prefix_lens_cpu.numpy().astype(np.int64), seq_lens_cpu.numpy().astype(np.int64)
    extend = seq - prefix
    positions = np.arange(int(extend.sum())) + (prefix - extend.cumsum() + extend).repeat(extend)
    indices: NDArray[np.int64] = (positions % period == phase).nonzero()[0]
    return indices
