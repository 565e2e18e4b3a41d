"""Version ranges compare release numbers."""

from __future__ import annotations

import pytest

from prtoggle.errors import SpecError
from prtoggle.versions import admits, parse_range


@pytest.mark.parametrize(
    ("range_text", "version", "fits"),
    [
        (">=0.5.16,<0.5.18", "0.5.16", True),
        (">=0.5.16,<0.5.18", "0.5.17.post1", True),
        (">=0.5.16,<0.5.18", "0.5.18", False),
        (">=0.5.16,<0.5.18", "0.5.9", False),
        ("<1", "0.99", True),
        ("<=1.0", "1", True),
        (">1.0", "1.0.0", False),
        (">1.0", "1.0.1", True),
        ("==1.2", "1.2.0", True),
        ("==1.2", "1.2.1", False),
        ("==1.2.*", "1.2.9", True),
        ("==1.2.*", "1.20", False),
        ("!=1.2.*", "1.2.9", False),
        ("!=1.2", "1.3", True),
        (" >= 2.0 , < 3 ", "v2.1+cu124", True),
        (">=10", "9", False),
        (">=2.0", "2.0rc1", True),
    ],
)
def test_a_version_is_in_a_range_or_not(range_text, version, fits):
    assert admits(range_text, version) is fits


@pytest.mark.parametrize("text", ["", "1.0", "~=1.0", ">=1.0,", ">1.*", "=1", ">=1.0 <2"])
def test_text_that_is_no_range(text):
    with pytest.raises(SpecError, match="no version condition"):
        parse_range(text)


def test_a_version_without_release_numbers():
    with pytest.raises(SpecError, match="does not begin with release numbers"):
        admits(">=1", "unknown")
