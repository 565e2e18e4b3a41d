"""A package with a fix in each of its functions, toggles for them, and one later commit for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tests.prtoggle.fix_history import History

if TYPE_CHECKING:
    from pathlib import Path


class Case(NamedTuple):
    """A toggle's edits, what a commit did to the code, and what has to come of it.

    `drift` is the class; `target` and `reverted` the healed spec's target and what it makes of the code (the
    definition as `ast.unparse` prints it), where `--fix` rewrites it.
    """

    name: str
    path: str
    target: str
    edit: str
    old: str
    new: str
    drift: str
    finding: bool = False
    healed: str = ""
    reverted: str = ""
    links: str = ""


PACKAGE = "fxd_project"

CODE = '''\
"""Sizes."""

from __future__ import annotations

LIMIT = 8
WIDTH = 2


def untouched(n):
    size = n + 1
    return size


def spaced(n):
    size = n + 1
    return size


def statement(n, m):
    size = max(n + 1, m + 1)
    return size


def argument(n, m):
    return dict(
        n=n,
        m=m,
        spare=1,
    )


def mover(n):
    rows = n * 2
    return max(rows, 4)


def old_name(n):
    pages = n // 3
    return max(pages, 5)


def far(n):
    """Goes far."""
    columns = n * 7
    columns = max(columns, 6)
    return columns


def signed(n):
    size = n + 4
    size += 3
    return size


def near(n):
    first = n + 1
    fixed = max(first, 2)
    return fixed


def on(n):
    width = n + 9
    return width


def put_back(n):
    size = n + 11
    return size


def deleted(n):
    size = n + 12
    return size


def emptied(n):
    size = n + 13
    size = max(size, 13)
    print(size)
    return size


def creeping(n):
    base = n + 4
    return base * 2


def below(n):
    if n > 3:
        n = 3
    return n


def decorated(n):
    size = n + 14
    return size


def twin(n):
    size = n * 15
    return max(size, 15)


def wrapped(n):
    size = n * 16
    return max(size, 16)


def hidden(n):
    first = n * 17
    second = max(first, 17)
    third = second + 1
    return third


def indented(n):
    size = n + 19
    size = max(size, 19)
    print(size)
    return size


def reworked(n):
    size = n + 20
    size += 20
    print(size)
    return size


class Rows:
    """Rows."""

    def method(self, n):
        size = n + 18
        return size
'''

KERNELS = '''\
"""Kernels."""


def jit(function):
    return function


@jit
def copy_kernel(source, target, count, BLOCK):
    start = 0
    while start < count:
        end = min(start + BLOCK, count)
        target[start:end] = source[start:end]
        start += BLOCK
'''


def replaced(match: str, text: str) -> str:
    return f"match: {_block(match)}\n        replacement: {_block(text) if text else chr(34) * 2}"


def appended(match: str, text: str) -> str:
    return f"match: {_block(match)}\n        append: {_block(text)}"


def _block(text: str) -> str:
    return "|\n" + "\n".join(f"          {line}" for line in text.split("\n"))


SIZES = f"{PACKAGE}/sizes.py"
CASES = (
    Case("untouched", SIZES, "sizes.untouched", replaced("size = n + 1", "size = n"), "", "", "unchanged"),
    Case("spaced", SIZES, "sizes.spaced", replaced("size = n + 1", "size = n"),
         "def spaced(n):\n    size = n + 1\n    return size\n",
         "def spaced(\n    n,\n):\n    # a comment\n    size = n + 1\n\n    return (size)\n", "reflowed"),
    Case("statement", SIZES, "sizes.statement", replaced("size = max(n + 1, m + 1)", "size = n"),
         "    size = max(n + 1, m + 1)\n", "    size = max(\n        n + 1,\n        m + 1,\n    )\n",
         "reflowed", False, "sizes.statement", "def statement(n, m):\n    size = n\n    return size"),
    Case("argument", SIZES, "sizes.argument", replaced("spare=1,", "spare=0,"),
         "    return dict(\n        n=n,\n        m=m,\n        spare=1,\n    )\n", "    return dict(n=n, m=m, spare=1)\n",
         "reflowed", True, "sizes.argument", "def argument(n, m):\n    return dict(n=n, m=m, spare=0)"),
    Case("mover", SIZES, "sizes.mover", replaced("return max(rows, 4)", "return rows"),
         "def mover(n):\n    rows = n * 2\n    return max(rows, 4)\n\n\n", "", "target moved", True,
         "moved.mover", "def mover(n):\n    rows = n * 2\n    return rows"),
    Case("renamed", SIZES, "sizes.old_name", replaced("return max(pages, 5)", "return pages"),
         "def old_name(n)", "def new_name(n)", "target renamed", True, "sizes.new_name",
         "def new_name(n):\n    pages = n // 3\n    return pages"),
    Case("far", SIZES, "sizes.far", replaced("columns = max(columns, 6)", ""),
         'def far(n):\n    """Goes far."""\n    columns = n * 7\n    columns = max(columns, 6)\n    return columns\n\n\n', "",
         "target moved", True, "moved.Far.far",
         'def far(n):\n    """Goes far."""\n    columns = n * 7 + 1\n    return columns'),
    Case("signed", SIZES, "sizes.signed", replaced("size += 3", ""),
         "def signed(n):\n    size = n + 4", "def signed(n, *, more=0):\n    size = n + more + 4", "edited near the fix"),
    Case("near", SIZES, "sizes.near", replaced("first = n + 1\nfixed = max(first, 2)\nreturn fixed", "first = n + 1\nreturn first"),
         "    first = n + 1\n    fixed = max(first, 2)", "    first = n + 100\n    fixed = max(first, 2)", "edited near the fix", True,
         "sizes.near", "def near(n):\n    first = n + 100\n    return first"),
    Case("on", SIZES, "sizes.on", replaced("width = n + 9", "width = n"), "width = n + 9", "width = n + LIMIT + 9",
         "edited on the fix", True),
    Case("put-back", SIZES, "sizes.put_back", replaced("size = n + 11", "size = n"), "size = n + 11", "size = n",
         "already reverted", True),
    Case("deleted", SIZES, "sizes.deleted", replaced("size = n + 12", "size = n"),
         "def deleted(n):\n    size = n + 12\n    return size\n\n\n", "", "fix gone", True),
    Case("emptied", SIZES, "sizes.emptied", replaced("size = max(size, 13)", "size = min(size, 13)"),
         "    size = max(size, 13)\n    print(size)\n", "    print(size)\n", "fix gone", True),
    Case("creeping", SIZES, "sizes.creeping", appended("base = n + 4", "return base"),
         "    base = n + 4\n    return base * 2\n", "    base = n + 4\n    base += LIMIT\n    return base * 2\n", "scope creep", True),
    Case("below", SIZES, "sizes.below", replaced("if n > 3:", "if n > 30:"),
         "        n = 3\n    return n\n", "        n = 3\n        print(n)\n    return n\n", "scope creep", True),
    Case("decorated", SIZES, "sizes.decorated", replaced("size = n + 14", "size = n"),
         "def decorated(n):", "@staticmethod\ndef decorated(n):", "edited near the fix"),
    Case("twin", SIZES, "sizes.twin", replaced("return max(size, 15)", "return size"),
         "def twin(n):\n    size = n * 15\n    return max(size, 15)\n\n\n", "", "target moved", True),
    Case("wrapped", SIZES, "sizes.wrapped", replaced("return max(size, 16)", "return size"),
         "def wrapped(n):\n    size = n * 16\n    return max(size, 16)\n",
         "def wrapped(n):\n    return inner(n)\n\n\ndef inner(n):\n    size = n * 16\n    return max(size, 16)\n",
         "target renamed", True, "sizes.inner", "def inner(n):\n    size = n * 16\n    return size"),
    Case("777", SIZES, "sizes.hidden", replaced("second = max(first, 17)", "second = first"),
         "def hidden(n):\n    first = n * 17\n    second = max(first, 17)\n    third = second + 1\n",
         "def shown(n):\n    first = n * 17\n    # owner/project#777 needs this\n    second = max(first, 17)\n    third = second + 2\n",
         "target renamed", True, "sizes.shown",
         "def shown(n):\n    first = n * 17\n    second = first\n    third = second + 2\n    return third", 'links: ["owner/project#777"]\n'),
    Case("indented", SIZES, "sizes.indented", replaced("size = n + 19\nsize = max(size, 19)\nprint(size)", "size = n + 19\nprint(size)"),
         "    size = n + 19\n    size = max(size, 19)\n    print(size)\n",
         "    if n:\n        size = n + 190\n        size = max(size, 19)\n        print(size)\n", "edited near the fix", True,
         "sizes.indented", "def indented(n):\n    if n:\n        size = n + 190\n        print(size)\n    return size"),
    Case("reworked", SIZES, "sizes.reworked", replaced("size = n + 20\nsize += 20", "size = n"),
         "    size = n + 20\n    size += 20\n    print(size)\n", "    size = n + 20\n    print(size + 20)\n", "edited on the fix", True),
    Case("method", SIZES, "sizes.Rows.method", replaced("size = n + 18", "size = n"),
         "class Rows:", "class Lines:", "target moved", True, "sizes.Lines.method",
         "def method(self, n):\n    size = n\n    return size"),
    Case("constant", SIZES, "sizes", replaced("LIMIT = 8", "LIMIT = 4"), "WIDTH = 2\n", "WIDTH = 2\nDEPTH = 3\n",
         "edited near the fix"),
    Case("kernel", f"{PACKAGE}/kernels.py", "kernels.copy_kernel",
         replaced("end = min(start + BLOCK, count)\ntarget[start:end] = source[start:end]\nstart += BLOCK",
                  "end = start + BLOCK\ntarget[start:end] = source[start:end]\nstart += BLOCK"),
         "        start += BLOCK\n", "        start = end\n", "edited near the fix", True, "kernels.copy_kernel",
         "@jit\ndef copy_kernel(source, target, count, BLOCK):\n    start = 0\n    while start < count:\n        end = start + BLOCK\n"
         "        target[start:end] = source[start:end]\n        start = end"),
)  # fmt: skip

# What a commit adds elsewhere, beside the change of the case.
ADDED = {
    "mover": ("moved.py", "\n\ndef mover(n):\n    rows = n * 2\n    return max(rows, 4)\n"),
    "far": (
        "moved.py",
        (
            '\n\nclass Far:\n    @staticmethod\n    def near_by():\n        return 1\n\n    def far(n):\n        """Goes far."""\n'
            "        columns = n * 7 + 1\n        columns = max(columns, 6)\n        return columns\n"
        ),
    ),
    "twin": (
        "moved.py",
        (
            "\n\nclass Twins:\n    def twin(n):\n        size = n * 15\n        return max(size, 15)\n\n\n"
            "class Other:\n    def twin(n):\n        size = n * 15\n        return max(size, 15)\n"
        ),
    ),
}


def locked_history(root: Path) -> History:
    """The package as every toggle fits it; nothing has drifted yet."""
    history = History(root)
    history.write(f"{PACKAGE}/__init__.py", "")
    history.write(SIZES, CODE)
    history.write(f"{PACKAGE}/kernels.py", KERNELS)
    history.write(f"{PACKAGE}/moved.py", '"""Where things go."""\n\nLIMIT = 1\n')
    history.write("pyproject.toml", '[tool.prtoggle]\ncatalogues = ["toggles"]\n')
    for case in CASES:
        history.write(f"toggles/{case.name}.yaml", spec(case))
    history.commit("Start")
    return history


def spec(case: Case) -> str:
    return f"# {case.name}: ä\n{case.links}patches:\n  - target: {PACKAGE}.{case.target}\n    edits:\n      # why\n      - {case.edit}\n# the end\n"


def drift(history: History) -> None:
    """One commit per case."""
    for case in CASES:
        if case.old:
            history.replace(case.path, case.old, case.new)
        if case.name in ADDED:
            path, text = ADDED[case.name]
            (history.root / PACKAGE / path).write_text(history.read(f"{PACKAGE}/{path}") + text)
        if case.old:
            history.commit(f"Change {case.name}")
