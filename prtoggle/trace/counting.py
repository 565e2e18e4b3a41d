"""What `itertools.count` and `itertools.cycle` will hand out, without asking them for it.

Their support for copies warns from Python 3.12 on, and is gone from 3.14 on. A count says where it is.
"""

from __future__ import annotations

import ast
import copy
import itertools
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def copy_of(counter: itertools.count[Any]) -> itertools.count[Any] | None:
    """A count that goes on from the same number; None for one of fractions, decimals or infinities."""
    text = repr(counter)
    try:
        arguments = ast.literal_eval(f"[{text.removeprefix('count(').removesuffix(')')}]")
    except (ValueError, SyntaxError):
        return None
    return itertools.count(*arguments)


def period_of(cycle: itertools.cycle[Any]) -> list[Any]:
    """What a cycle hands out until it begins anew, from the next one on. Raises TypeError."""
    with unwarned():
        reduced: Any = cycle.__reduce__()
    _, (rest,), (seen, is_complete) = reduced
    rest = list(copy.copy(rest))
    return [*rest, *(seen[: len(seen) - len(rest)] if is_complete else seen)]


@contextmanager
def unwarned() -> Iterator[None]:
    """Copies of iterators in the block warn nobody.

    The filters are exchanged as they are looked up: `warnings.catch_warnings` would let every line of the
    program that has warned warn once more.
    """
    before = warnings.filters
    warnings.filters = [("ignore", None, DeprecationWarning, None, 0)]
    try:
        yield
    finally:
        warnings.filters = before
