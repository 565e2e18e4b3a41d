"""Runs the code blocks of the documentation: `make docs`, or `pytest README.md docs`.

Blocks marked `python` run in one namespace per document. Blocks marked `console` run in a shell at the
project's root: lines that start with `$ ` are commands, the lines below are their output, where `...` stands
for anything.
Blocks with any other mark (`sh`, `text`, `yaml`) are shown, not run.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

pytest_plugins = ["pytester"]

_ROOT = Path(__file__).parent
_COMMAND = re.compile(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)\n?((?:(?!\$ )[^\n]*\n?)*)", re.MULTILINE)
_STATUS_LINE = re.compile(r"^\(exit status (\d+)\)\n?\Z", re.MULTILINE)


def _run_console(example: Example) -> str | None:
    """Runs every command of a block; returns what differs from the block, or None.

    A command is expected to end with 0 unless the output ends in a line `(exit status N)`.
    """
    environ = dict(
        os.environ, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", COLUMNS="100"
    )
    for command, shown in _COMMAND.findall(example.parsed):
        stated = _STATUS_LINE.search(shown)
        expected, status = (shown[: stated.start()], int(stated.group(1))) if stated else (shown, 0)
        done = subprocess.run(  # noqa: S603 (the project's own documentation)
            ["bash", "-c", command],  # noqa: S607
            cwd=_ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != status:
            return f"$ {command}\nended with {done.returncode}, not {status}:\n{done.stdout}"
        if expected.strip() and not _matches(expected, done.stdout):
            return f"$ {command}\nexpected:\n{expected}\ngot:\n{done.stdout}"
    return None


def _matches(expected: str, got: str) -> bool:
    """Compares line by line without trailing blanks, `...` standing for any text."""
    want, have = (
        "".join(f"{line.rstrip()}\n" for line in text.strip().splitlines()) for text in (expected, got)
    )
    return doctest.OutputChecker().check_output(want, have, doctest.ELLIPSIS)


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), CodeBlockParser(language="console", evaluator=_run_console)],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
    path=str(_ROOT),
).pytest()
