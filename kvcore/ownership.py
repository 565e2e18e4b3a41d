"""Who holds each page of a pool: the free list, a request, the tree; exactly one of them may, and one must.

Every holder names its pages, and a count per page shows what is lost (nobody's), freed twice, or held by two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

_MAX_SHOWN = 6
"""Pages that a message lists before it says how many more there are."""


class PageLedger:
    """Counts the holders of pages ``1..num_pages`` of one pool; page 0 is reserved and may have none.

    ``noun`` names a page in messages: rows and states are pages of one, too.
    """

    def __init__(self, noun: str, num_pages: int) -> None:
        self._noun = noun
        self._num_pages = num_pages
        self._holders: list[tuple[str, Ids]] = []

    def add(self, holder: str, pages: Ids) -> None:
        """Note that ``holder`` names ``pages`` (int64 [n]); a page that it names twice counts twice."""
        if len(pages):
            self._holders.append((holder, pages))

    def fault(self) -> str | None:
        """What is wrong, with the pages and their holders; ``None`` when every page has exactly one."""
        named = (
            np.concatenate([pages for _, pages in self._holders]) if self._holders else np.zeros(0, np.int64)
        )
        outside = named[(named < 0) | (named > self._num_pages)]
        if len(outside):
            return self._describe("outside the pool", outside)
        counts = np.bincount(named, minlength=self._num_pages + 1)
        if counts[0]:
            return self._describe("reserved, but in use", np.zeros(1, np.int64))
        shared = np.flatnonzero(counts > 1)
        if len(shared):
            return self._describe("held more than once", shared)
        lost = np.flatnonzero(counts[1:] == 0) + 1
        if len(lost):
            return self._describe("lost, held by nobody", lost)
        return None

    def _describe(self, what: str, pages: Ids) -> str:
        shown = ", ".join(self._with_holders(page) for page in np.unique(pages)[:_MAX_SHOWN].tolist())
        return f"{len(np.unique(pages))} of {self._num_pages} {self._noun}s are {what}: {shown}"

    def _with_holders(self, page: int) -> str:
        holders = [
            f"{holder} x{count}" if count > 1 else holder
            for holder, pages in self._holders
            if (count := int((pages == page).sum()))
        ]
        return f"{self._noun} {page} ({' + '.join(holders) or 'nobody'})"


def as_ids(values: torch.Tensor | Sequence[int]) -> Ids:
    """A tensor, or a list, of ids as a host array of int64; synchronises the device."""
    host = values.cpu().numpy() if isinstance(values, torch.Tensor) else values
    return np.asarray(host, dtype=np.int64)
