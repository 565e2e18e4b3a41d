"""The allocator for whole pages: requests own pages, tokens fill them in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kvcore import kernels
from kvcore.allocators.free_list_allocator import FreeListAllocator
from kvcore.allocators.page_count import decode_page_openers, num_extend_pages
from kvcore.errors import InvariantViolation, PageAlignmentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class PagedAllocator(FreeListAllocator):
    """Hands out pages ``1..size // page_size``, slots ``page_size..size + page_size - 1``.

    A request's slots are page regular: token ``j`` sits at offset ``j % page_size`` of one of its pages. So
    the rest of its last page is used up before a new page is taken, and freeing a token frees the page
    around it.
    """

    def __init__(
        self, size: int, page_size: int, *, device: torch.device | str, need_sort: bool = False
    ) -> None:
        super().__init__(size, page_size, device=device, need_sort=need_sort)
        self._offsets = torch.arange(page_size, device=self.device)

    def alloc(self, num_slots: int) -> torch.Tensor | None:
        """Take ``num_slots`` slots (whole pages), page-major; ``None`` with nothing changed when short.

        Raises PageAlignmentError when ``num_slots`` is not a multiple of the page size.
        """
        num_pages, rest = divmod(num_slots, self.page_size)
        if rest:
            raise PageAlignmentError(
                f"alloc hands out whole pages, found {num_slots} slots at page_size {self.page_size}; "
                "use alloc_extend for a part of a page"
            )
        pages = self.take_pages(num_pages)
        if pages is None:
            return None
        return (pages[:, None] * self.page_size + self._offsets).view(-1)

    def take_pages(self, num_pages: int) -> torch.Tensor | None:
        """Take page ids, int64 [num_pages]; ``None`` with nothing changed when there are too few."""
        if self.need_sort and num_pages > len(self._free):
            self._merge_released(num_pages)
        if num_pages > len(self._free):
            return None
        return self._free.take(num_pages)

    def alloc_extend(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
        *,
        num_new_pages: int | None = None,
    ) -> torch.Tensor | None:
        """Take the slots that grow request ``i`` from ``prefix_lens[i]`` to ``seq_lens[i]`` tokens.

        ``num_new_pages`` is ``num_extend_pages`` of the host lengths, for callers that have counted already.
        """
        if num_new_pages is None:
            num_new_pages = num_extend_pages(prefix_lens_cpu, seq_lens_cpu, self.page_size)
        if self.need_sort and num_new_pages > len(self._free):
            self._merge_released(num_new_pages)
        if num_new_pages > len(self._free):
            return None
        slots = kernels.alloc_extend(
            prefix_lens,
            prefix_lens_cpu,
            seq_lens,
            seq_lens_cpu,
            last_loc,
            self._free.peek(num_new_pages),
            page_size=self.page_size,
            extend_num_tokens=extend_num_tokens,
        )
        self._free.drop(num_new_pages)
        return slots

    def alloc_decode(
        self,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        *,
        page_openers: NDArray[np.int64] | None = None,
    ) -> torch.Tensor | None:
        """Take one slot per request: the next of its last page, or the first of a new page.

        ``page_openers`` is ``decode_page_openers`` of the host lengths, for callers that have it already.
        """
        if page_openers is None:
            page_openers = decode_page_openers(seq_lens_cpu, self.page_size)
        num_new_pages = len(page_openers)
        if self.need_sort and num_new_pages > len(self._free):
            self._merge_released(num_new_pages)
        if num_new_pages > len(self._free):
            return None
        slots = kernels.alloc_decode(
            seq_lens, last_loc, page_openers, self._free.peek(num_new_pages), page_size=self.page_size
        )
        self._free.drop(num_new_pages)
        return slots

    def free(self, slots: torch.Tensor) -> None:
        """Give back every page that ``slots`` (int [n], any order) touch; the slow form, may synchronise."""
        if slots.shape[0] == 0:
            return
        pages = slots // self.page_size
        pages = torch.unique(pages)
        # Padded lanes point into the reserved page, which is never handed out.
        pages = pages[pages > 0]
        self._require_known(pages)
        self._put_back(pages)

    def free_segment(self, slots: torch.Tensor) -> None:
        """Give back a page-regular run; see the base class."""
        if slots.shape[0] == 0:
            return
        self._put_back(slots[:: self.page_size] // self.page_size)

    def free_page_list(self, pages: Sequence[int] | torch.Tensor) -> None:
        """Give back pages by id; a tensor (int [n]) is taken over, the caller must not change it."""
        if not isinstance(pages, torch.Tensor):
            pages = torch.tensor(pages, dtype=torch.int64, device=self.device)
        self._put_back(pages)

    def _require_known(self, pages: torch.Tensor) -> None:
        foreign = pages[pages > self.num_pages]
        if foreign.shape[0]:
            raise InvariantViolation(
                f"free of pages {foreign.tolist()[:6]}, but the pool has pages 1 to {self.num_pages}: "
                "these slots belong to another pool; nothing was freed"
            )
