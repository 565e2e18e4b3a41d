"""Three fixes on their way through twenty commits: after each, `check` knows what happened, and heals the spec.

The specs are drafted from the fixes by `new`, and each heals from what the commit before has left. What a
spec has to make of the code then is written down beside each commit.
"""

from __future__ import annotations

import ast
import json
import sys
from importlib import metadata
from typing import NamedTuple

import pytest

from prtoggle.cli import main
from prtoggle.loader import load_file
from prtoggle.static_check import SourceCache, plan_modules
from tests.prtoggle.fix_history import GIT_ENVIRONMENT, KERNELS, History

PACKAGE = "hst_project"

SIZES = '''\
"""Sizes."""

from __future__ import annotations

import math


def row_width(length, page_size):
    base = length + 4
    pages = math.ceil(base / page_size)
    return pages * page_size
'''

POOL = '''\
"""Pools."""

from __future__ import annotations


class Pool:
    """Slots."""

    def __init__(self, size):
        self.slots = list(range(size))

    def take(self, count):
        taken = self.slots[:count]
        self.slots = self.slots[count:]
        return taken
'''

#: The three fixes: pull request, file, what was there, what is there since.
FIXES = (
    (
        1,
        "sizes",
        "    base = length + 4\n",
        "    base = length + 4\n    if page_size > 1:\n        base += page_size - 1\n",
    ),
    (
        2,
        "pool",
        "        taken = self.slots[:count]\n",
        "        if count > len(self.slots):\n            return None\n        taken = self.slots[:count]\n",
    ),
    (
        3,
        "kernels",
        "        target[start : start + BLOCK] = source[start : start + BLOCK]\n",
        "        end = min(start + BLOCK, count)\n        target[start:end] = source[start:end]\n",
    ),
)


class Step(NamedTuple):
    """One commit, and what has to come of the toggle that it is about; the others are unchanged.

    `changes` are replacements by file. `target` and `reverted` are what the spec names, and makes of it, when
    the commit is dealt with; both are empty where a person has to decide.
    """

    subject: str
    toggle: int
    drift: str
    finding: bool
    rewritten: bool
    changes: tuple[tuple[str, str, str], ...]
    target: str = ""
    reverted: str = ""


def row(head: str, base: str, *checks: str) -> str:
    """The sizing function without its fix."""
    pages = "pages = math.ceil(base / page_size)"
    lines = [base, pages, *checks, "return pages * page_size"]
    return "\n    ".join([head, *lines])


def take(*lines: str) -> str:
    """The pool's method without its fix."""
    return "\n".join(["def take(self, count):", *(f"    {line}" for line in lines)])


def kernel(name: str, parameters: str) -> str:
    """The kernel without its fix."""
    return (
        f"@jit\ndef {name}({parameters}):\n    start = 0\n    while start < count:\n"
        "        target[start:start + BLOCK] = source[start:start + BLOCK]\n        start += BLOCK"
    )


