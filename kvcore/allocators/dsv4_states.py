"""The compress states of one ratio: which state slots each row holds.

States belong to one request and are never shared. A row's positions grow for ever, the live ones are few:

    position   0 ... freed   |-- live: at most ring_len positions --|  next
    column     position % ring_len
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from kvcore.allocators.dsv4_lens import C128_RATIO, KEPT_STATES, state_watermark
from kvcore.allocators.page_count import num_extend_pages
from kvcore.allocators.paged import PagedAllocator
from kvcore.errors import OutOfSlots, RowOverflow
from kvcore.kernels.addressing import upload
from kvcore.page_math import align_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.allocators.dsv4_lens import StateLens
    from kvcore.allocators.free_list_allocator import PoolState


class StatePoolState(NamedTuple):
    """A copy of the states of one ratio, as ``backup_state`` took it."""

    pool: PoolState
    table: torch.Tensor
    taken: tuple[int, ...]
    freed: tuple[int, ...]


class CompressStatePool:
    """State slots of one ratio, in pages of ``page_size``, with one ring of live positions per row.

    ``max_reserve_len`` is the most tokens that a speculative step reserves for a request; its plan rounds
    their end up to a page, and the step takes a state for each.
    """

    def __init__(
        self,
        ratio: int,
        size: int,
        page_size: int,
        *,
        num_rows: int,
        max_reserve_len: int,
        device: torch.device | str,
        need_sort: bool,
    ) -> None:
        self.ratio = ratio
        self.allocator = PagedAllocator(size, page_size, device=device, need_sort=need_sort)
        self._page_size = page_size
        # Two steps may pass between a position leaving the kept range and its eviction.
        step = max(2 * C128_RATIO, max_reserve_len + page_size - 1 if max_reserve_len else 0)
        self._ring_len = align_up(KEPT_STATES[ratio] + 2 * step, page_size) + page_size
        table_shape = (num_rows, self._ring_len)
        self._table = torch.zeros(table_shape, dtype=torch.int64, device=self.allocator.device)
        self._taken = [0] * num_rows
        self._freed = [0] * num_rows

    def positions(self, rows: Sequence[int]) -> list[int]:
        """Positions that each row has taken so far."""
        return [self._taken[row] for row in rows]

    def num_missing(self, rows: Sequence[int], lens: StateLens) -> int:
        """State slots that are too few for a step, whose rows free old ones first; 0 when it can be taken."""
        num_pages = num_extend_pages(_host_lens(lens.before), _host_lens(lens.after), self._page_size)
        ends = zip(rows, self._watermarks(lens), strict=True)
        num_old = sum(max(0, end - self._freed[row]) for row, end in ends)
        return max(0, num_pages * self._page_size - num_old - self.allocator.available_size())

    def check_room(self, rows: Sequence[int], lens: StateLens) -> None:
        """Raise OutOfSlots unless the states of a step are free, or will be before it takes them."""
        missing = self.num_missing(rows, lens)
        if missing:
            raise OutOfSlots(
                f"DSV4 c{self.ratio} state pool exhausted: {missing} states short, "
                f"{self.allocator.available_size()} free; run fewer requests or enlarge the pool"
            )

    def check_rings(self, rows: Sequence[int], lens: StateLens) -> None:
        """Raise RowOverflow when a row would hold more live positions than its ring has columns."""
        for row, after in zip(rows, lens.after, strict=True):
            if after - self._freed[row] > self._ring_len:
                raise RowOverflow(
                    f"row {row} would hold {after - self._freed[row]} live c{self.ratio} states, its ring "
                    f"has {self._ring_len}; build the pool with a larger max_reserve_len"
                )

    def alloc(self, rows: Sequence[int], lens: StateLens) -> torch.Tensor:
        """Evict what each row no longer needs, then take the states of a step, int64 [sum(after - before)].

        The caller has made sure, with ``check_room`` and ``check_rings``, that it can.
        """
        self._free_below(rows, self._watermarks(lens))
        device = self.allocator.device
        before, after = _host_lens(lens.before), _host_lens(lens.after)
        counts = (after - before).numpy()
        num_states = int(counts.sum())
        lasts = np.maximum(before.numpy() - 1, 0)
        slots = self.allocator.alloc_extend(
            upload(before.numpy(), device),
            before,
            upload(after.numpy(), device),
            after,
            self._table.view(-1)[self._cells(rows, lasts)],
            num_states,
        )
        assert slots is not None, f"the c{self.ratio} state pool ran short after it was counted"
        # Position of each new state: its row's first one, plus its index within the row's run.
        positions = np.arange(num_states) + (after.numpy() - counts.cumsum()).repeat(counts)
        self._table.view(-1).scatter_(0, self._cells(np.repeat(rows, counts), positions), slots)
        for row, end in zip(rows, lens.after, strict=True):
            self._taken[row] = end
        return slots

    def pages_of(self, row: int) -> torch.Tensor:
        """int64 page ids that the live states of ``row`` lie in; for the invariant checker."""
        heads = np.arange(self._freed[row], self._taken[row], self._page_size)
        return self._table.view(-1)[self._cells(np.full_like(heads, row), heads)] // self._page_size

    def free_row(self, row: int) -> None:
        """Give back all states of a row and forget its positions."""
        self._free_below([row], [align_up(self._taken[row], self._page_size)])
        self._taken[row] = self._freed[row] = 0

    def clear(self) -> None:
        """Forget all states of all rows."""
        self.allocator.clear()
        self._taken = [0] * len(self._taken)
        self._freed = [0] * len(self._freed)

    def backup_state(self) -> StatePoolState:
        """A copy, to go back to."""
        return StatePoolState(
            self.allocator.backup_state(), self._table.clone(), tuple(self._taken), tuple(self._freed)
        )

    def restore_state(self, state: StatePoolState) -> None:
        """Go back to ``state``, which stays usable."""
        self.allocator.restore_state(state.pool)
        self._table.copy_(state.table)
        self._taken, self._freed = list(state.taken), list(state.freed)

    def _watermarks(self, lens: StateLens) -> list[int]:
        return [state_watermark(start, self.ratio, self._page_size) for start in lens.before]

    def _free_below(self, rows: Sequence[int], watermarks: Sequence[int]) -> None:
        """Free the pages of each row below its watermark; one gather and one free for all rows."""
        holders: list[np.ndarray] = []
        heads: list[np.ndarray] = []
        for row, watermark in zip(rows, watermarks, strict=True):
            if watermark > self._freed[row]:
                heads.append(np.arange(self._freed[row], watermark, self._page_size))
                holders.append(np.full_like(heads[-1], row))
                self._freed[row] = watermark
        if heads:
            slots = self._table.view(-1)[self._cells(np.concatenate(holders), np.concatenate(heads))]
            self.allocator.free_page_list(slots // self._page_size)

    def _cells(self, rows: Sequence[int] | np.ndarray, positions: np.ndarray) -> torch.Tensor:
        """Flat table addresses of positions of rows, from host integers."""
        cells = np.asarray(rows, dtype=np.int64) * self._ring_len + positions % self._ring_len
        return upload(cells, self.allocator.device)


def _host_lens(lens: Sequence[int]) -> torch.Tensor:
    return torch.tensor(lens, dtype=torch.int64)
