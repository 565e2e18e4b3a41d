"""Types of values of which nothing can change."""

from __future__ import annotations

from types import CodeType
from typing import Final

#: Nothing of these can be changed.
CONSTANTS: Final = frozenset(
    {
        type(None), type(Ellipsis), type(NotImplemented), int, float, bool, complex, bytes, str, range, slice,
        CodeType, property,
    }
)  # fmt: skip
