"""Times reverts of loaded functions beside what a patcher takes that verifies nothing.

    python benchmarks/revert_speed.py

The goals are absolute, for one kind of machine: twice what a source patcher without any verification took on
it (91 and 322 microseconds for the 5-line function, 2,400 for the one of 153 lines), and 5 for a flip.
A machine that is slower, or busy, is slower for both, so the same work without verification is timed here as
well, in turns of twenty with ours: `getsource`, replace, compile, exchange.
Each first revert is of a function that no toggle has edited before, in a module of 5,000 lines. "Warm" means
that `linecache` holds the file, "cold" that it has to be read again.
Exit status 1 when the best of the runs misses its goal.
"""

from __future__ import annotations

import importlib
import inspect
import linecache
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import prtoggle
from prtoggle.spec import Edit, Patch, Toggle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FunctionType, ModuleType

LINES = 5000
MODULES = 3
FLIPS = 20_000
# How many of each kind follow each other: the caches of the processor are warm for most of them.
TURNS = 20

SMALL = """\
def small_{n}(x, y=2):
    a = x + {n}
    b = a * y
    c = os.path.join("a", str(b))
    return len(c) + b


"""
LARGE = "def large_{n}(x):\n" + "".join(f"    v{k} = x + {k}\n" for k in range(151)) + "    return v3\n\n\n"


class Row(NamedTuple):
    """One operation: microseconds of ours and, where it does the same, of the work without verification."""

    operation: str
    ours: list[float]
    plain: list[float]
    goal: float

    def cells(self) -> list[str]:
        ratio = f"{median(self.ours) / median(self.plain):.2f}" if self.plain else "-"
        unverified = f"{min(self.plain):.0f}" if self.plain else "-"
        best, typical = min(self.ours), median(self.ours)
        met = "yes" if self.is_met else "no"
        return [self.operation, f"{best:.1f}", f"{typical:.1f}", f"{self.goal:,}", met, unverified, ratio]

    @property
    def is_met(self) -> bool:
        return min(self.ours) <= self.goal


def make_module(folder: Path, name: str, small: str, count: int) -> ModuleType:
    """Writes and imports a module with `count` functions made from `small`, filled up to LINES lines."""
    text = "import os\n\n\n" + "".join(small.format(n=n) for n in range(count))
    filler: list[str] = []
    n = count
    while text.count("\n") + sum(part.count("\n") for part in filler) < LINES:
        filler.append(SMALL.format(n=n))
        n += 1
    (folder / f"{name}.py").write_text(text + "".join(filler), encoding="utf-8")
    return importlib.import_module(name)


def microseconds(routine: Callable[[], object]) -> float:
    before = time.perf_counter_ns()
    routine()
    return (time.perf_counter_ns() - before) / 1000


def plain(function: FunctionType, match: str, replacement: str) -> None:
    """The same edit, with nothing asked and nothing kept: neither decorators nor defaults nor closures."""
    text = textwrap.dedent(inspect.getsource(function))
    scope: dict[str, Any] = {}
    code = compile(text.replace(match, replacement, 1), function.__code__.co_filename, "exec")
    exec(code, function.__globals__, scope)
    function.__code__ = scope[function.__name__].__code__


def first_reverts(
    module: ModuleType, kind: str, edits: Iterator[tuple[int, str, str]], prepare: Callable[[str], object]
) -> tuple[list[float], list[float]]:
    """Ours and the plain way, in turns, each time on a function that was never edited."""
    ours, theirs = [], []
    for turn, (n, match, replacement) in enumerate(edits):
        name = f"{kind}_{n}"
        prepare(str(module.__file__))
        if turn // TURNS % 2:
            function = getattr(module, name)
            code = function.__code__
            theirs.append(microseconds(lambda: plain(function, match, replacement)))  # noqa: B023  # runs now
            function.__code__ = code
            continue
        patch = Patch(f"{module.__name__}.{name}", (Edit(match, replacement),))
        toggle = Toggle(id=f"{module.__name__}-{name}", patches=(patch,))
        handles: list[prtoggle.Handle] = []
        ours.append(microseconds(lambda: handles.append(prtoggle.revert(toggle))))  # noqa: B023  # runs now
        handles[0].restore()
    return ours, theirs


def small_edits(first: int, end: int) -> Iterator[tuple[int, str, str]]:
    return ((n, f"a = x + {n}", f"a = x - {n}") for n in range(first, end))


def flips(module: ModuleType) -> tuple[list[float], list[float]]:
    """A toggle that was in effect before: microseconds to take it out and to put it back, of each flip."""
    toggle = Toggle(
        id="flipped", patches=(Patch(f"{module.__name__}.small_0", (Edit("b = a * y", "b = a"),)),)
    )
    prtoggle.revert(toggle).restore()
    on, off = [], []
    clock = time.perf_counter_ns
    for _ in range(FLIPS):
        start = clock()
        handle = prtoggle.revert(toggle)
        between = clock()
        handle.restore()
        end = clock()
        on.append((between - start) / 1000)
        off.append((end - between) / 1000)
    return on, off


def measure(folder: Path) -> list[Row]:
    rows = {
        "5-line function, warm": Row("5-line function, warm", [], [], 182),
        "5-line function, cold": Row("5-line function, cold", [], [], 644),
        "153-line function, warm": Row("153-line function, warm", [], [], 4800),
    }

    def add(operation: str, found: tuple[list[float], list[float]]) -> None:
        rows[operation].ours.extend(found[0])
        rows[operation].plain.extend(found[1])

    def forget(_: str) -> None:
        linecache.clearcache()

    for number in range(MODULES):
        module = make_module(folder, f"many_small_{number}", SMALL, 700)
        # What an engine, its caches and the interpreter's own specialisation do once is not a revert's cost.
        first_reverts(module, "small", small_edits(0, 100), linecache.getlines)
        add(
            "5-line function, warm", first_reverts(module, "small", small_edits(100, 500), linecache.getlines)
        )
        add("5-line function, cold", first_reverts(module, "small", small_edits(500, 700), forget))
        module = make_module(folder, f"some_large_{number}", LARGE, 32)
        edits = ((n, "v5 = x + 5", "v5 = x - 5") for n in range(32))
        add("153-line function, warm", first_reverts(module, "large", edits, linecache.getlines))
    on, off = flips(sys.modules["many_small_0"])
    return [*rows.values(), Row("flip: revert again", on, [], 5), Row("flip: restore", off, [], 5)]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        rows = measure(Path(folder))
    head = ["operation", "best us", "median us", "goal us", "met", "unverified, best us", "ratio of medians"]
    for cells in (head, ["---"] * len(head), *(row.cells() for row in rows)):
        print("| " + " | ".join(cells) + " |")
    return int(not all(row.is_met for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
