"""What `itertools.count` and `itertools.cycle` will hand out, without asking them for it.

Their support for copies warns from Python 3.12 on, and is gone from 3.14 on. A count says where it is.
"""

from __future__ import annotations

import ast
import copy
import itertools
from typing import Any


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
    reduced: Any = cycle.__reduce__()
    _, (rest,), (seen, is_complete) = reduced
    rest = list(copy.copy(rest))
    return [*rest, *(seen[: len(seen) - len(rest)] if is_complete else seen)]
