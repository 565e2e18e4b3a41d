"""What docs/spec-format.md shows is what loads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from prtoggle.loader import load_text
from prtoggle.source.diff_text import parse_diff
from prtoggle.spec_reader import _TOGGLE_KEYS
from prtoggle.static_check import Status

PAGE = (Path(__file__).parents[2] / "docs" / "spec-format.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_spec_of_the_page_loads(block):
    for patch in load_text(block, "spec-format.md", default_id="example").patches:
        if patch.fix_diff is not None:
            assert parse_diff(patch.fix_diff)


def test_the_page_shows_every_key_and_every_status():
    assert set(re.findall(r"^(\w+):", BLOCKS[1], re.MULTILINE)) == set(_TOGGLE_KEYS)
    rows = "".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert set(get_args(Status)) <= set(re.findall(r"`([a-z-]+)`", rows))
