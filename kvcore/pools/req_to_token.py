"""The rows of requests: which slot holds which token.

Rows are granted from a host list; the table itself is only written by the entry points.

    req_to_token   int32 [rows, W]
    row 0          sink for padded lanes, never granted
    row r          column j = slot of token j of the request that owns r
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kvcore.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.allocators.mamba import MambaSlotAllocator
    from kvcore.req import Req


class ReqToTokenPool:
    """Grants rows to requests; a granted row's old contents are undefined.

    ``size`` rows can be granted, each ``max_context_len`` columns wide: the context length and the headroom
    of ``allocation_sizing.get_req_to_token_extra_context_len``. ``req_to_token`` is int32
    [size + 1, max_context_len]. Raises ConfigurationError for less than one row or column.
    """

    def __init__(self, size: int, max_context_len: int, *, device: torch.device | str) -> None:
        if size < 1 or max_context_len < 1:
            raise ConfigurationError(
                f"a row pool needs at least one row and one column, found {size} x {max_context_len}"
            )
        self.size = size
        self.max_context_len = max_context_len
        self.device = torch.device(device)
        self.num_rows = size + 1
        """Length of every table that a row id indexes."""
        self.req_to_token = torch.zeros(
            (self.num_rows, max_context_len), dtype=torch.int32, device=self.device
        )
        self.req_generation = torch.zeros(self.num_rows, dtype=torch.int64)
        """int64 [num_rows] on the host: how often a row has been granted."""
        # numpy adds to a list of rows several times faster than torch does.
        self._generation_view = self.req_generation.numpy()
        self._held: set[int] = set()
        self._granted_last: list[int] = []
        self.clear()

    def available_size(self) -> int:
        """Rows that can be granted."""
        return len(self.free_slots)

    def alloc(self, reqs: Sequence[Req]) -> list[int] | None:
        """Rows of ``reqs``, in their order; ``None``, with nothing changed, when too few are free.

        A request that holds a row keeps it (a chunk of its prompt, or a diffusion block, goes on). The
        requests are not touched: whoever allocates their slots makes their records.
        """
        held = [(req.rid, req.kv) for req in reqs if req.kv is not None]
        for rid, kv in held:
            assert kv.kv_allocated_len > 0, f"request {rid} holds a row, but no slot in it: {kv}"
        return self._grant(reqs, len(reqs) - len(held))

    def _grant(self, reqs: Sequence[Req], num_fresh: int) -> list[int] | None:
        if num_fresh > len(self.free_slots):
            return None
        self._granted_last = []
        if num_fresh == 0:
            return [req.kv.req_pool_idx for req in reqs if req.kv is not None]
        # The tail comes off in time proportional to what is taken; the head would move the whole list.
        fresh = self.free_slots[-num_fresh:]
        del self.free_slots[-num_fresh:]
        fresh.reverse()
        self._held.update(fresh)
        self._generation_view[fresh] += 1
        self._granted_last = fresh
        if num_fresh == len(reqs):
            return fresh
        rows = iter(fresh)
        return [next(rows) if req.kv is None else req.kv.req_pool_idx for req in reqs]

    def undo_alloc(self) -> None:
        """Take back what the latest ``alloc`` granted, for a caller that then found too few slots; not twice.

        Rows, their order in the free list and their generations are as before that ``alloc``.
        """
        granted, self._granted_last = self._granted_last, []
        self._held.difference_update(granted)
        self.free_slots.extend(reversed(granted))
        if granted:
            self._generation_view[granted] -= 1

    def num_missing_states(self, reqs: Sequence[Req]) -> int:  # noqa: ARG002  (hybrid pools look at them)
        """States that must be evicted before ``alloc(reqs)`` can grant them; 0 in a pool without states."""
        return 0

    def available_str(self, reqs: Sequence[Req]) -> str:  # noqa: ARG002
        """What can be granted, for an error message about granting ``reqs``."""
        return f"{self.available_size()} of {self.size} rows are free"

    @property
    def state_slots(self) -> MambaSlotAllocator | None:
        """Hands out the recurrent states of requests; ``None`` in a pool without states."""
        return None

    def start_states(self, reqs: Sequence[Req]) -> None:
        """Give new states their first contents; nothing to do in a pool without states."""

    def free_mamba_cache(self, req: Req, keep: int | None = None) -> None:
        """Take back the states that ``req`` holds; nothing to do in a pool without states."""

    def free(self, row: int) -> None:
        """Take a granted row back; AssertionError, with nothing changed, for one that is not granted."""
        assert row in self._held, f"row {row} is not granted to any request; {len(self._held)} rows are"
        self._held.remove(row)
        self.free_slots.append(row)

    def write(self, index: tuple[int | slice | torch.Tensor, ...], values: torch.Tensor) -> None:
        """``req_to_token[index] = values`` (any integer dtype); torch raises where the shapes differ."""
        self.req_to_token[index] = values

    def clear(self) -> None:
        """Take every row back. Row 0 stays the sink that padded lanes of CUDA graphs write to (#24243)."""
        self.free_slots = list(range(self.size, 0, -1))
        self._held = set()
        self._granted_last = []


class DecodeReqToTokenPool(ReqToTokenPool):
    """Rows of a decode server that also holds requests whose KV is still on its way.

    ``size`` requests run, ``pre_alloc_size`` more wait with their slots already taken.
    """

    def __init__(
        self, size: int, max_context_len: int, *, pre_alloc_size: int, device: torch.device | str
    ) -> None:
        super().__init__(size + pre_alloc_size, max_context_len, device=device)
        self.max_running_size = size
        self.pre_alloc_size = pre_alloc_size

    def alloc(self, reqs: Sequence[Req]) -> list[int] | None:
        """As the base; at most one request of a call may hold a row: a pre-allocated one that starts."""
        reusing = [req.rid for req in reqs if req.kv is not None]
        assert len(reusing) <= 1, f"at most one request may bring its row along, found {reusing}"
        return super().alloc(reqs)
