"""The public surface is what it says, costs nothing until it is used, and asks for settings in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kvcore

PACKAGE = Path(kvcore.__file__).parent

MOST_ACCESSOR_CALLS = 1
"""Calls of the process-wide accessor inside the package. May only fall: pass settings as arguments instead."""

SEED_NAMES = [
    "_alloc_page_size",
    "_compute_dsv4_state_lens",
    "alloc_for_decode",
    "alloc_for_extend",
    "alloc_for_spec_decode",
    "alloc_paged_token_slots_decode",
    "alloc_paged_token_slots_extend",
    "alloc_req_slots",
    "alloc_token_slots",
    "evict_from_tree_cache",
    "get_last_loc",
    "get_last_loc_torch",
    "write_cache_indices",
]


@pytest.mark.parametrize("name", kvcore.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert getattr(kvcore, name).__doc__


def test_public_names_are_sorted_and_complete():
    assert kvcore.__all__ == sorted(kvcore.__all__)
    assert set(kvcore.__all__) == set(kvcore._HOME_OF)


@pytest.mark.parametrize("name", SEED_NAMES)
def test_entry_points_keep_their_names(name):
    from kvcore import allocation

    assert callable(getattr(allocation, name))


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'alloc_for_extand'"):
        kvcore.alloc_for_extand  # noqa: B018


def test_the_arithmetic_alone_does_not_load_torch():
    code = "import sys, kvcore.allocation_sizing, kvcore.page_math; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=PACKAGE.parent).returncode == 0


def test_calls_of_the_global_accessor_may_only_fall():
    calls = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if "toggles" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("get_server_args")
    ]
    assert len(calls) == MOST_ACCESSOR_CALLS, f"found {calls}; if it fell, lower the number here"
