"""Page arithmetic on plain integers; imports nothing.

A page is ``page_size`` consecutive slots. Token ``j`` of a request sits in the request's page ``j //
page_size``.
"""

from __future__ import annotations


def ceil_div(value: int, divisor: int) -> int:
    """The smallest integer that is at least ``value / divisor``."""
    return -(-value // divisor)


def align_up(num_tokens: int, page_size: int) -> int:
    """``num_tokens`` rounded up to whole pages, in tokens."""
    return ceil_div(num_tokens, page_size) * page_size


def align_down(num_tokens: int, page_size: int) -> int:
    """``num_tokens`` rounded down to whole pages, in tokens."""
    return num_tokens // page_size * page_size


def num_pages_between(prefix_len: int, seq_len: int, page_size: int) -> int:
    """Pages that a request takes when it grows from ``prefix_len`` to ``seq_len`` tokens."""
    return ceil_div(seq_len, page_size) - ceil_div(prefix_len, page_size)
