"""A paged pool in plain Python integers: what the real allocators must do, one token at a time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class PageModel:
    """Pages ``1..num_pages`` of ``page_size`` slots, first in, first out; ``None`` when a call cannot be served."""

    def __init__(self, num_pages: int, page_size: int, *, need_sort: bool = False) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self.need_sort = need_sort
        self.free = deque(range(1, num_pages + 1))
        self.released: list[int] = []
        self.queued: list[int] | None = None

    def available_size(self) -> int:
        return (len(self.free) + len(self.released)) * self.page_size

    def extend(self, prefix_len: int, seq_len: int, last_loc: int) -> list[int]:
        """Slots of tokens prefix_len..seq_len; the caller has counted the pages."""
        slots = []
        for token in range(prefix_len, seq_len):
            last_loc = self.free.popleft() * self.page_size if token % self.page_size == 0 else last_loc + 1
            slots.append(last_loc)
        return slots

    def alloc_extend(
        self, prefix_lens: Sequence[int], seq_lens: Sequence[int], last_locs: Sequence[int]
    ) -> list[int] | None:
        new_tokens = [range(*lens) for lens in zip(prefix_lens, seq_lens, strict=True)]
        num_pages = sum(token % self.page_size == 0 for tokens in new_tokens for token in tokens)
        if not self.make_room(num_pages):
            return None
        grown = zip(prefix_lens, seq_lens, last_locs, strict=True)
        return [slot for request in grown for slot in self.extend(*request)]

    def make_room(self, num_pages: int) -> bool:
        """Whether so many pages can be taken; what was released is merged where, and only where, that helps."""
        if num_pages > len(self.free) + len(self.released):
            return False
        if num_pages > len(self.free):
            self.free.extend(sorted(self.released))
            self.released = []
        return True

    def put_back(self, slots: Iterable[int], *, in_order: bool) -> None:
        """Free the pages that ``slots`` touch, in the order of the slots or in ascending order."""
        pages = list(dict.fromkeys(slot // self.page_size for slot in slots))
        pages = [page for page in (pages if in_order else sorted(pages)) if page > 0]
        if self.queued is not None:
            self.queued += pages
        elif self.need_sort:
            self.released += pages
        else:
            self.free += pages

    def group_begin(self) -> None:
        self.queued = []

    def group_end(self) -> None:
        pages, self.queued = self.queued, None
        if pages:
            (self.released if self.need_sort else self.free).extend(pages)


def is_page_regular(row: Sequence[int], page_size: int) -> bool:
    """Whether token ``j`` of a row sits at offset ``j % page_size`` of one page, ``j // page_size`` of the row."""
    return all(
        slot == row[token // page_size * page_size] // page_size * page_size + token % page_size
        for token, slot in enumerate(row)
    )
