"""The checker of the allocation stack's laws; for tests and simulations, it synchronises the device.

    I1  every page is free, a request's, or the tree's: none is lost
    I2  no page is free twice                                             I1 to I3: kvcore.ownership
    I3  no page has two holders
    I4  0 <= available <= size
    I5  0 <= protected <= committed <= allocated <= row width, and the row is page regular
    I6  an operation on some requests leaves the rows of all others alone
    I7  the window pool holds exactly what the mapping leads to; a free full slot leads nowhere
    I8  the tree's sizes follow from its nodes and locks
    I9  an operation that runs out of slots changes nothing               kvcore.pool_snapshot

The laws hold between two operations, for requests that hold a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from kvcore.allocators.base import ListsFreePages, MapsWindow
from kvcore.allocators.dsv4 import DSV4Allocator
from kvcore.errors import InvariantViolation
from kvcore.ownership import PageLedger, as_ids
from kvcore.prefix_cache.base import OwnsSlots, OwnsStates
from kvcore.release import FreesWindow
from kvcore.window_ownership import compressed_fault, window_fault, window_mapping

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kvcore.allocators.base import TokenToKVPoolAllocator
    from kvcore.ownership import Ids
    from kvcore.pools.req_to_token import ReqToTokenPool
    from kvcore.prefix_cache.base import PrefixCache
    from kvcore.req import Req, ReqKvInfo


class _Held(NamedTuple):
    """A request that holds a row, and what stands in it."""

    req: Req
    kv: ReqKvInfo
    slots: Ids
    """int64 [allocated], the row's content on the host."""


