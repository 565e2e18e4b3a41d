"""What a reverted function costs beside the hand-edited one, in instructions, by callgrind.

    python benchmarks/reach_cost.py [--python PYTHON ...]

Each figure is the instructions of one call and of the loop around it, counted after the first hits. Asked
for: 1.00 +- 0.03 for a function that was reverted at load (observed; edited statement reached, or never),
and for one exchanged live before Python 3.13. From 3.13 on CPython itself makes a function with an
exchanged code object slower for good, also after a restore; there the bound is 150 instructions a call.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CALLS = 20_000

FIXED = """
def f(x, big=1000):
    total = 0
    for i in range(4):
        total += i * x
    if x > big:
        total = -1
    y = total + 1
    return y
"""
REACHED = ("y = total + 1", "y = total + 2")
UNREACHED = ("total = -1", "total = -2")

RUN = """
import gc, itertools, json, sys
sys.path[:0] = [{root!r}, {folder!r}]
mode, calls = sys.argv[1], int(sys.argv[2])
old, new = {edit!r}
import prtoggle
from prtoggle import engine, reach
reach.start()
toggle = prtoggle.load(json.dumps(
    {{"id": "1", "patches": [{{"target": "target.f", "edits": [{{"match": old, "replacement": new}}]}}]}}))
if mode in ("live", "restored"):
    import target
if mode != "by hand":
    handle = engine.revert([toggle], observe=True)
from target import f
for _ in range(64):
    f(3)
if mode == "restored":
    handle.restore()
def work(f, n):
    for _ in range(n):
        f(3)
work(f, 64)
gc.disable()
# Callgrind counts inside of starmap's step function only, which nothing else here uses.
for _ in itertools.starmap(work, [(f, calls)]):
    pass
"""


def instructions(python: str, script: Path, mode: str, folder: Path) -> int:
    """Executed by the calls of one run of the script."""
    command = [
        "valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'callgrind.out'}",
        "--toggle-collect=starmap_next", python, "-I", str(script), mode, str(CALLS),
    ]  # fmt: skip
    environ = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return int(found[1])


def a_call(python: str, mode: str, edit: tuple[str, str]) -> float:
    """Instructions of one call of the function, and of the loop around it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = FIXED.replace(*edit) if mode == "by hand" else FIXED
        (folder / "target.py").write_text(source, encoding="utf-8")
        script = folder / "run.py"
        script.write_text(RUN.format(root=str(ROOT), folder=name, edit=edit), encoding="utf-8")
        return instructions(python, script, mode, folder) / CALLS


def judge(version: tuple[int, int], mode: str, hand: float, cost: float) -> bool:
    """Whether the figure is within what is asked for."""
    if mode != "at load" and version >= (3, 13):
        return cost - hand <= 150
    return abs(cost / hand - 1) <= 0.03


def measure(python: str) -> bool:
    """Prints the figures of one interpreter; returns whether all are within bounds."""
    text = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=True
    ).stdout
    major, minor = map(int, text.split())
    good = True
    for name, edit in (("reached", REACHED), ("never reached", UNREACHED)):
        hand = a_call(python, "by hand", edit)
        print(f"Python {major}.{minor}, statement {name}: by hand {hand:.1f} instructions a call")
        for mode in ("at load", "live", "restored"):
            cost = a_call(python, mode, edit)
            within = judge((major, minor), mode, hand, cost)
            good &= within
            verdict = "ok" if within else "TOO MUCH"
            print(f"  {mode:9} {cost:9.1f}  {cost / hand:6.3f} x  {cost - hand:+7.1f}  {verdict}", flush=True)
    return good


def main() -> int:
    """Measures every interpreter that is named; status 1 when one figure is out of bounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", action="append", help="interpreters that have wrapt and yaml (default: this one)"
    )
    arguments = parser.parse_args()
    figures = [measure(python) for python in arguments.python or [sys.executable]]
    return 0 if all(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
