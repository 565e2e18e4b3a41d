"""The interface of a slot allocator, and the values that cross it.

Units: a *slot* is the index of one token's KV; a *page* is ``page_size`` consecutive slots, page id =
slot // page_size. Page 0 (slots ``0..page_size-1``) is reserved in every pool: padded lanes read and write
there, it is never handed out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch


class Shortfall(NamedTuple):
    """How many slots a prefix cache has to give back before an allocation can succeed, per pool."""

    num_tokens: int
    """Slots missing in the (full-attention) pool."""
    swa_num_tokens: int = 0
    """Slots missing in the sliding-window pool; 0 for allocators without one."""


class TokenToKVPoolAllocator(ABC):
    """Hands out KV slots and takes them back.

    Contract: every ``alloc*`` returns an int64 tensor of slots on ``device`` that the caller owns, or
    ``None`` when the pool is too short; after ``None`` the allocator is exactly as before. Nothing on the
    paths ``alloc*``, ``free_segment`` and the free group synchronises the device; ``free`` may.
    """

    size: int
    """Slots that can be handed out."""
    page_size: int
    """Slots per page."""
    device: torch.device
    need_sort: bool
    """Disaggregation: freed pages are kept apart and merged in order when the free list runs short."""

    @abstractmethod
    def available_size(self) -> int:
        """Free slots, counting whole pages; never more than ``size``."""

    @abstractmethod
    def alloc(self, num_slots: int) -> torch.Tensor | None:
        """Take ``num_slots`` slots (a multiple of ``page_size``) in page-major order."""

    @abstractmethod
    def alloc_extend(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
    ) -> torch.Tensor | None:
        """Take the slots that grow request ``i`` from ``prefix_lens[i]`` to ``seq_lens[i]`` tokens.

        Args:
            prefix_lens, seq_lens: int32 or int64 [bs] on ``device``; the ``_cpu`` twins hold the same
                values on the host.
            last_loc: int32 or int64 [bs], slot of token ``prefix_lens[i]-1``, -1 where the prefix is empty.
            extend_num_tokens: ``sum(seq_lens - prefix_lens)``.

        Returns int64 [extend_num_tokens], requests concatenated; the rest of a request's last page is used up
        first.
        """

    @abstractmethod
    def alloc_decode(
        self, seq_lens: torch.Tensor, seq_lens_cpu: torch.Tensor, last_loc: torch.Tensor
    ) -> torch.Tensor | None:
        """Take one slot per request; ``seq_lens`` (int [bs]) are the lengths after it; int64 [bs]."""

    @abstractmethod
    def free(self, slots: torch.Tensor) -> None:
        """Give back arbitrary slots (int [n]); at page_size > 1 every page touched is freed whole.

        The slow form: it removes duplicates and may synchronise the device.
        """

    @abstractmethod
    def free_segment(self, slots: torch.Tensor) -> None:
        """Give back a page-regular run: tokens of a row, or tree values, from a page boundary on.

        ``slots`` is int32 or int64 [n]; page ids come from every ``page_size``-th element, so a run costs its
        pages and nothing else: no deduplication, no device synchronisation. Several runs may be concatenated
        when all but the last one end on a page boundary. Inside a free group the values are copied: the
        caller may overwrite a row.
        """

    @property
    @abstractmethod
    def free_group_open(self) -> bool:
        """Whether a free group collects what is freed: it counts as available at the group's end only."""

    @abstractmethod
    def free_group_begin(self) -> None:
        """Collect what is freed until ``free_group_end``; raises FreeGroupError when a group is open."""

    @abstractmethod
    def free_group_end(self) -> None:
        """Free what the group collected, once; a no-op when no group is open."""

    def shortfall(self, num_slots: int) -> Shortfall:
        """What an eviction must bring back before ``num_slots`` slots can be taken."""
        return Shortfall(max(0, num_slots - self.available_size()))

    @abstractmethod
    def clear(self) -> None:
        """Forget all allocations: every slot is free again."""


@runtime_checkable
class ListsFreePages(Protocol):
    """Capability for the invariant checker: an allocator over one pool that names what is free. May sync."""

    size: int
    page_size: int

    def available_size(self) -> int:
        """Free slots of this pool, counting whole pages."""
        ...

    def free_page_ids(self) -> torch.Tensor:
        """int64 page ids: free list, release list and open group; one freed twice shows twice."""
        ...


@runtime_checkable
class MapsWindow(Protocol):
    """Capability: a full pool and a sliding-window pool behind one allocator, joined by a slot mapping."""

    full_attn_allocator: ListsFreePages
    swa_attn_allocator: ListsFreePages
    full_to_swa_index_mapping: torch.Tensor
    """int64 [size + page_size + 1]; 0 where a full slot has no window slot; the last entry is -1."""


class _TwoPools(Protocol):
    def full_available_size(self) -> int: ...

    def swa_available_size(self) -> int: ...


def ran_short(allocator: _TwoPools) -> str:
    """What a broken assertion says where a pool that was counted before could not give what it had."""
    return (
        f"a pool ran short after it was counted: {allocator.full_available_size()} full slots and "
        f"{allocator.swa_available_size()} window slots are free"
    )