class InvariantChecker:
    """Checks one stack. Messages name ``toggles``: what is reverted on purpose explains a violation.

    ``check`` and ``check_idle`` raise InvariantViolation, change nothing, and synchronise the device.
    """

    def __init__(
        self,
        req_to_token_pool: ReqToTokenPool,
        allocator: TokenToKVPoolAllocator,
        tree_cache: PrefixCache,
        *,
        toggles: Sequence[str] = (),
    ) -> None:
        self._pool = req_to_token_pool
        self._allocator = allocator
        self._tree = tree_cache
        self._toggles = tuple(toggles)
        self._rows_before: list[_Held] = []
        self._full_pool = allocator.full_attn_allocator if isinstance(allocator, MapsWindow) else allocator
        # One pool in both roles: what left the window is given back for good.
        self._has_holes = isinstance(allocator, FreesWindow) and not isinstance(allocator, MapsWindow)

    def check(self, reqs: Sequence[Req], operation: str, *, touched: Collection[Req] | None = None) -> None:
        """All laws; ``reqs`` are all requests that hold a row (or a state), waiting ones may be among them.

        With ``touched``, the requests that the operation was about, the rows of the others must be what they
        were at the last check (I6). Costs what the pools hold. Raises InvariantViolation, naming request and
        operation.
        """
        held = [_Held(req, req.kv, self._row(req.kv)) for req in reqs if req.kv is not None]
        tree_slots = as_ids(self._tree.owned_slots()) if isinstance(self._tree, OwnsSlots) else as_ids([])
        for one in held:
            self._check_ladder(one, operation)
        if touched is not None:
            self._check_untouched(touched, operation)
        for one in held:
            self._check_page_regular(one, operation)
        self._check_rows(held, operation)
        self._check_tree(held, tree_slots, operation)
        self._check_pools(held, tree_slots, operation)
        self._check_states(reqs, operation)
        self._rows_before = held

    def check_idle(self, operation: str) -> None:
        """The laws when no request holds a row, from sizes alone: all that is not free is evictable."""
        self._check_available(operation)
        pool, tree = self._full_pool, self._tree
        free, evictable = pool.available_size(), tree.evictable_size()
        if free + evictable != pool.size or tree.protected_size():
            self._fail(
                "I1",
                operation,
                f"no request runs, but {free} free + {evictable} evictable slots are not {pool.size}, and "
                f"{tree.protected_size()} are protected",
            )
        if self._pool.available_size() != self._pool.size:
            self._fail(
                "I1",
                operation,
                f"no request runs, but only {self._pool.available_size()} of {self._pool.size} rows are free",
            )

    def _row(self, kv: ReqKvInfo) -> Ids:
        return as_ids(self._pool.req_to_token[kv.req_pool_idx, : kv.kv_allocated_len])

    def _check_ladder(self, held: _Held, operation: str) -> None:
        """I5 for the lengths."""
        kv, width = held.kv, self._pool.max_context_len
        lens = (kv.cache_protected_len, kv.kv_committed_len, kv.kv_allocated_len)
        if not 0 <= lens[0] <= lens[1] <= lens[2] <= width:
            self._fail(
                "I5",
                operation,
                f"protected {lens[0]} <= committed {lens[1]} <= allocated {lens[2]} <= row {width} is broken",
                held.req,
            )
        if not 0 <= kv.swa_evicted_seqlen <= kv.kv_allocated_len:
            self._fail("I5", operation, f"the window was evicted beyond the row: {kv}", held.req)

    def _check_page_regular(self, held: _Held, operation: str) -> None:
        """I5 for the row: token j sits at offset j % P of the page that its page of tokens starts."""
        page_size = self._allocator.page_size
        columns = np.arange(len(held.slots))
        expected = held.slots[columns // page_size * page_size] // page_size * page_size + columns % page_size
        wrong = np.flatnonzero(held.slots != expected)
        if len(wrong):
            at = int(wrong[0])
            self._fail(
                "I5",
                operation,
                f"column {at} of row {held.kv.req_pool_idx} holds slot {held.slots[at]}, not {expected[at]}",
                held.req,
            )

    def _check_untouched(self, touched: Collection[Req], operation: str) -> None:
        """I6."""
        busy = {id(req) for req in touched}
        for before in self._rows_before:
            if id(before.req) in busy or before.req.kv is not before.kv:
                continue
            now = as_ids(self._pool.req_to_token[before.kv.req_pool_idx, : len(before.slots)])
            changed = np.flatnonzero(now != before.slots)
            if len(changed):
                at = int(changed[0])
                self._fail(
                    "I6",
                    operation,
                    f"{len(changed)} columns of row {before.kv.req_pool_idx} changed, the first is {at}: "
                    f"slot {before.slots[at]} became {now[at]}, but the operation was about other requests",
                    before.req,
                )

    def _check_rows(self, held: Sequence[_Held], operation: str) -> None:
        """I1 to I3 for rows."""
        ledger = PageLedger("row", self._pool.size)
        ledger.add("free", as_ids(self._pool.free_slots))
        for one in held:
            ledger.add(f"request {one.req.rid}", as_ids([one.kv.req_pool_idx]))
        self._require_one_holder(ledger, operation)

    def _check_tree(self, held: Sequence[_Held], tree_slots: Ids, operation: str) -> None:
        """I8, and that the tree has what requests share with it."""
        if not isinstance(self._tree, OwnsSlots):
            return
        try:
            self._tree.check()
        except InvariantViolation as violation:
            self._fail("I8", operation, str(violation))
        total = self._tree.evictable_size() + self._tree.protected_size()
        if total != len(tree_slots):
            self._fail(
                "I8", operation, f"evictable + protected is {total}, the nodes hold {len(tree_slots)} slots"
            )
        # A mark per slot, and one for all that lie outside: what a request shares is looked up, not searched.
        outside = self._full_pool.size + self._allocator.page_size
        is_trees = np.zeros(outside + 1, dtype=np.bool_)
        is_trees[tree_slots] = True
        for one in held:
            shared = one.slots[: one.kv.cache_protected_len]
            foreign = shared[~is_trees[np.where(shared < 0, outside, np.minimum(shared, outside))]]
            if len(foreign):
                self._fail(
                    "I3",
                    operation,
                    f"{len(foreign)} of its {len(shared)} protected slots are not the tree's: {foreign[0]}",
                    one.req,
                )

    def _check_pools(self, held: Sequence[_Held], tree_slots: Ids, operation: str) -> None:
        """I1 to I4 for the (full) pool, I7 for the window pool."""
        self._check_available(operation)
        allocator, pool = self._allocator, self._full_pool
        if not isinstance(pool, ListsFreePages):
            return
        page_size = pool.page_size
        ledger = PageLedger("slot" if page_size == 1 else "page", pool.size // page_size)
        free_pages = as_ids(pool.free_page_ids())
        ledger.add("free", free_pages)
        ledger.add("tree", self._pages(tree_slots))
        for one in held:
            ledger.add(f"request {one.req.rid}", self._pages(self._own_slots(one)))
        self._require_one_holder(ledger, operation)
        if isinstance(allocator, MapsWindow):
            self._check_window(allocator, held, free_pages, operation)
        if isinstance(allocator, DSV4Allocator):
            rows = [one.kv.req_pool_idx for one in held]
            self._require(compressed_fault(allocator, rows, free_pages), "I1-I3", operation)

    def _own_slots(self, held: _Held) -> Ids:
        """Slots of the (full) pool that the request itself holds."""
        kv = held.kv
        if self._has_holes:
            # The hole begins behind what a tree may insert.
            floor = max(kv.cache_protected_len, kv.swa_evict_floor)
            hole_end = max(floor, kv.swa_evicted_seqlen)
            return np.concatenate((held.slots[kv.cache_protected_len : floor], held.slots[hole_end:]))
        return held.slots[kv.cache_protected_len :]

    def _pages(self, slots: Ids) -> Ids:
        """Pages of page-regular runs, once for every run that reaches into a page."""
        page_size = self._allocator.page_size
        pages: Ids = slots // page_size
        starts = (slots % page_size == 0) | (np.diff(pages, prepend=-1) != 0)
        held: Ids = pages[starts]
        return held

    def _check_window(
        self, allocator: MapsWindow, held: Sequence[_Held], free_pages: Ids, operation: str
    ) -> None:
        """I7, and that every token inside the window of a request has a window slot."""
        page_size = self._allocator.page_size
        mapping = window_mapping(allocator, page_size)
        self._require(window_fault(allocator, mapping, page_size, free_pages), "I7", operation)
        flat = mapping.reshape(-1)
        for one in held:
            start = max(one.kv.cache_protected_len, one.kv.swa_evicted_seqlen)
            live = one.slots[start:]
            unmapped = np.flatnonzero((flat[live] <= 0) | (flat[live] % page_size != live % page_size))
            if len(unmapped):
                at = start + int(unmapped[0])
                self._fail(
                    "I7",
                    operation,
                    f"column {at} is in the window (evicted up to {one.kv.swa_evicted_seqlen}), but its slot "
                    f"{one.slots[at]} leads to {flat[one.slots[at]]}",
                    one.req,
                )

    def _check_states(self, reqs: Sequence[Req], operation: str) -> None:
        """I1 to I3 for recurrent states."""
        states = self._pool.state_slots
        if states is None:
            return
        ledger = PageLedger("state", states.size)
        ledger.add("free", as_ids(states.free_slots()))
        if isinstance(self._tree, OwnsStates):
            ledger.add("tree", as_ids(self._tree.owned_states()))
        for req in reqs:
            own = [slot for slot in (req.mamba_ping_pong_track_buffer or []) if slot >= 0]
            if req.mamba_pool_idx is not None:
                own.append(req.mamba_pool_idx)
            ledger.add(f"request {req.rid}", as_ids(own))
        self._require_one_holder(ledger, operation)

    def _check_available(self, operation: str) -> None:
        """I4."""
        allocator = self._allocator
        pools: list[ListsFreePages | TokenToKVPoolAllocator] = [allocator]
        if isinstance(allocator, MapsWindow):
            pools += [allocator.full_attn_allocator, allocator.swa_attn_allocator]
        for pool in pools:
            if not 0 <= pool.available_size() <= pool.size:
                self._fail(
                    "I4", operation, f"0 <= available {pool.available_size()} <= size {pool.size} is broken"
                )

    def _require_one_holder(self, ledger: PageLedger, operation: str) -> None:
        self._require(ledger.fault(), "I1-I3", operation)

    def _require(self, fault: str | None, law: str, operation: str) -> None:
        if fault is not None:
            self._fail(law, operation, fault)

    def _fail(self, law: str, operation: str, what: str, req: Req | None = None) -> NoReturn:
        about = "" if req is None else f"request {req.rid}: "
        toggles = f" (active toggles: {', '.join(self._toggles)})" if self._toggles else ""
        raise InvariantViolation(f"{law} after {operation}: {about}{what}{toggles}")
