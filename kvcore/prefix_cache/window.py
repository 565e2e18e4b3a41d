"""Rows with a hole: what a request frees when it has given back the window slots that it needs no more.

        0        protected     hole start                    hole end         len
        |-- tree's --|-- mapped --|-- window slots given back --|-- mapped --|
                     |  (floor)   |                             |

The front up to ``swa_evict_floor`` was spared for other requests; out-of-window eviction moved the end of the
hole to ``swa_evicted_seqlen``. All bounds are host integers, so nothing has to look into the mapping.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvcore.page_math import align_up

if TYPE_CHECKING:
    import torch

    from kvcore.allocators.pure_swa import PureSWAAllocator
    from kvcore.allocators.swa import SWAAllocator
    from kvcore.req import ReqKvInfo


class Hole(NamedTuple):
    """Tokens ``[start, end)`` of a row whose window slots are given back; empty when ``start >= end``."""

    start: int
    end: int

    def is_empty(self) -> bool:
        """Whether all of the request's own tokens have their window slots."""
        return self.start >= self.end

    def cuts(self, start: int, end: int) -> list[tuple[int, int, bool]]:
        """``[start, end)`` in up to three runs ``(start, end, mapped)``, none of them empty, in order."""
        first = min(max(self.start, start), end)
        second = min(max(self.end, first), end)
        if self.is_empty():
            first = second = start
        runs = ((start, first, True), (first, second, False), (second, end, True))
        return [run for run in runs if run[0] < run[1]]


def hole_of(kv: ReqKvInfo, page_size: int) -> Hole:
    """The hole in the row of ``kv``, page aligned."""
    start = max(kv.cache_protected_len, align_up(kv.swa_evict_floor, page_size))
    return Hole(start, kv.swa_evicted_seqlen)


def free_run(
    allocator: SWAAllocator | PureSWAAllocator, row: torch.Tensor, start: int, end: int, hole: Hole
) -> None:
    """Free tokens ``[start, end)`` of ``row`` (page aligned start); in the hole, what is left of them."""
    for run_start, run_end, mapped in hole.cuts(start, end):
        swa_evicted = 0 if mapped else run_end - run_start
        allocator.free_segment(row[run_start:run_end], swa_evicted=swa_evicted)
