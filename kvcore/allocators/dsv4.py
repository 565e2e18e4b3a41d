"""The allocator for compressed attention: six pools that grow together.

    full pages      1 : 1  c4 pages of P/4 entries, c128 pages of P/128 entries     taken and freed together
    full slots      n : 1  window slots                                             as in SWAAllocator
    rows            states of ratio 4 and of ratio 128                              private to a request

A token's compressed entry lies in the compressed page of its own page, at (offset // ratio).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kvcore.allocators.base import Shortfall, TokenToKVPoolAllocator, ran_short
from kvcore.allocators.dsv4_lens import C4_RATIO, C128_RATIO, check_dsv4_page_size, compute_dsv4_state_lens
from kvcore.allocators.dsv4_pages import CompressedPages, new_token_indices
from kvcore.allocators.dsv4_states import CompressStatePool
from kvcore.allocators.dsv4_values import DSV4OutCacheLoc, DSV4PoolSizes, DSV4State
from kvcore.allocators.page_count import decode_page_openers, num_extend_pages
from kvcore.allocators.swa import SWAAllocator
from kvcore.kernels.addressing import upload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.allocators.dsv4_lens import DSV4StateLens, Phase


class DSV4Allocator(TokenToKVPoolAllocator):
    """Full, window, c4, c128 and two state pools; every call is atomic over all of them.

    ``alloc_extend`` and ``alloc_decode`` serve the interface and take no states; models with compressed
    attention use ``alloc_extend_bundle``, ``alloc_decode_bundle`` and, with the row, ``free_states``.

    ``page_size`` is in tokens, a multiple of 128. ``num_rows`` is that of the row pool, whose row ids name
    the holders of states; ``max_reserve_len`` is the most tokens that a speculative step reserves for a
    request. Raises ConfigurationError for other page sizes and for pools that are no whole pages.
    """

    def __init__(
        self,
        sizes: DSV4PoolSizes,
        page_size: int,
        *,
        num_rows: int,
        device: torch.device | str,
        need_sort: bool = False,
        max_reserve_len: int = 0,
    ) -> None:
        check_dsv4_page_size(page_size)
        self.page_size = page_size
        self.device = torch.device(device)
        self.need_sort = need_sort
        self.kv_allocator = SWAAllocator(sizes.full, sizes.swa, page_size, device=device, need_sort=need_sort)
        self.full_attn_allocator = self.kv_allocator.full_attn_allocator
        self.swa_attn_allocator = self.kv_allocator.swa_attn_allocator
        self.full_to_swa_index_mapping = self.kv_allocator.full_to_swa_index_mapping
        self.compressed = [
            CompressedPages(
                ratio,
                size,
                page_size,
                num_full_pages=sizes.full // page_size,
                device=self.device,
                need_sort=need_sort,
            )
            for ratio, size in ((C4_RATIO, sizes.c4), (C128_RATIO, sizes.c128))
        ]
        self.states = [
            CompressStatePool(
                ratio,
                size,
                page_size,
                num_rows=num_rows,
                max_reserve_len=max_reserve_len,
                device=self.device,
                need_sort=need_sort,
            )
            for ratio, size in ((C4_RATIO, sizes.c4_state), (C128_RATIO, sizes.c128_state))
        ]
        compressed_sizes = (pages.allocator.size * pages.ratio for pages in self.compressed)
        self.size = min(self.kv_allocator.size, *compressed_sizes)

    def available_size(self) -> int:
        """Tokens for which the full, window and both compressed pools have room."""
        return min(self.kv_allocator.swa_available_size(), self._full_available())

    def full_available_size(self) -> int:
        """Free slots of the full pool."""
        return self.kv_allocator.full_available_size()

    def swa_available_size(self) -> int:
        """Free slots of the window pool."""
        return self.kv_allocator.swa_available_size()

    def shortfall(self, num_slots: int) -> Shortfall:
        """What is missing; freeing full pages brings compressed pages back, so they count as full ones."""
        return Shortfall(
            max(0, num_slots - self._full_available()), max(0, num_slots - self.swa_available_size())
        )

    def compute_dsv4_state_lens(
        self, rows: Sequence[int], prefix_lens: Sequence[int], seq_lens: Sequence[int], phase: Phase
    ) -> DSV4StateLens:
        """State positions of the requests in ``rows`` before and after a step; changes nothing."""
        c4, c128 = (pool.positions(rows) for pool in self.states)
        return compute_dsv4_state_lens(c4, c128, prefix_lens, seq_lens, phase)

    def has_states_for(self, rows: Sequence[int], state_lens: DSV4StateLens) -> bool:
        """Whether a step of ``rows`` that takes ``state_lens`` finds its states free, in both pools."""
        return not any(
            pool.num_missing(rows, lens) for pool, lens in zip(self.states, state_lens, strict=True)
        )

    def alloc(self, num_slots: int) -> torch.Tensor | None:
        """Take whole pages; ``None`` with nothing changed when a pool is short."""
        if num_slots > self.available_size():
            return None
        slots = self.kv_allocator.alloc(num_slots)
        assert slots is not None, ran_short(self)
        self._bind(slots[:: self.page_size] // self.page_size)
        return slots

    def alloc_extend(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
    ) -> torch.Tensor | None:
        """Take full, window and compressed slots, but no states; returns the full slots."""
        num_new_pages = num_extend_pages(prefix_lens_cpu, seq_lens_cpu, self.page_size)
        if num_new_pages * self.page_size > self.available_size():
            return None
        slots = self.kv_allocator.alloc_extend(
            prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu, last_loc, extend_num_tokens
        )
        assert slots is not None, ran_short(self)
        first_of_page = new_token_indices(prefix_lens_cpu, seq_lens_cpu, self.page_size, 0)
        self._bind(slots[upload(first_of_page, self.device)] // self.page_size)
        return slots

    def alloc_decode(
        self, seq_lens: torch.Tensor, seq_lens_cpu: torch.Tensor, last_loc: torch.Tensor
    ) -> torch.Tensor | None:
        """Take full, window and compressed slots for one token per request, but no states."""
        page_openers = decode_page_openers(seq_lens_cpu, self.page_size)
        if len(page_openers) * self.page_size > self.available_size():
            return None
        slots = self.kv_allocator.alloc_decode(seq_lens, seq_lens_cpu, last_loc)
        assert slots is not None, ran_short(self)
        self._bind(slots[upload(page_openers, self.device)] // self.page_size)
        return slots

    def alloc_extend_bundle(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
        *,
        rows: Sequence[int],
        state_lens: DSV4StateLens,
    ) -> DSV4OutCacheLoc | None:
        """Like ``alloc_extend``, with the states of the requests in ``rows`` and all locations of the step.

        ``None`` when the full or window pool is short. Raises OutOfSlots when a compressed or state pool is,
        with all pools unchanged: evicting prefixes does not bring states back.
        """
        num_tokens = num_extend_pages(prefix_lens_cpu, seq_lens_cpu, self.page_size) * self.page_size
        self._check_compressed(num_tokens)
        self._check_states(rows, state_lens)
        slots = self.alloc_extend(
            prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu, last_loc, extend_num_tokens
        )
        if slots is None:
            return None
        return self._bundle(slots, prefix_lens_cpu, seq_lens_cpu, rows, state_lens)

    def alloc_decode_bundle(
        self,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        *,
        rows: Sequence[int],
        state_lens: DSV4StateLens,
    ) -> DSV4OutCacheLoc | None:
        """Like ``alloc_decode``, with one state per request and all locations of the step; see the extend."""
        self._check_compressed(len(decode_page_openers(seq_lens_cpu, self.page_size)) * self.page_size)
        self._check_states(rows, state_lens)
        slots = self.alloc_decode(seq_lens, seq_lens_cpu, last_loc)
        if slots is None:
            return None
        return self._bundle(slots, seq_lens_cpu - 1, seq_lens_cpu, rows, state_lens)

    def free_states(self, row: int) -> None:
        """Give back all states of the request in ``row``; part of releasing the row."""
        for pool in self.states:
            pool.free_row(row)

    def free(self, slots: torch.Tensor) -> None:
        """Give back every page that ``slots`` touch, in all pools but the states'; may synchronise."""
        pages: torch.Tensor = torch.unique(slots.to(torch.int64) // self.page_size)
        # What is not bound, the reserved page among it, has no compressed page to give back.
        pages = pages[self.compressed[0].page_of[pages.clamp_(min=0)] > 0]
        self.kv_allocator.free(slots)
        for compressed in self.compressed:
            compressed.free(pages)

    def free_segment(self, slots: torch.Tensor, *, swa_evicted: int = 0) -> None:
        """Give back a page-regular run in the full, window and compressed pools; see ``SWAAllocator``."""
        self.kv_allocator.free_segment(slots, swa_evicted=swa_evicted)
        pages = slots[:: self.page_size].to(torch.int64) // self.page_size
        for compressed in self.compressed:
            compressed.free(pages)

    def free_swa_segment(self, slots: torch.Tensor) -> None:
        """Give back the window slots of a run that is mapped throughout; see ``SWAAllocator``."""
        self.kv_allocator.free_swa_segment(slots)

    @property
    def free_group_open(self) -> bool:
        """Whether a free group collects what is freed."""
        return self.kv_allocator.free_group_open

    def free_group_begin(self) -> None:
        """Collect what is freed from the full, window and compressed pools; groups do not nest."""
        self.kv_allocator.free_group_begin()
        for compressed in self.compressed:
            compressed.allocator.free_group_begin()

    def free_group_end(self) -> None:
        """Free what the group collected, once; a no-op when no group is open."""
        self.kv_allocator.free_group_end()
        for compressed in self.compressed:
            compressed.allocator.free_group_end()

    def backup_state(self) -> DSV4State:
        """A copy of all pools and mappings, to go back to. Costs what the pools hold."""
        return DSV4State(
            self.kv_allocator.backup_state(),
            tuple(pages.backup_state() for pages in self.compressed),
            tuple(pool.backup_state() for pool in self.states),
        )

    def restore_state(self, state: DSV4State) -> None:
        """Go back to ``state``, which stays usable."""
        self.kv_allocator.restore_state(state.kv)
        for pages, pages_state in zip(self.compressed, state.compressed, strict=True):
            pages.restore_state(pages_state)
        for pool, pool_state in zip(self.states, state.states, strict=True):
            pool.restore_state(pool_state)

    def clear(self) -> None:
        """Forget all allocations, states and mappings."""
        self.kv_allocator.clear()
        for compressed in self.compressed:
            compressed.clear()
        for pool in self.states:
            pool.clear()

    def _full_available(self) -> int:
        return min(self.full_available_size(), *(pages.available_tokens() for pages in self.compressed))

    def _bind(self, full_pages: torch.Tensor) -> None:
        for compressed in self.compressed:
            compressed.bind(full_pages)

    def _check_compressed(self, num_tokens: int) -> None:
        # Evicting brings full and compressed pages back together: only what it cannot repair is an error.
        if num_tokens <= self.full_available_size():
            for pages in self.compressed:
                pages.check_room(num_tokens)

    def _check_states(self, rows: Sequence[int], state_lens: DSV4StateLens) -> None:
        for pool, lens in zip(self.states, state_lens, strict=True):
            pool.check_rings(rows, lens)
            pool.check_room(rows, lens)

    def _bundle(
        self,
        slots: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        rows: Sequence[int],
        state_lens: DSV4StateLens,
    ) -> DSV4OutCacheLoc:
        c4, c128 = (
            pages.entries(slots[upload(pages.completed_by(prefix_lens_cpu, seq_lens_cpu), self.device)])
            for pages in self.compressed
        )
        c4_state, c128_state = (
            pool.alloc(rows, lens) for pool, lens in zip(self.states, state_lens, strict=True)
        )
        swa = self.kv_allocator.translate_loc_from_full_to_swa(slots)
        return DSV4OutCacheLoc(slots, swa, c4, c128, c4_state, c128_state)
