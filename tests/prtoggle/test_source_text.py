"""A module's source is read byte for byte, and its lines are counted as Python counts them."""

from __future__ import annotations

import pytest

from prtoggle.errors import UnsupportedTargetError
from prtoggle.source.source_text import decode_source, read_source, split_lines


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"x = 1\r\ny = 2\r\n", "utf-8"),
        ("s = 'é'\n".encode(), "utf-8"),
        (b"\xef\xbb\xbfs = 1\n", "utf-8-sig"),
        (b"# -*- coding: latin-1 -*-\ns = '\xe9'\n", "iso-8859-1"),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\ns = '\x80'\n", "cp1252"),
        (b"# coding: ascii\nx = 1\n", "ascii"),
        (b"", "utf-8"),
    ],
)
def test_bytes_decode_and_encode_back(data, encoding, tmp_path):
    path = tmp_path / "m.py"
    path.write_bytes(data)
    source = read_source(path)
    assert (source.encoding, source.path) == (encoding, str(path))
    assert source.text.encode(source.encoding) == data
    assert not source.text.startswith("\ufeff")


@pytest.mark.parametrize(
    "data", [b"s = '\xe9'\n", b"# coding: nonsense\n", b"# coding: ascii\ns = '\xc3\xa9'\n"]
)
def test_bytes_that_are_not_text_are_refused_with_the_path(data):
    with pytest.raises(UnsupportedTargetError, match=r"m\.py"):
        decode_source(data, "m.py")


def test_lines_end_where_python_ends_them():
    assert split_lines("a\rb\r\nc\x0cd\u2028e\x85\nf") == ["a\r", "b\r\n", "c\x0cd\u2028e\x85\n", "f"]


def test_offsets_and_line_numbers():
    source = decode_source("é\r\nbc\n\nd".encode(), "m.py")
    assert source.starts == [0, 3, 6, 7, 8]
    assert [source.line_of(offset) for offset in range(9)] == [1, 1, 1, 2, 2, 2, 3, 4, 4]
    assert source.newline == "\r\n"


def test_an_empty_file_has_no_lines():
    source = decode_source(b"", "m.py")
    assert (source.lines, source.starts, source.newline, source.line_of(0)) == ([], [0], "\n", 1)
