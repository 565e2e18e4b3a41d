"""Who holds the pages that hang on full pages and rows: the window's, and those of compressed attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvcore.ownership import PageLedger, as_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcore.allocators.base import MapsWindow
    from kvcore.allocators.dsv4 import DSV4Allocator
    from kvcore.ownership import Ids


def window_mapping(allocator: MapsWindow, page_size: int) -> Ids:
    """int64 [pages, page_size], the window slots of each full page; 0 where there is none."""
    # The last entry of the mapping belongs to the empty prefix.
    return as_ids(allocator.full_to_swa_index_mapping)[:-1].reshape(-1, page_size)


def window_fault(allocator: MapsWindow, mapping: Ids, page_size: int, free_pages: Ids) -> str | None:
    """What is wrong with the window's pages: a free full page has none, and each has one holder (I7)."""
    is_mapped = np.asarray(mapping.any(axis=1))
    mapped_pages = np.flatnonzero(is_mapped)
    stale = np.sort(free_pages[is_mapped[free_pages]])
    if len(stale):
        return f"free full page {stale[0]} still leads to the window: {mapping[stale[0]]}"
    window = allocator.swa_attn_allocator
    ledger = PageLedger("window slot" if page_size == 1 else "window page", window.size // page_size)
    ledger.add("free", as_ids(window.free_page_ids()))
    ledger.add("mapped", mapping[mapped_pages].max(axis=1) // page_size)
    return ledger.fault()


def compressed_fault(allocator: DSV4Allocator, rows: Sequence[int], free_pages: Ids) -> str | None:
    """What is wrong with the compressed pages and the states of the requests in ``rows``.

    Every full page that is not free is bound to one compressed page of each ratio, no free one is; and the
    state pages that are not free are those of the rows.
    """
    for compressed in allocator.compressed:
        bound = as_ids(compressed.page_of)
        is_free = np.zeros(len(bound), dtype=np.bool_)
        is_free[free_pages] = True
        # The reserved page is nobody's.
        is_free[0] = True
        wrong = np.flatnonzero(is_free == (bound > 0))
        if len(wrong):
            state = "free, but bound to" if is_free[wrong[0]] else "in use, but bound to"
            return f"full page {wrong[0]} is {state} c{compressed.ratio} page {bound[wrong[0]]}"
        ledger = PageLedger(f"c{compressed.ratio} page", compressed.allocator.num_pages)
        ledger.add("free", as_ids(compressed.allocator.free_page_ids()))
        ledger.add("bound", bound[bound > 0])
        if fault := ledger.fault():
            return fault
    for states in allocator.states:
        ledger = PageLedger(f"c{states.ratio} state page", states.allocator.num_pages)
        ledger.add("free", as_ids(states.allocator.free_page_ids()))
        for row in rows:
            ledger.add(f"row {row}", as_ids(states.pages_of(row)))
        if fault := ledger.fault():
            return fault
    return None
