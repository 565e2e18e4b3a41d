"""A small project to start interpreters in: a package with a fix in it, a catalogue, and what its processes report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from types import MappingProxyType
from typing import TYPE_CHECKING

from prtoggle import report

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

ROOT = Path(__file__).parents[2]
NOTHING: Mapping[str, str] = MappingProxyType({})

#: `answer` is 42 with the fix of toggle 1 and 41 without it; toggle 2 takes the fix of `other` out.
MODULE = """\
def answer():
    value = 41
    value += 1
    return value


def other(flag=False):
    if flag:
        return "new"
    return "fixed"
"""

SPECS = {
    "1.yaml": """\
        title: answer is one more
        patches:
          - target: app.core.answer
            edits:
              - match: value += 1
                replacement: ""
        """,
    "2.yaml": """\
        patches:
          - target: app.core.other
            edits:
              - match: return "fixed"
                replacement: return "old"
        """,
}


def heed_signals() -> None:
    """For `preexec_fn`: a job in the background, or under nohup, ignores signals, and would hand that on."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@dataclass
class Project:
    """Folders of one test: `root` holds the package `app` and the catalogue `toggles`, `reports` is empty."""

    root: Path
    reports: Path = field(init=False)

    def __post_init__(self) -> None:
        self.reports = self.root.parent / f"{self.root.name}-reports"
        self.reports.mkdir()
        self.write(
            {
                "app/__init__.py": "",
                "app/core.py": MODULE,
                "app/__main__.py": "from app.core import answer\nprint(answer())\n",
                "pyproject.toml": '[tool.prtoggle]\ncatalogues = ["toggles"]\n',
                **{f"toggles/{name}": text for name, text in SPECS.items()},
            }
        )

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the project the working directory of this process, without toggles, and wide to print in."""
        for name in ("PRTOGGLE", "PRTOGGLE_PATH", "PRTOGGLE_CATALOGUES", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PYTHONPATH", str(self.root))
        monkeypatch.setenv("COLUMNS", "300")
        monkeypatch.chdir(self.root)
        monkeypatch.syspath_prepend(self.root)

    def environ(self, toggles: str | None = None, variables: Mapping[str, str] = NOTHING) -> dict[str, str]:
        """An environment in which children find the package, and report; the caller's own toggles are gone."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PRTOGGLE")}
        made = {
            **inherited,
            "PYTHONPATH": f"{self.root}{os.pathsep}{ROOT}",
            "PRTOGGLE_REPORT": str(self.reports),
        }
        if toggles is not None:
            made["PRTOGGLE"] = toggles
        return {**made, **variables}

    def python(
        self,
        *arguments: str,
        toggles: str | None = None,
        cwd: Path | None = None,
        variables: Mapping[str, str] = NOTHING,
    ) -> subprocess.CompletedProcess[str]:
        """Runs this interpreter in the project, with toggles in its environment."""
        return self.run([sys.executable, *arguments], toggles=toggles, cwd=cwd, variables=variables)

    def python_that_finds_it_late(self, *arguments: str, toggles: str) -> subprocess.CompletedProcess[str]:
        """Runs `-c CODE` or `-m MODULE` in a program that adds the project to its path when it runs.

        At start-up nobody knows the package yet, so that everything happens when the target is imported.
        """
        flag, what = arguments
        start = what if flag == "-c" else f"import runpy; runpy.run_module({what!r}, run_name='__main__')"
        code = f"import sys; sys.path.insert(0, {str(self.root)!r})\n{start}"
        variables = {"PYTHONPATH": str(ROOT), "PRTOGGLE_PATH": str(self.root / "toggles")}
        return self.python("-c", code, toggles=toggles, cwd=self.reports, variables=variables)

    def run(
        self,
        command: list[str],
        *,
        toggles: str | None = None,
        cwd: Path | None = None,
        variables: Mapping[str, str] = NOTHING,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=cwd or self.root,
            env=self.environ(toggles, variables),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def prtoggle(
        self, *arguments: str, variables: Mapping[str, str] = NOTHING
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command line; a wide terminal keeps the words of a table together."""
        return self.python("-m", "prtoggle", *arguments, variables={"COLUMNS": "300", **variables})

    def states(self, toggle: str = "1", target: str = "app.core.answer") -> list[str]:
        """What each process that reported had come to with that patch, in the order of their starts."""
        strength = ("armed", "loaded", "activated", "failed")
        return [
            max((name for name in strength if process.names(name, toggle, target)), key=strength.index)
            for process in report.read(self.reports)
        ]
