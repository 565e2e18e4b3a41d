"""How many compress states a request needs: length formulas in plain integers.

Compressed attention keeps, beside every token's KV, one KV entry per 4 tokens (c4) and one per 128 (c128). A
block that is not complete yet needs a *state* per token, so states exist for the tail of a sequence only:

    0                                    seq - seq % 128        seq
    |-- complete blocks: KV entries ------|-- tail: states ------|
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from kvcore.errors import ConfigurationError
from kvcore.page_math import ceil_div

if TYPE_CHECKING:
    from collections.abc import Sequence

C4_RATIO = 4
C128_RATIO = 128
KEPT_STATES = {C4_RATIO: 24, C128_RATIO: 192}
"""Positions of each ratio that an eviction of old states leaves alone."""

Phase = Literal["extend", "decode", "reserve"]


class StateLens(NamedTuple):
    """State positions of one ratio for every request of a batch; a position counts all states ever taken."""

    before: list[int]
    """Positions taken before this step."""
    after: list[int]
    """Positions taken after it."""
    offsets: list[int]
    """Token whose state position ``before`` holds."""


class DSV4StateLens(NamedTuple):
    """State positions of both ratios."""

    c4: StateLens
    c128: StateLens


def c4_state_len(seq_len: int) -> int:
    """States that an extend to ``seq_len`` tokens takes for ratio 4.

    Right behind a block boundary the last block's states are still read, as windows of ratio 4 overlap.
    """
    tail = seq_len % C128_RATIO
    if tail < C4_RATIO and seq_len >= C128_RATIO:
        return tail + C128_RATIO
    return tail


def c128_state_len(seq_len: int) -> int:
    """States that an extend to ``seq_len`` tokens takes for ratio 128."""
    return seq_len % C128_RATIO


def compute_dsv4_state_lens(
    c4_before: Sequence[int],
    c128_before: Sequence[int],
    prefix_lens: Sequence[int],
    seq_lens: Sequence[int],
    phase: Phase,
) -> DSV4StateLens:
    """State positions before and after a step, from host integers.

    ``extend`` takes the states of the new tail, ``decode`` one, ``reserve`` (speculation) one for every new
    token.
    """
    taken = {
        "extend": (
            [c4_state_len(seq_len) for seq_len in seq_lens],
            [c128_state_len(seq_len) for seq_len in seq_lens],
        ),
        "decode": ([1] * len(seq_lens),) * 2,
        "reserve": (
            [seq_len - prefix_len for prefix_len, seq_len in zip(prefix_lens, seq_lens, strict=True)],
        )
        * 2,
    }[phase]
    return DSV4StateLens(_advance(c4_before, taken[0], seq_lens), _advance(c128_before, taken[1], seq_lens))


def num_compressed(prefix_len: int, seq_len: int, ratio: int) -> int:
    """Compressed KV entries that become complete when a request grows from ``prefix_len`` to ``seq_len``."""
    return seq_len // ratio - prefix_len // ratio


def state_pool_size(
    ratio: int, page_size: int, max_running_requests: int, *, max_reserve_len: int = 0
) -> int:
    """States of one ratio for ``max_running_requests`` requests, in whole pages: at least two each.

    Enough for one request whose prompt is cut at pages. With speculation, whose steps reserve
    ``max_reserve_len`` tokens, a bound: the kept states, a page that they begin in, and a reserve that ends
    on a page.
    """
    # 1.8 * ratio, in integers.
    pages_per_request = max(2, ceil_div(9 * ratio, 5 * page_size) + 1)
    if ratio == C4_RATIO:
        # A prompt that ends right behind a block takes its states on top of the page that is kept.
        pages_per_request = max(pages_per_request, ceil_div(page_size + C128_RATIO + C4_RATIO - 1, page_size))
    if max_reserve_len:
        most = KEPT_STATES[ratio] + max_reserve_len + 2 * (page_size - 1)
        pages_per_request = max(pages_per_request, ceil_div(most, page_size))
    return pages_per_request * max_running_requests * page_size


def state_watermark(num_positions: int, ratio: int, page_size: int) -> int:
    """Positions at the front that may be evicted when ``num_positions`` are taken; whole pages."""
    return max(0, num_positions - KEPT_STATES[ratio]) // page_size * page_size


def check_dsv4_page_size(page_size: int) -> None:
    """Raise ConfigurationError unless a page holds whole blocks of both ratios."""
    if page_size < C128_RATIO or page_size % C128_RATIO:
        raise ConfigurationError(
            f"compressed attention needs pages of a multiple of {C128_RATIO} tokens, found {page_size}"
        )


def _advance(before: Sequence[int], taken: Sequence[int], seq_lens: Sequence[int]) -> StateLens:
    return StateLens(
        list(before),
        [start + num for start, num in zip(before, taken, strict=True)],
        [seq_len - num for seq_len, num in zip(seq_lens, taken, strict=True)],
    )
