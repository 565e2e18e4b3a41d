"""Fixtures and settings that hold for every test."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# No deadline anywhere: the machines that run this share their cores, and time is the benchmarks' matter.
hypothesis.settings.register_profile("default", deadline=None, max_examples=50)
hypothesis.settings.register_profile("ci", deadline=None, max_examples=50, print_blob=True)
hypothesis.settings.register_profile("deep", deadline=None, max_examples=5000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


# Without torch there is no kvcore, and what its guards guard is not there either.
collect_ignore = [] if find_spec("torch") else ["kvcore", "toggles"]


def pytest_report_header() -> list[str]:
    return [f"without torch, tests/{folder} is left out" for folder in collect_ignore]


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Puts the environment back after each test, and fails a test that leaves a fix taken out."""
    environ = dict(os.environ)
    before = _active()
    yield
    os.environ.clear()
    os.environ.update(environ)
    left = [toggle_id for toggle_id in _active() if toggle_id not in before]
    assert not left, f"the test left toggles reverted: {left}"


def _active() -> list[str]:
    """Ids of the toggles that are armed or active now; nothing of the engine is imported to find out."""
    engine = sys.modules.get("prtoggle.engine")
    return [] if engine is None else [state.toggle.id for state in engine.states()]
