"""Compiling again what was compiled before, without its warnings.

The compiler warns of an invalid escape or a comparison by `is` each time it sees one. Whoever loaded the
module has been told; to be told again would be noise, and where warnings are errors nothing would compile.
"""

from __future__ import annotations

import ast
import contextlib
import sys
import warnings
from typing import Any, Final

# What the compiler warns by: Python 3.11 reports an invalid escape as a deprecation.
_CATEGORIES: Final = (SyntaxWarning, DeprecationWarning)
_IGNORED: Final = [("ignore", None, category, None, 0) for category in _CATEGORIES]


class _Ignoring:
    """Puts entries in front of the filters, and takes them out again.

    The compiler asks the filters anew for each warning and keeps no register of what it gave. So unlike
    `warnings.catch_warnings` this need not invalidate the registers of every module, after which warnings
    that a program was given once would come again.
    """

    __slots__ = ("_filters",)

    def __enter__(self) -> None:
        # Another thread may put another list in place meanwhile.
        self._filters: list[Any] = warnings.filters  # type: ignore[assignment]  # typeshed has a sequence
        self._filters[:0] = _IGNORED

    def __exit__(self, *_: object) -> None:
        filters = self._filters
        if filters[: len(_IGNORED)] == _IGNORED:
            del filters[: len(_IGNORED)]
            return
        for entry in _IGNORED:
            # Another thread has put its own entries in front.
            with contextlib.suppress(ValueError):
                filters.remove(entry)


class _Catching(warnings.catch_warnings):
    """The same where filters may belong to a context, from Python 3.14 on."""

    def __enter__(self) -> None:
        super().__enter__()
        for category in _CATEGORIES:
            warnings.simplefilter("ignore", category)


def compiling() -> contextlib.AbstractContextManager[None]:
    """The context to compile in: what the compiler warns of is ignored, in every thread."""
    return _Ignoring() if sys.version_info < (3, 14) else _Catching()


def parse(text: str) -> ast.Module:
    """The syntax tree of `text`, without warnings. Raises SyntaxError or ValueError."""
    with compiling():
        return ast.parse(text)
