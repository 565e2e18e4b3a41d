"""Reads the JUnit file that pytest writes for a run."""

from __future__ import annotations

import xml.etree.ElementTree as ET  # the file is pytest's own, of this run
from typing import TYPE_CHECKING

from prtoggle.verify.verdict import TestOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def read_outcomes(path: Path) -> tuple[TestOutcome, ...]:
    """Every test case of the file, named `file::test` as far as the file tells; empty when there is none."""
    if not path.exists() or path.stat().st_size == 0:
        return ()
    root = ET.parse(path).getroot()  # noqa: S314  # written by our own child process
    return tuple(_outcomes(root))


def _outcomes(root: ET.Element) -> Iterator[TestOutcome]:
    for case in root.iter("testcase"):
        kind, message = "passed", ""
        # A test may both fail and err in its tear-down; what went wrong in the body is what counts.
        for child in case:
            if child.tag == "failure":
                kind, message = "failed", child.get("message", "")
                break
            if child.tag in {"error", "skipped"}:
                kind, message = ("error" if child.tag == "error" else "skipped"), child.get("message", "")
        yield TestOutcome(_name(case), kind, message.splitlines()[0] if message else "")


def _name(case: ET.Element) -> str:
    """`tests/toggles/test_x.py::test_y` from the class name that pytest writes as a dotted path."""
    name = case.get("name", "?")
    file = case.get("file")
    if file:
        return f"{file}::{name}"
    return f"{case.get('classname', '')}::{name}" if case.get("classname") else name
