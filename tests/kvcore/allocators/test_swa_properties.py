"""Random life of requests on both pools, beside two models and a dict in plain Python integers."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.kvcore.allocators.factories import extend_args, ints, make_swa
from tests.kvcore.allocators.page_model import PageModel


class WindowLife(RuleBasedStateMachine):
    """Requests grow, lose the front of their window, and end; both pools and the mapping equal the model's."""

    @initialize(
        page_size=st.sampled_from([1, 2, 4]),
        num_pages=st.integers(1, 10),
        num_swa_pages=st.integers(1, 10),
        need_sort=st.booleans(),
    )
    def build(self, page_size: int, num_pages: int, num_swa_pages: int, need_sort: bool) -> None:
        self.swa = make_swa(num_pages, num_swa_pages, page_size, need_sort=need_sort)
        self.full = PageModel(num_pages, page_size, need_sort=need_sort)
        self.window = PageModel(num_swa_pages, page_size, need_sort=need_sort)
        self.mapping: dict[int, int] = {}
        self.page_size = page_size
        self.rows: list[list[int]] = []
        self.evicted: list[int] = []

    @rule(growth=st.lists(st.integers(0, 12), min_size=1, max_size=3), num_new=st.integers(0, 3))
    def extend(self, growth: list[int], num_new: int) -> None:
        grown = self.rows[: max(0, len(growth) - num_new)]
        grown += [[] for _ in range(len(growth) - len(grown))]
        self._grow(grown, growth, decode=False)

    @precondition(lambda self: self.rows)
    @rule()
    def decode(self) -> None:
        self._grow(list(self.rows), [1] * len(self.rows), decode=True)

    def _grow(self, grown: list[list[int]], growth: list[int], *, decode: bool) -> None:
        prefix_lens = [len(row) for row in grown]
        seq_lens = [len(row) + more for row, more in zip(grown, growth, strict=True)]
        last_locs = [row[-1] if row else -1 for row in grown]
        num_pages = sum(
            token % self.page_size == 0
            for lens in zip(prefix_lens, seq_lens, strict=True)
            for token in range(*lens)
        )
        fits = num_pages * self.page_size <= min(self.full.available_size(), self.window.available_size())

        if decode:
            slots = self.swa.alloc_decode(ints(seq_lens), ints(seq_lens), ints(last_locs))
        else:
            slots = self.swa.alloc_extend(*extend_args(prefix_lens, seq_lens, last_locs))

        assert (slots is not None) == fits
        if slots is None:
            return
        expected = self.full.alloc_extend(prefix_lens, seq_lens, last_locs)
        window_lasts = [self.mapping.get(last, -1) for last in last_locs]
        window = self.window.alloc_extend(prefix_lens, seq_lens, window_lasts)
        assert expected is not None
        assert window is not None
        assert slots.tolist() == expected
        self.mapping.update(zip(expected, window, strict=True))
        for row, more in zip(grown, growth, strict=True):
            row.extend(expected[:more])
            expected = expected[more:]
        fresh = [row for row, prefix in zip(grown, prefix_lens, strict=True) if not prefix and row]
        self.rows += fresh
        self.evicted += [0] * len(fresh)

    @precondition(lambda self: self.rows)
    @rule(index=st.integers(0, 10), num_pages=st.integers(1, 4), slow=st.booleans())
    def evict(self, index: int, num_pages: int, slow: bool) -> None:
        """The front of a request leaves the window, but not its last page."""
        index %= len(self.rows)
        row, start = self.rows[index], self.evicted[index]
        last_page = (len(row) - 1) // self.page_size * self.page_size
        end = min(start + num_pages * self.page_size, last_page)
        if end <= start:
            return
        gone = row[start:end]
        self.window.put_back([self.mapping.pop(slot) for slot in gone], in_order=not slow)
        (self.swa.free_swa if slow else self.swa.free_swa_segment)(ints(gone))
        self.evicted[index] = end

    @precondition(lambda self: self.rows)
    @rule(index=st.integers(0, 10), slow=st.booleans())
    def finish(self, index: int, slow: bool) -> None:
        index %= len(self.rows)
        row, evicted = self.rows.pop(index), self.evicted.pop(index)
        window = [self.mapping.pop(slot) for slot in row[evicted:]]
        self.window.put_back(window, in_order=not slow)
        self.full.put_back(row, in_order=not slow)
        if slow:
            self.swa.free(ints(row))
        else:
            self.swa.free_segment(ints(row), swa_evicted=evicted)

    @precondition(lambda self: self.full.queued is None)
    @rule()
    def begin_group(self) -> None:
        self.full.group_begin()
        self.window.group_begin()
        self.swa.free_group_begin()

    @rule()
    def end_group(self) -> None:
        self.full.group_end()
        self.window.group_end()
        self.swa.free_group_end()

    @invariant()
    def pools_agree(self) -> None:
        if not hasattr(self, "swa"):
            return
        pairs = (
            (self.swa.full_attn_allocator, self.full),
            (self.swa.swa_attn_allocator, self.window),
        )
        for pool, model in pairs:
            assert sorted(pool.free_page_ids().tolist()) == sorted(
                [*model.free, *model.released, *(model.queued or [])]
            )
            assert pool.available_size() == model.available_size() <= pool.size

    @invariant()
    def the_mapping_agrees(self) -> None:
        if not hasattr(self, "swa"):
            return
        table = self.swa.full_to_swa_index_mapping.tolist()
        assert table.pop() == -1
        assert {slot: window for slot, window in enumerate(table) if window} == self.mapping

    @invariant()
    def used_window_pages_are_the_mapped_ones(self) -> None:
        if not hasattr(self, "swa"):
            return
        mapped = sorted({window // self.page_size for window in self.mapping.values()})
        free = self.swa.swa_attn_allocator.free_page_ids().tolist()
        assert sorted(free + mapped) == list(range(1, self.window.num_pages + 1))


TestWindowLife = WindowLife.TestCase