STEPS = (
    Step(
        "Lay the condition out anew", 1, "reflowed", False, True,
        (("sizes", "    if page_size > 1:\n", "    if (\n        page_size > 1\n    ):\n        # up to a page\n"),),
        "sizes.row_width", row("def row_width(length, page_size):", "base = length + 4"),
    ),
    Step(
        "Edit beside the fix", 1, "edited near the fix", False, False,
        (("sizes", "base = length + 4", "base = max(length, 1) + 4"),),
        "sizes.row_width", row("def row_width(length, page_size):", "base = max(length, 1) + 4"),
    ),
    Step(
        "Rename the function", 1, "target renamed", True, True,
        (("sizes", "def row_width(", "def columns_of("),),
        "sizes.columns_of", row("def columns_of(length, page_size):", "base = max(length, 1) + 4"),
    ),
    Step(
        "Move it into a module of its own", 1, "target moved", True, True,
        (("sizes", "MOVE columns_of", "widths"),),
        "widths.columns_of", row("def columns_of(length, page_size):", "base = max(length, 1) + 4"),
    ),
    Step(
        "Change the signature", 1, "edited near the fix", False, False,
        (
            ("widths", "length, page_size):", "length, page_size, *, spare=0):"),
            ("widths", "base = max(length, 1) + 4", "base = max(length, 1) + 4 + spare"),
        ),
        "widths.columns_of",
        row("def columns_of(length, page_size, *, spare=0):", "base = max(length, 1) + 4 + spare"),
    ),
    Step(
        "Decorate it", 1, "edited near the fix", False, False,
        (
            ("widths", "def columns_of(", "@functools.cache\ndef columns_of("),
            ("widths", "import math\n", "import functools\nimport math\n"),
        ),
        "widths.columns_of",
        row("@functools.cache\ndef columns_of(length, page_size, *, spare=0):", "base = max(length, 1) + 4 + spare"),
    ),
    Step(
        "Rename it again while editing it", 1, "target renamed", True, True,
        (
            ("widths", "def columns_of(", "def padded_width("),
            ("widths", "    return pages", "    assert pages > 0\n    return pages"),
        ),
        "widths.padded_width",
        row("@functools.cache\ndef padded_width(length, page_size, *, spare=0):", "base = max(length, 1) + 4 + spare", "assert pages > 0"),
    ),
    Step(
        "Rename the class", 2, "target moved", True, True,
        (("pool", "class Pool:", "class SlotPool:"),),
        "pool.SlotPool.take",
        take("taken = self.slots[:count]", "self.slots = self.slots[count:]", "return taken"),
    ),
    Step(
        "Count what is taken", 2, "edited near the fix", False, False,
        (("pool", "        return taken\n", "        self.taken = len(taken)\n        return taken\n"),),
        "pool.SlotPool.take",
        take("taken = self.slots[:count]", "self.slots = self.slots[count:]", "self.taken = len(taken)", "return taken"),
    ),
    Step(
        "Put the body below a lock", 2, "edited near the fix", False, False,
        (("pool", "INDENT with self.lock:", "take"),),
        "pool.SlotPool.take",
        take("with self.lock:", "    taken = self.slots[:count]", "    self.slots = self.slots[count:]",
             "    self.taken = len(taken)", "    return taken"),
    ),
    Step(
        "Pull the method up into a base class", 2, "target moved", True, True,
        (("pool", "class SlotPool:", "class Slots:"), ("pool", "END", "\n\nclass SlotPool(Slots):\n    pass\n")),
        "pool.Slots.take",
        take("with self.lock:", "    taken = self.slots[:count]", "    self.slots = self.slots[count:]",
             "    self.taken = len(taken)", "    return taken"),
    ),
    Step(
        "Give the kernel a parameter", 3, "edited near the fix", False, False,
        (("kernels", "count, BLOCK):", "count, BLOCK, WIDE=1):"),),
        "kernels.copy_kernel", kernel("copy_kernel", "source, target, count, BLOCK, WIDE=1"),
    ),
    Step(
        "Rename the kernel", 3, "target renamed", True, True,
        (("kernels", "def copy_kernel(", "def copy_blocks_kernel("),),
        "kernels.copy_blocks_kernel", kernel("copy_blocks_kernel", "source, target, count, BLOCK, WIDE=1"),
    ),
    Step(
        "Let later lines use what the fix brought", 3, "edited on the fix", True, False,
        (("kernels", "        start += BLOCK\n", "        start = end\n"),),
    ),
    Step(
        "Step by blocks again", 3, "unchanged", False, False,
        (("kernels", "        start = end\n", "        start += BLOCK\n"),),
        "kernels.copy_blocks_kernel", kernel("copy_blocks_kernel", "source, target, count, BLOCK, WIDE=1"),
    ),
    Step(
        "Change the fix itself", 3, "edited on the fix", True, False,
        (("kernels", "end = min(start + BLOCK, count)", "end = min(start + BLOCK * WIDE, count)"),),
    ),
    Step(
        "Take the fix of the pool out", 2, "already reverted", True, False,
        (("pool", "            if count > len(self.slots):\n                return None\n", ""),),
    ),
    Step(
        "Do without widths", 1, "fix gone", True, False,
        (("widths", "DELETE", ""),),
    ),
)  # fmt: skip


