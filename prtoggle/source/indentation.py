"""Indentation of blocks of lines: common prefix, and the translation from a spec's style to a file's.

Lines that begin inside a string literal have no indentation: their leading blanks are the string's.
"""

from __future__ import annotations

import os.path
import re
from functools import reduce
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

DEFAULT_UNIT = 4

# Order matters: a triple quote is tried before a single one, and a literal that the text cuts off comes last.
_TOKENS = re.compile(
    r'#[^\r\n]*|"""(?:\\.|[^\\])*?"""|' + r"'''(?:\\.|[^\\])*?'''|"
    r'"""(?:\\.|[^\\])*\Z|' + r"'''(?:\\.|[^\\])*\Z|"
    r'"(?:\\(?:\r\n|.)|[^"\\\r\n])*"|' + r"'(?:\\(?:\r\n|.)|[^'\\\r\n])*'",
    re.DOTALL,
)
_LINE_END = re.compile(r"\r\n|\r|\n")
_MULTILINE_HINT = re.compile(r'"""|\'\'\'|\\(?:\r|\n)')


def leading(line: str) -> str:
    """The blanks that `line` begins with."""
    return line[: len(line) - len(line.lstrip(" \t\f"))]


def string_lines(text: str) -> frozenset[int]:
    """The lines of `text` (from 0) that begin inside a string literal.

    `text` may be a fragment, but has to begin in code. A quote of the same kind nested in an f-string's
    braces (valid from Python 3.12 on) is taken as two strings, which comes to the same lines.
    """
    if not _MULTILINE_HINT.search(text):
        return frozenset()
    inside: set[int] = set()
    line = position = 0
    for token in _TOKENS.finditer(text):
        line += len(_LINE_END.findall(text, position, token.start()))
        ends = len(_LINE_END.findall(text, token.start(), token.end()))
        inside.update(range(line + 1, line + ends + 1))
        line, position = line + ends, token.end()
    return frozenset(inside)


def common_indent(lines: Sequence[str], skip: Collection[int] = ()) -> str:
    """The longest run of blanks that all lines begin with; blank lines and those in `skip` do not count."""
    blanks = [leading(line) for index, line in enumerate(lines) if line.strip() and index not in skip]
    return os.path.commonprefix(blanks)  # noqa: RUF071  # blanks are compared by character, not by path


class Style(NamedTuple):
    """How a block of the file is indented, against how the spec indents it.

    `base` stands before every line of the block. One level deeper is `unit` characters of `char` in the file;
    `ratio` is (characters in the file, characters in the spec) where the matched lines showed it.
    """

    base: str
    char: str
    unit: int
    ratio: tuple[int, int] | None = None

    def translate(self, blanks: str, spec_unit: int) -> str:
        """The file's spelling of a line's indentation relative to its block."""
        if self.char == "\t":
            if not blanks.strip("\t"):
                return blanks
            levels, rest = divmod(
                len(blanks.expandtabs(spec_unit)), self.ratio[1] if self.ratio else spec_unit
            )
            return "\t" * levels * (self.ratio[0] if self.ratio else 1) + " " * rest
        width = self._tab_width(blanks) if "\t" in blanks else len(blanks)
        if self.ratio and "\t" not in blanks and (width * self.ratio[0]) % self.ratio[1] == 0:
            width = width * self.ratio[0] // self.ratio[1]
        return " " * width

    def _tab_width(self, blanks: str) -> int:
        per_tab = self.ratio[0] if self.ratio else self.unit
        return blanks.count("\t") * per_tab + blanks.count(" ")


def style_of(base: str, nearby: Sequence[str], ratio: tuple[int, int] | None = None) -> Style:
    """The style of a block indented by `base`; `nearby` lines of the file show its character and its unit."""
    blanks = [leading(line) for line in nearby if line.strip()]
    tabs = "\t" in base or (not base and any(blank.startswith("\t") for blank in blanks))
    return Style(base, "\t" if tabs else " ", 1 if tabs else indent_unit(blanks), ratio)


def indent_unit(blanks: Sequence[str]) -> int:
    """The greatest number that divides all indentations, where it makes sense as a unit; else 4."""
    unit = reduce(gcd, (len(blank) for blank in blanks if "\t" not in blank), 0)
    return unit if unit in (2, 3, 4, 8) else DEFAULT_UNIT


def fit_block(text: str, style: Style, newline: str) -> str:
    """`text` with its common indentation replaced by the style's, every line ended by `newline`.

    Contents of string literals keep their blanks; blank lines stay blank; the relative indentation of the
    lines is kept. Empty for a blank text.
    """
    lines = [line.rstrip("\r\n") for line in _trim(text)]
    inside = string_lines("\n".join(lines))
    base = common_indent(lines, inside)
    spec_unit = indent_unit([leading(line)[len(base) :] for i, line in enumerate(lines) if i not in inside])
    out = []
    for index, line in enumerate(lines):
        if index in inside:
            out.append(line)
        elif not line.strip():
            out.append("")
        else:
            blanks = leading(line)
            out.append(style.base + style.translate(blanks[len(base) :], spec_unit) + line[len(blanks) :])
    return "".join(line + newline for line in out)


def _trim(text: str) -> list[str]:
    """The lines of `text` without blank ones at both ends."""
    lines = _LINE_END.split(text)
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    return lines
