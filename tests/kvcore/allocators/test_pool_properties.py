"""Random life of requests on one pool, beside a model in plain Python integers: same operations, same answers."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.kvcore.allocators.factories import extend_args, ints, make_pool
from tests.kvcore.allocators.page_model import PageModel, is_page_regular


class PoolLife(RuleBasedStateMachine):
    """Requests are admitted, grow, decode and end; every answer and the whole free list equal the model's."""

    @initialize(
        page_size=st.sampled_from([1, 2, 4, 16]), num_pages=st.integers(1, 12), need_sort=st.booleans()
    )
    def build(self, page_size: int, num_pages: int, need_sort: bool) -> None:
        self.pool = make_pool(num_pages, page_size, need_sort=need_sort)
        self.model = PageModel(num_pages, page_size, need_sort=need_sort)
        self.page_size = page_size
        self.rows: list[list[int]] = []
        self.saved: tuple[object, ...] | None = None

    @rule(growth=st.lists(st.integers(0, 40), min_size=1, max_size=4), num_new=st.integers(0, 4))
    def extend(self, growth: list[int], num_new: int) -> None:
        """Grow some running requests, and fresh ones, in one call."""
        grown = self.rows[: max(0, len(growth) - num_new)]
        grown += [[] for _ in range(len(growth) - len(grown))]
        prefix_lens = [len(row) for row in grown]
        seq_lens = [len(row) + more for row, more in zip(grown, growth, strict=True)]
        last_locs = [row[-1] if row else -1 for row in grown]

        expected = self.model.alloc_extend(prefix_lens, seq_lens, last_locs)
        slots = self.pool.alloc_extend(*extend_args(prefix_lens, seq_lens, last_locs))

        assert (None if slots is None else slots.tolist()) == expected
        if expected is None:
            return
        for row, more in zip(grown, growth, strict=True):
            row.extend(expected[:more])
            expected = expected[more:]
        self.rows += [row for row, prefix in zip(grown, prefix_lens, strict=True) if not prefix and row]

    @precondition(lambda self: self.rows)
    @rule()
    def decode(self) -> None:
        seq_lens = [len(row) + 1 for row in self.rows]
        last_locs = [row[-1] for row in self.rows]

        expected = self.model.alloc_extend([len(row) for row in self.rows], seq_lens, last_locs)
        slots = self.pool.alloc_decode(ints(seq_lens), ints(seq_lens), ints(last_locs))

        assert (None if slots is None else slots.tolist()) == expected
        for row, slot in zip(self.rows, expected or [], strict=False):
            row.append(slot)

    @precondition(lambda self: self.rows)
    @rule(index=st.integers(0, 10), as_segment=st.booleans())
    def finish(self, index: int, as_segment: bool) -> None:
        row = self.rows.pop(index % len(self.rows))
        in_order = as_segment or self.page_size == 1
        self.model.put_back(row, in_order=in_order)
        (self.pool.free_segment if as_segment else self.pool.free)(ints(row))

    @precondition(lambda self: self.rows)
    @rule(index=st.integers(0, 10), keep=st.integers(0, 40))
    def truncate(self, index: int, keep: int) -> None:
        """Give back the whole pages behind a length, as over-allocation is given back."""
        row = self.rows[index % len(self.rows)]
        start = -(-keep // self.page_size) * self.page_size
        if not 0 < start < len(row):
            return
        self.model.put_back(row[start:], in_order=True)
        self.pool.free_segment(ints(row)[start:])
        del row[start:]

    @precondition(lambda self: self.model.queued is None)
    @rule()
    def begin_group(self) -> None:
        self.model.group_begin()
        self.pool.free_group_begin()

    @rule()
    def end_group(self) -> None:
        self.model.group_end()
        self.pool.free_group_end()

    @invariant()
    def free_lists_agree(self) -> None:
        if not hasattr(self, "pool"):
            return
        assert self.pool.free_pages.tolist() == list(self.model.free)
        assert self.pool.release_pages.tolist() == self.model.released
        assert self.pool.available_size() == self.model.available_size() <= self.pool.size

    @invariant()
    def every_page_has_one_owner(self) -> None:
        if not hasattr(self, "pool"):
            return
        owned = [slot // self.page_size for row in self.rows for slot in row[:: self.page_size]]
        pages = self.pool.free_page_ids().tolist() + owned
        assert sorted(pages) == list(range(1, self.pool.num_pages + 1))

    @invariant()
    def rows_are_page_regular(self) -> None:
        assert all(is_page_regular(row, self.page_size) for row in getattr(self, "rows", []))


TestPoolLife = PoolLife.TestCase
