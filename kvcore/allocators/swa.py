"""The allocator for hybrid sliding-window models: two pools behind one set of slots.

A request's row holds slots of the full pool. A mapping leads from there to slots of the window pool, that
layers with a sliding window use; tokens that left the window have given their window slots back:

    row            |-- swa_evicted --|-- still in the window --|
    full pool      |  slots          |  slots                  |
    mapping        |  0              |  window slots           |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kvcore.allocators.base import Shortfall, TokenToKVPoolAllocator, ran_short
from kvcore.allocators.page_count import decode_page_openers, num_extend_pages, require_page_tail
from kvcore.allocators.paged import PagedAllocator
from kvcore.errors import PageAlignmentError
from kvcore.page_math import ceil_div

if TYPE_CHECKING:
    from kvcore.allocators.free_list_allocator import PoolState


@dataclass(frozen=True, slots=True)
class SWAState:
    """A copy of what both pools have free and of the mapping, as ``backup_state`` took it."""

    full: PoolState
    swa: PoolState
    mapping: torch.Tensor


class SWAAllocator(TokenToKVPoolAllocator):
    """``size`` slots for full-attention layers and ``size_swa`` for window layers, in pages of one size.

    Both pools grow together and every call is atomic over them. A full slot and its window slot have the same
    offset in their pages, so the window pages of a run are found at every ``page_size``-th slot.
    """

    def __init__(
        self,
        size: int,
        size_swa: int,
        page_size: int,
        *,
        device: torch.device | str,
        need_sort: bool = False,
    ) -> None:
        self.size = min(size, size_swa)
        self.size_full = size
        self.size_swa = size_swa
        self.page_size = page_size
        self.device = torch.device(device)
        self.need_sort = need_sort
        self.full_attn_allocator = PagedAllocator(size, page_size, device=device, need_sort=need_sort)
        self.swa_attn_allocator = PagedAllocator(size_swa, page_size, device=device, need_sort=need_sort)
        num_full_slots = size + page_size
        self.full_to_swa_index_mapping = torch.zeros(
            num_full_slots + 1, dtype=torch.int64, device=self.device
        )
        """int64 [size + page_size + 1]; 0 where a full slot has no window slot. The last entry is -1, so that
        the last location of an empty prefix, -1, leads to -1."""
        self.full_to_swa_index_mapping[-1:].fill_(-1)
        self._mapping_by_page = self.full_to_swa_index_mapping[:num_full_slots].view(-1, page_size)
        self._offsets = torch.arange(page_size, device=self.device)

    def available_size(self) -> int:
        """Slots that both pools can still hand out together."""
        return min(self.full_available_size(), self.swa_available_size())

    def full_available_size(self) -> int:
        """Free slots of the full pool."""
        return self.full_attn_allocator.available_size()

    def swa_available_size(self) -> int:
        """Free slots of the window pool."""
        return self.swa_attn_allocator.available_size()

    def shortfall(self, num_slots: int) -> Shortfall:
        """What is missing in each of the pools before ``num_slots`` slots can be taken."""
        return Shortfall(
            max(0, num_slots - self.full_available_size()), max(0, num_slots - self.swa_available_size())
        )

    def alloc(self, num_slots: int) -> torch.Tensor | None:
        """Take whole pages from both pools and map them; ``None`` with nothing changed when one is short."""
        if num_slots > self.available_size():
            return None
        full_slots = self.full_attn_allocator.alloc(num_slots)
        window_slots = self.swa_attn_allocator.alloc(num_slots)
        return self._bind(full_slots, window_slots)

    def alloc_extend(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
    ) -> torch.Tensor | None:
        """Take and map the slots that grow request ``i`` from ``prefix_lens[i]`` to ``seq_lens[i]`` tokens.

        The last token of a prefix that ends inside a page must still have its window slot.
        """
        num_new_pages = num_extend_pages(prefix_lens_cpu, seq_lens_cpu, self.page_size)
        if num_new_pages * self.page_size > self.available_size():
            return None
        full_slots = self.full_attn_allocator.alloc_extend(
            prefix_lens,
            prefix_lens_cpu,
            seq_lens,
            seq_lens_cpu,
            last_loc,
            extend_num_tokens,
            num_new_pages=num_new_pages,
        )
        window_slots = self.swa_attn_allocator.alloc_extend(
            prefix_lens,
            prefix_lens_cpu,
            seq_lens,
            seq_lens_cpu,
            self.translate_loc_from_full_to_swa(last_loc),
            extend_num_tokens,
            num_new_pages=num_new_pages,
        )
        return self._bind(full_slots, window_slots)

    def alloc_decode(
        self, seq_lens: torch.Tensor, seq_lens_cpu: torch.Tensor, last_loc: torch.Tensor
    ) -> torch.Tensor | None:
        """Take and map one slot per request; ``None`` with both pools unchanged when either is short."""
        page_openers = decode_page_openers(seq_lens_cpu, self.page_size)
        if len(page_openers) * self.page_size > self.available_size():
            return None
        full_slots = self.full_attn_allocator.alloc_decode(
            seq_lens, seq_lens_cpu, last_loc, page_openers=page_openers
        )
        window_slots = self.swa_attn_allocator.alloc_decode(
            seq_lens,
            seq_lens_cpu,
            self.translate_loc_from_full_to_swa(last_loc),
            page_openers=page_openers,
        )
        return self._bind(full_slots, window_slots)

    def alloc_extend_swa_tail(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
        swa_tail_len: int,
    ) -> torch.Tensor | None:
        """Take full slots for all new tokens of one request, window slots for its last ``swa_tail_len`` only.

        The tail starts on a page boundary of the sequence (or is empty) and takes fresh window pages. Returns
        int64 [extend_num_tokens], or ``None`` with nothing changed; raises PageAlignmentError otherwise.
        """
        require_page_tail(seq_lens_cpu, extend_num_tokens, swa_tail_len, self.page_size)
        num_new_pages = num_extend_pages(prefix_lens_cpu, seq_lens_cpu, self.page_size)
        num_tail_slots = ceil_div(swa_tail_len, self.page_size) * self.page_size
        if num_new_pages * self.page_size > self.full_available_size():
            return None
        if num_tail_slots > self.swa_available_size():
            return None
        full_slots = self.full_attn_allocator.alloc_extend(
            prefix_lens,
            prefix_lens_cpu,
            seq_lens,
            seq_lens_cpu,
            last_loc,
            extend_num_tokens,
            num_new_pages=num_new_pages,
        )
        window_slots = self.swa_attn_allocator.alloc(num_tail_slots)
        assert full_slots is not None, ran_short(self)
        assert window_slots is not None, ran_short(self)
        tail_start = extend_num_tokens - swa_tail_len
        # A recycled full page may carry the mapping of its former owner.
        self.full_to_swa_index_mapping.index_fill_(0, full_slots[:tail_start], 0)
        self.set_full_to_swa_mapping(full_slots[tail_start:], window_slots[:swa_tail_len])
        return full_slots

    def set_full_to_swa_mapping(self, full_slots: torch.Tensor, window_slots: torch.Tensor) -> None:
        """Make ``full_slots[i]`` (int64 [n]) lead to ``window_slots[i]`` (int64 [n])."""
        self.full_to_swa_index_mapping.scatter_(0, full_slots, window_slots)

    def translate_loc_from_full_to_swa(self, slots: torch.Tensor) -> torch.Tensor:
        """Window slots of full slots (int32 or int64, any shape): int64, 0 where there is none, -1 for -1."""
        return self.full_to_swa_index_mapping[slots]

    def free(self, slots: torch.Tensor) -> None:
        """Give back every page that ``slots`` touch, in both pools; the slow form, may synchronise.

        The mapping is resolved now, inside a free group too: a page may be mapped anew before the group ends.
        """
        if slots.shape[0] == 0:
            return
        self.free_swa(slots)
        self.full_attn_allocator.free(slots)

    def free_swa(self, slots: torch.Tensor) -> None:
        """Give back the window slots of every page that ``slots`` (int [n], full slots) touch; the slow form.

        What is not mapped is skipped, so a second call over the same page changes nothing. May synchronise.
        """
        slots = self._whole_pages(slots)
        window_slots = self.full_to_swa_index_mapping[slots]
        window_slots = window_slots[window_slots > 0]
        self.swa_attn_allocator.free(window_slots)
        self.full_to_swa_index_mapping.index_fill_(0, slots, 0)

    def free_segment(self, slots: torch.Tensor, *, swa_evicted: int = 0) -> None:
        """Give back a page-regular run (int [n]) in both pools; costs its pages, synchronises nothing.

        The first ``swa_evicted`` slots (whole pages, or all) have given their window slots back before.
        """
        if swa_evicted < 0 or (swa_evicted % self.page_size and swa_evicted < slots.shape[0]):
            raise PageAlignmentError(
                f"swa_evicted is a number of whole pages, found {swa_evicted} at page_size {self.page_size} "
                f"in a run of {slots.shape[0]} slots; round the eviction frontier down to a page"
            )
        self.full_attn_allocator.free_segment(slots)
        mapped = slots[swa_evicted:]
        self.free_swa_segment(mapped)

    def free_swa_segment(self, slots: torch.Tensor) -> None:
        """Give back the window slots of a page-regular run (int [n], full slots) that is mapped throughout.

        The full slots stay with their owner. Synchronises nothing.
        """
        if slots.shape[0] == 0:
            return
        heads = slots[:: self.page_size].to(torch.int64)
        window_pages = self.full_to_swa_index_mapping[heads] // self.page_size
        self.swa_attn_allocator.free_page_list(window_pages)
        self._mapping_by_page.index_fill_(0, heads // self.page_size, 0)

    @property
    def free_group_open(self) -> bool:
        """Whether a free group collects what is freed."""
        return self.full_attn_allocator.free_group_open

    def free_group_begin(self) -> None:
        """Collect what is freed from both pools; raises FreeGroupError when a group is open."""
        self.full_attn_allocator.free_group_begin()
        self.swa_attn_allocator.free_group_begin()

    def free_group_end(self) -> None:
        """Free what the group collected, once; a no-op when no group is open."""
        self.full_attn_allocator.free_group_end()
        self.swa_attn_allocator.free_group_end()

    def clear(self) -> None:
        """Forget all allocations and the mapping."""
        self.full_attn_allocator.clear()
        self.swa_attn_allocator.clear()
        self._mapping_by_page.zero_()

    def backup_state(self) -> SWAState:
        """A copy of both pools and the mapping, to go back to. Costs what the pools hold."""
        return SWAState(
            self.full_attn_allocator.backup_state(),
            self.swa_attn_allocator.backup_state(),
            self.full_to_swa_index_mapping.clone(),
        )

    def restore_state(self, state: SWAState) -> None:
        """Go back to ``state``, which stays usable."""
        self.full_attn_allocator.restore_state(state.full)
        self.swa_attn_allocator.restore_state(state.swa)
        self.full_to_swa_index_mapping.copy_(state.mapping)

    def _bind(self, full_slots: torch.Tensor | None, window_slots: torch.Tensor | None) -> torch.Tensor:
        """Map new full slots to new window slots; both pools were counted before they were asked."""
        assert full_slots is not None, ran_short(self)
        assert window_slots is not None, ran_short(self)
        self.set_full_to_swa_mapping(full_slots, window_slots)
        return full_slots

    def _whole_pages(self, slots: torch.Tensor) -> torch.Tensor:
        """Every slot of the pages that ``slots`` touch, once, without the reserved page; int64."""
        pages: torch.Tensor = torch.unique(slots.to(torch.int64) // self.page_size)
        pages = pages[pages > 0]
        return (pages[:, None] * self.page_size + self._offsets).view(-1)