def change(history: History, name: str, old: str, new: str) -> None:
    """One change of a step; words in capitals stand for what is no replacement of a text."""
    path = f"{PACKAGE}/{name}.py"
    what, _, rest = old.partition(" ")
    text = history.read(path)
    if what == "MOVE":
        start = text.index(f"def {rest}(")
        head = '"""Widths."""\n\nfrom __future__ import annotations\n\nimport math\n\n\n'
        history.write(f"{PACKAGE}/{new}.py", head + text[start:])
        history.write(path, text[:start].rstrip() + "\n")
    elif what == "INDENT":
        start = text.index("\n", text.index(f"def {new}(")) + 1
        body = "".join(f"    {line}" for line in text[start:].splitlines(keepends=True))
        history.write(path, f"{text[:start]}        {rest}\n{body}")
    elif what == "END":
        history.write(path, text + new)
    elif what == "DELETE":
        (history.root / path).unlink()
    else:
        history.replace(path, old, new)


@pytest.fixture
def history(tmp_path, monkeypatch):
    """The three fixes, and a catalogue with their toggles, drafted and locked."""
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [])
    for name in ("PRTOGGLE", "PRTOGGLE_PATH", "PRTOGGLE_CATALOGUES", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**GIT_ENVIRONMENT, "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    history = History(tmp_path / "repository")
    for name, text in (("__init__", ""), ("sizes", SIZES), ("pool", POOL), ("kernels", KERNELS)):
        history.write(f"{PACKAGE}/{name}.py", text)
    history.write("pyproject.toml", '[tool.prtoggle]\ncatalogues = ["toggles"]\n')
    history.write("toggles/.gitkeep", "")
    history.commit("Start")
    for number, name, old, new in FIXES:
        history.replace(f"{PACKAGE}/{name}.py", old, new)
        history.commit(f"Fix {name} (#{number})")
    monkeypatch.chdir(history.root)
    monkeypatch.syspath_prepend(history.root)
    for number, *_ in FIXES:
        assert main(["new", "--commit", history.sha(number)]) == 0
    assert main(["check", "--update"]) == 0
    history.commit("Draft toggles")
    yield history
    assert not [name for name in sys.modules if name.startswith(PACKAGE)]


def catalogue(history: History) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (history.root / "toggles").glob("*.yaml")}


def reverted_code(history: History, step: Step) -> tuple[str, str]:
    """The target that the spec names, below the package, and what it makes of the definition."""
    toggle = load_file(history.root / "toggles" / f"{step.toggle}.yaml")
    (module,) = plan_modules(toggle, SourceCache())
    (target,) = toggle.targets
    name = target.rpartition(".")[2]
    (node,) = [node for node in ast.walk(ast.parse(module.edited)) if getattr(node, "name", "") == name]
    return target.removeprefix(f"{PACKAGE}."), ast.unparse(node)


def test_every_commit_has_its_class_and_leaves_the_right_spec(history, capsys):
    decided: set[int] = set()
    for step in STEPS:
        for one in step.changes:
            change(history, *one)
        history.commit(step.subject)
        before = catalogue(history)
        capsys.readouterr()
        status = main(["check", "--json"])
        results = {result["id"]: result for result in json.loads(capsys.readouterr().out)["results"]}

        result = results[str(step.toggle)]
        seen = (result["drift"], result["finding"], result["fixable"])
        assert seen == (step.drift, step.finding, step.rewritten), (step.subject, result)
        others = {int(number) for number, other in results.items() if other["finding"]} - {step.toggle}
        assert others == decided - {step.toggle}, step.subject
        assert status == bool(others or step.finding), step.subject

        main(["check", "--fix", "--no-verify", str(step.toggle)])
        healed = catalogue(history)
        changed = {name for name in healed if healed[name] != before[name]}
        assert changed == ({f"{step.toggle}.yaml"} if step.rewritten else set()), step.subject
        if step.target:
            decided.discard(step.toggle)
            assert reverted_code(history, step) == (step.target, step.reverted), step.subject
            assert main(["check", "--update", str(step.toggle)]) == 0, step.subject
        else:
            decided.add(step.toggle)
            assert "to decide: " in capsys.readouterr().out, step.subject
            assert result["patches"][0]["drift"]["decision"], step.subject
        if changed:
            history.commit(f"Toggles: {step.subject}")
    assert int(history.git("rev-list", "--count", "HEAD")) >= 20
    assert decided == {1, 2, 3}
