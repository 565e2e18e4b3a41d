"""What README.md and docs/ show is what happens.

Blocks marked `python` run, in one namespace a page, in an empty folder. A block whose first line is a comment
with a file name (`# tests/test_rows.py`) is that file instead: it is written into the folder.
Blocks marked `console` run in a shell: lines that start with `$ ` are commands, the lines below are their
output, where `...` stands for anything. A last line `(exit status N)` is the status that is expected, else 0.
They run in the project's root, or in the page's folder once the page has put a file there.
Blocks with any other mark (`sh`, `text`) are shown, not run.
"""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from prtoggle.cli import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Made by `make catalogue`; the pages that lead to it do not wait for it.
GENERATED = ROOT / "docs/catalogue.md"
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

_BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.\w+)\n")
_COMMAND = re.compile(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)\n?((?:(?!\$ )[^\n]*\n?)*)", re.MULTILINE)
_STATUS_LINE = re.compile(r"^\(exit status (\d+)\)\n?\Z", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


class Block(NamedTuple):
    """One fenced block: its mark, its text, and the line of the page that its text starts on."""

    mark: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start(2)) + 1) for match in _BLOCK.finditer(text)
    ]


def put_file(block: Block, folder: Path) -> bool:
    """Writes the file that a block is, if it is one; says whether it is."""
    named = _FILE.match(block.text)
    if not named:
        return False
    file = folder / named[1]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.text[named.end() :].lstrip("\n"), encoding="utf-8")
    return True


def run_console(block: Block, folder: Path) -> None:
    """Runs the commands of a block, and compares statuses and outputs."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("PRTOGGLE", "PYTEST_"))
    }
    environ |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for command, shown in _COMMAND.findall(block.text):
        stated = _STATUS_LINE.search(shown)
        expected, status = (shown[: stated.start()], int(stated.group(1))) if stated else (shown, 0)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == status, f"$ {command}\nended with {done.returncode}:\n{done.stdout}"
        if expected.strip():
            assert matches(expected, done.stdout), f"$ {command}\nshown:\n{expected}\ngot:\n{done.stdout}"


def matches(expected: str, got: str) -> bool:
    """Compares line by line without trailing blanks, `...` standing for any text."""
    want, have = (
        "".join(f"{line.rstrip()}\n" for line in text.strip().splitlines()) for text in (expected, got)
    )
    return doctest.OutputChecker().check_output(want, have, doctest.ELLIPSIS)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_what_a_page_shows_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if any("kvcore" in block.text for block in blocks(page) if block.mark in {"python", "console"}):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "page"}
    for block in blocks(page):
        if put_file(block, tmp_path):
            continue
        if block.mark == "python":
            # Padded, so that a traceback shows the line of the page.
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            exec(code, namespace)
        elif block.mark == "console":
            run_console(block, tmp_path if any(tmp_path.iterdir()) else ROOT)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_of_a_page_lead_to_files_and_headings_that_exist(page: Path) -> None:
    wrong = []
    for link in _LINK.findall(_BLOCK.sub("", page.read_text(encoding="utf-8"))):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        missing = not target.exists() and target != GENERATED
        if missing or (anchor and anchor not in anchors(target)):
            wrong.append(link)

    assert not wrong


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings can be linked to."""
    headings = _HEADING.findall(_BLOCK.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs/index.md"
    linked = {
        (index.parent / link.partition("#")[0]).resolve()
        for link in _LINK.findall(index.read_text(encoding="utf-8"))
    }

    assert linked >= {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - {index}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_described(command: str) -> None:
    module, attribute = COMMANDS[command]
    options = [
        parameter.opts
        for parameter in getattr(importlib.import_module(module), attribute).params
        if isinstance(parameter, click.Option)
    ]
    pages = [ROOT / "docs/cli.md", ROOT / f"docs/{command}.md"]
    text = "".join(page.read_text(encoding="utf-8") for page in pages if page.exists())

    assert f"`{command}" in text
    assert not [spellings for spellings in options if not any(name in text for name in spellings)]


@pytest.mark.parametrize(("package", "pages"), [("prtoggle", "docs/*.md"), ("kvcore", "docs/kvcore/*.md")])
def test_every_public_name_is_described(package: str, pages: str) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob(pages))
    names = set(importlib.import_module(package).__all__) - {"__version__"}

    assert {name for name in names if not re.search(rf"\b{name}\b", text)} == set()
