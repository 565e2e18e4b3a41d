"""A repository in which fixes were made and later commits moved on, for the commands that read history."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

GIT_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


@dataclass
class History:
    """A work tree and the commits made in it, by subject."""

    root: Path
    commits: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")
        self.git("remote", "add", "origin", "https://github.com/owner/project.git")

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(self.root), *arguments],
            env={**os.environ, **GIT_ENVIRONMENT},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def replace(self, path: str, old: str, new: str) -> None:
        text = self.read(path)
        assert text.count(old) == 1, (path, old, text.count(old))
        (self.root / path).write_text(text.replace(old, new))

    def commit(self, subject: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject)
        self.commits[subject] = self.git("rev-parse", "HEAD").strip()
        return self.commits[subject]

    def sha(self, number: int) -> str:
        """The commit whose subject names that pull request."""
        return next(sha for subject, sha in self.commits.items() if f"(#{number})" in subject)


SIZING = '''\
"""Sizes."""

from __future__ import annotations

import math

LIMIT = 4


def pages_of(length, page_size):
    return math.ceil(length / page_size)


def row_width(length, page_size):
    base = length + LIMIT
    pages = math.ceil(base / page_size)
    return pages * page_size


def reserve(steps, topk):
    total = steps * topk
    return total


def watermark(length, page_size):
    pages = pages_of(length, page_size)
    return pages * page_size


def drafts(steps):
    width = steps + 1
    return width
'''

POOL = '''\
"""Pools."""

from __future__ import annotations


class Pool:
    """Slots."""

    spare = 1

    def __init__(self, size):
        self.size = size
        self.slots = list(range(size))

    def alloc(self, count):
        taken = self.slots[:count]
        self.slots = self.slots[count:]
        return taken

    def release(self, slots):
        self.slots += slots
'''

KERNELS = '''\
"""Kernels."""

from __future__ import annotations


def jit(function):
    return function


@jit
def copy_kernel(source, target, count, BLOCK):
    start = 0
    while start < count:
        target[start : start + BLOCK] = source[start : start + BLOCK]
        start += BLOCK
'''


def fixed_history(root: Path, package: str) -> History:
    """Fixes 101 to 114 of `package`, and what later commits made of the code."""
    history = History(root)
    sizing, pool, kernels = (f"{package}/{name}.py" for name in ("sizing", "pool", "kernels"))
    for path, text in (("__init__", ""), ("sizing", SIZING), ("pool", POOL), ("kernels", KERNELS)):
        history.write(f"{package}/{path}.py", text)
    history.write("pyproject.toml", '[tool.prtoggle]\ncatalogues = ["toggles"]\n')
    history.write("toggles/.gitkeep", "")
    history.commit("Start")
    _fixes(history, package, sizing, pool, kernels)
    _later(history, package, sizing, pool)
    return history


def _fixes(history: History, package: str, sizing: str, pool: str, kernels: str) -> None:
    history.replace(
        sizing,
        "    base = length + LIMIT\n",
        "    base = length + LIMIT\n    if page_size > 1:\n        base += page_size\n",
    )
    history.write(
        "tests/test_row_width.py",
        f"""\
        from {package}.sizing import LIMIT, row_width


        def test_a_row_has_room_for_one_more_page():
            assert row_width(4, 4) >= LIMIT + 8
        """,
    )
    history.write("tests/test_nothing.py", "def test_nothing():\n    assert True\n")
    history.commit("Rows have room for a page (#101)")
    history.replace(
        sizing,
        "def reserve(steps, topk):\n    total = steps * topk\n",
        "def reserve(steps, topk, page_size=1):\n    total = max(steps * topk, page_size)\n",
    )
    history.commit("Reserve at least a page (#102)")
    history.replace(sizing, "LIMIT = 4", "LIMIT = 8")
    history.replace(pool, "    spare = 1\n", "    spare = 2\n")
    history.commit("Spare more (#103)")
    history.replace(sizing, "import math\n", "import functools\nimport math\n")
    history.replace(sizing, "def drafts(", "@functools.cache\ndef drafts(")
    history.commit("Compute drafts once (#104)")
    history.replace(
        pool,
        "\n\nclass Pool:",
        "\n\ndef _checked(count):\n    if count < 0:\n        raise ValueError(count)\n    return count\n\n\nclass Pool:",
    )
    history.replace(pool, "self.slots[:count]\n", "self.slots[: _checked(count)]\n")
    history.commit("Refuse negative counts (#105)")
    history.replace(
        sizing, "def pages_of(length, page_size):\n    return math.ceil(length / page_size)\n\n\n", ""
    )
    history.replace(
        sizing, "    pages = pages_of(length, page_size)\n", "    pages = -(-length // page_size)\n"
    )
    history.commit("Count pages in integers (#106)")
    history.replace(pool, "        self.size = size\n", "        self.size = size\n        self.peak = 0\n")
    history.replace(
        pool,
        "        return taken\n",
        "        self.peak = max(self.peak, self.size - len(self.slots))\n        return taken\n",
    )
    history.commit("Remember the peak (#107)")
    history.replace(
        kernels,
        "    while start < count:\n        target[start : start + BLOCK] = source[start : start + BLOCK]\n",
        "    while start < count:\n        end = min(start + BLOCK, count)\n        target[start:end] = source[start:end]\n",
    )
    history.commit("Copy no more than asked (#108)")
    history.replace(
        pool,
        "        self.slots += slots\n",
        "        self.slots += [slot for slot in slots if slot is not None]\n",
    )
    history.commit("Release no padding (#109)")
    history.write("csrc/copy.cu", "// kernel\n")
    history.replace(sizing, "    width = steps + 1\n", "    width = steps + 2\n")
    history.commit("Widen drafts on the device too (#110)")
    history.write("README.md", "Sizes and pools.\n")
    history.commit("Say what it is (#111)")
    history.write(f"{package}/extra.py", "def extra():\n    return 1\n")
    history.commit("Add extras (#112)")
    history.replace(
        kernels,
        "def jit(function):\n    return function\n",
        "def jit(function):\n    function.compiled = True\n    return function\n",
    )
    history.commit("Mark compiled functions (#113)")
    history.replace(
        pool,
        'class Pool:\n    """Slots."""\n',
        'class Base:\n    def available(self):\n        return -1\n\n\nclass Pool(Base):\n    """Slots."""\n',
    )
    history.replace(
        pool,
        "    def release(",
        "    def available(self):\n        return len(self.slots)\n\n    def release(",
    )
    history.commit("Tell what is free (#114)")


def _later(history: History, package: str, sizing: str, pool: str) -> None:
    text = history.read(sizing)
    start, end = text.index("def row_width"), text.index("def reserve")
    function = text[start:end].rstrip() + "\n"
    history.write(
        f"{package}/widths.py",
        f'"""Widths."""\n\nimport math\n\nfrom {package}.sizing import LIMIT\n\n\n' + function,
    )
    history.replace(sizing, text[start:end], "")
    history.replace(
        f"{package}/widths.py",
        "    return pages * page_size\n",
        "    assert pages\n    return pages * page_size\n",
    )
    history.commit("Move widths out")
    history.replace(sizing, "    return total\n", "    total += 1\n    return total\n")
    history.commit("Count one more beside a fix")
    history.replace(
        pool, "for slot in slots if slot is not None]", "for slot in sorted(slots) if slot is not None]"
    )
    history.commit("Sort what comes back, on a fixed line")
    history.write(f"{package}/stats.py", "def peak_of(pool):\n    return pool.peak\n")
    history.commit("Show the peak elsewhere")
    history.replace("tests/test_row_width.py", f"{package}.sizing", f"{package}.widths")
    history.commit("Follow the move in the test")
