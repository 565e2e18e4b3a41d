"""Reads the JUnit file that pytest writes for a run."""

from __future__ import annotations

import xml.etree.ElementTree as ET  # the file is pytest's own, of this run
from typing import TYPE_CHECKING

from prtoggle.verify.verdict import TestOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def read_outcomes(path: Path, project: Path) -> tuple[TestOutcome, ...]:
    """Every test case of the file, named `file::test` as far as the file tells; empty when there is none.

    `project` is the folder that pytest ran in.
    """
    if not path.exists() or path.stat().st_size == 0:
        return ()
    root = ET.parse(path).getroot()  # noqa: S314  # written by our own child process
    return tuple(_outcomes(root, project))


def _outcomes(root: ET.Element, project: Path) -> Iterator[TestOutcome]:
    for case in root.iter("testcase"):
        kind, message = "passed", ""
        # A test may both fail and err in its tear-down; what went wrong in the body is what counts.
        for child in case:
            if child.tag == "failure":
                kind, message = "failed", child.get("message", "")
                break
            if child.tag in {"error", "skipped"}:
                kind, message = ("error" if child.tag == "error" else "skipped"), child.get("message", "")
        yield TestOutcome(_name(case, project), kind, message.splitlines()[0] if message else "")


def _name(case: ET.Element, project: Path) -> str:
    """`tests/toggles/test_x.py::test_y`.

    pytest names the file that a test's code stands in, which for an inherited test (a state machine of
    Hypothesis) is somebody else's. The class name is the dotted path of the module that the test belongs to.
    """
    name, file, owner = case.get("name", "?"), case.get("file"), case.get("classname", "")
    if file and owner.startswith(file.removesuffix(".py").replace("/", ".")):
        return f"{file}::{name}"
    parts = owner.split(".")
    for count in range(len(parts), 0, -1):
        module = "/".join(parts[:count]) + ".py"
        if (project / module).is_file():
            return f"{module}::{name}"
    return f"{file or owner}::{name}" if file or owner else name
