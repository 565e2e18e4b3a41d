"""Compiling again what was compiled before, without its warnings.

The compiler warns of an invalid escape or a comparison by `is` each time it sees one. Whoever loaded the
module has been told; to be told again would be noise, and where warnings are errors nothing would compile.
"""

from __future__ import annotations

import ast
import contextlib
import re
import warnings
from typing import Final

# What the compiler may warn of: a backslash, a literal beside `is`, an assertion of a tuple, a literal that
# is called or indexed, a number that runs into a keyword.
_SUSPECT: Final = re.compile(
    r"""\\|\bis\b|\bassert\b|["'\])}\d]\s*[(\[]|\d(?:and|else|for|if|in|is|or|not)\b"""
)


class _Quiet(warnings.catch_warnings):
    """Ignores what the compiler warns of, in every thread: the filters belong to the whole process."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore", SyntaxWarning)
        # What Python 3.11 gives for an invalid escape.
        warnings.simplefilter("ignore", DeprecationWarning)


_NOTHING: Final = contextlib.nullcontext()


def compiling(text: str) -> contextlib.AbstractContextManager[None]:
    """The context to compile `text` in; it touches the filters only for a text that may need it."""
    return _NOTHING if _SUSPECT.search(text) is None else _Quiet()


def parse(text: str) -> ast.Module:
    """The syntax tree of `text`, without warnings. Raises SyntaxError or ValueError."""
    with compiling(text):
        return ast.parse(text)
