"""A command of an interpreter that lacks a dependency says which one, and which interpreter has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run_without(dependency: str, package: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = (
        f"import runpy, sys; sys.modules[{dependency!r}] = None; sys.argv[1:] = {list(arguments)!r}; "
        f"runpy.run_module({package!r}, run_name='__main__', alter_sys=True)"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PRTOGGLE")}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("package", "dependency", "arguments"),
    [
        ("kvcore", "numpy", ["simulate"]),
        ("kvcore", "torch", ["simulate"]),
        ("kvcore", "rich", ["simulate"]),
        ("kvcore", "click", []),
        ("prtoggle", "click", ["list"]),
        ("prtoggle", "rich", ["list"]),
        ("prtoggle", "rich", ["run", "26972", "true"]),
        ("prtoggle", "yaml", ["list"]),
    ],
)
def test_the_missing_dependency_and_the_way_to_it_are_named(
    package: str, dependency: str, arguments: list[str]
) -> None:
    if package == "kvcore":
        pytest.importorskip("torch")
    done = run_without(dependency, package, *arguments)

    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert dependency in done.stderr
    assert f"{sys.executable} does not have" in done.stderr
    assert f".venv/bin/python -m {package}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_module_that_is_no_dependency_is_not_hidden() -> None:
    done = run_without("kvcore.simulate.cli", "kvcore", "simulate")

    assert done.returncode == 1
    assert "Traceback" in done.stderr
