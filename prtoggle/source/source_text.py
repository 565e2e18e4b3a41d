"""The source of one module, byte for byte, and its lines as Python counts them.

Python ends a line at CR LF, CR or LF and nowhere else: a form feed or a Unicode line separator, at which
`str.splitlines` would split too, stands inside a line.
"""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from prtoggle.errors import UnsupportedTargetError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """A module's text with the newlines of its file, without a byte order mark.

    `text.encode(encoding)` gives the bytes of the file back; a file that begins with a byte order mark has
    the encoding "utf-8-sig".
    """

    path: str
    text: str
    encoding: str = "utf-8"
    _lines: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    _starts: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def lines(self) -> list[str]:
        """The lines with their ends, in file order; the list is cached and belongs to this object."""
        if not self._lines:
            self._lines.extend(split_lines(self.text))
        return self._lines

    @property
    def starts(self) -> list[int]:
        """`starts[i]` is the offset of line i (from 0) in `text`; the last entry is the length of `text`."""
        if not self._starts:
            self._starts.extend(accumulate(map(len, self.lines), initial=0))
        return self._starts

    def line_of(self, offset: int) -> int:
        """The number (from 1) of the line that holds `offset`."""
        from bisect import bisect_right  # noqa: PLC0415  # only diagnoses ask

        return max(1, min(bisect_right(self.starts, offset), len(self.lines)))

    @property
    def newline(self) -> str:
        """The line end of the first line, which stands for the whole file; a file without one has LF."""
        return newline_of(self.lines)


def newline_of(lines: Sequence[str]) -> str:
    """The line end of the first line; LF when it has none."""
    first = lines[0] if lines else ""
    return first[len(first.rstrip("\r\n")) :] or "\n"


def split_lines(text: str) -> list[str]:
    """The lines of `text` with their ends, as Python's tokenizer counts them."""
    return io.StringIO(text, newline="").readlines()


def read_source(path: str | Path) -> ModuleSource:
    """Read and decode the file by its byte order mark or PEP 263 cookie, newlines untouched.

    Raises UnsupportedTargetError when the file is not text in its declared encoding, and OSError when it
    cannot be read.
    """
    return decode_source(Path(path).read_bytes(), str(path))


def decode_source(data: bytes, path: str) -> ModuleSource:
    """The bytes of a Python file as a ModuleSource. Raises UnsupportedTargetError when they do not decode."""
    # Without a cookie an ASCII file is what it looks like, and most files are.
    if data.isascii():
        head = data[:400]
        if b"coding" not in head:
            return ModuleSource(path, data.decode("ascii"), "utf-8")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return ModuleSource(path, data.decode(encoding), encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise UnsupportedTargetError(f"{path} cannot be decoded as Python source: {error}") from error
