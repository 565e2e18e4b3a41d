"""The size of a pool in which every layer keeps every token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.errors import NotEnoughMemory
from kvcore.page_math import align_down

if TYPE_CHECKING:
    from collections.abc import Sequence


def configure_full_pool(
    budget_bytes: int,
    cell_size: int,
    page_size: int,
    *,
    max_total_tokens: int | None = None,
    dcp_size: int = 1,
) -> int:
    """Tokens of the pool, whole pages: ``budget_bytes`` at ``cell_size`` bytes per token in all layers.

    ``max_total_tokens`` is the user's limit. The ranks of a context-parallel group of ``dcp_size`` hold
    different tokens of the same requests, so their allocator has that many times the tokens of one rank.
    Raises NotEnoughMemory when not one page fits.
    """
    num_tokens = budget_bytes // cell_size
    if max_total_tokens is not None:
        num_tokens = min(num_tokens, max_total_tokens)
    num_tokens = align_down(num_tokens, page_size)
    if num_tokens <= 0:
        raise NotEnoughMemory(
            f"not enough memory: {budget_bytes} bytes at {cell_size} bytes per token hold no page of "
            f"{page_size} tokens (limit {max_total_tokens}); raise mem_fraction_static or lower the page size"
        )
    return num_tokens * dcp_size


def smallest_of_ranks(num_tokens: Sequence[int], page_size: int) -> int:
    """The size that all pipeline ranks can serve, whole pages; they must agree on it."""
    return align_down(min(num_tokens), page_size)
