"""Runs the benchmarks of kvcore and tells them as the documentation does: medians, floors, goals, ratios.

    OMP_NUM_THREADS=1 python -m benchmarks.ratios               run all, print the tables
    OMP_NUM_THREADS=1 python -m benchmarks.ratios --write       and put them into docs/kvcore/performance.md
    python -m benchmarks.ratios bench.json                      the same of a report of pytest-benchmark

A benchmark may leave ``floor_us`` (a routine that touches only what the call has to touch, timed beside it)
and ``goal_us`` in its ``extra_info``. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.goals import COUNTS, SECTIONS, Counted, Measured, Ratio, Section

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/kvcore/performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
FILES = ("test_allocators.py", "test_kernels.py", "test_prefix_cache.py", "test_entry_points.py")

HEAD = """\
| operation | sglang, µs | floor, µs | goal, µs | kvcore, µs | of the floor | of the goal | of sglang |
|---|---|---|---|---|---|---|---|"""
COUNT_HEAD = """\
| what is counted | sglang | goal | kvcore | held by |
|---|---|---|---|---|"""

Report = dict[str, dict[str, Any]]
"""By name without ``test_``: an entry of pytest-benchmark's report."""


def best_us(routine: Callable[[], object], number: int = 100) -> float:
    """Microseconds of one call: the best of a hundred short runs, which other load disturbs least."""
    return min(timeit.repeat(routine, number=number, repeat=100)) / number * 1e6


def run_benchmarks() -> dict[str, Any]:
    others, cores = os.getloadavg()[1], os.cpu_count()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "bench.json"
        files = [f"benchmarks/{name}" for name in FILES]
        command = [sys.executable, "-m", "pytest", "-q", *files, f"--benchmark-json={report}"]
        subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)
        parsed: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    # Whoever reads the figures should know whether the machine did something else.
    parsed["load"] = f"; before it began, {others:.1f} other processes wanted the {cores} cores"
    return parsed


def by_name(report: dict[str, Any]) -> Report:
    return {entry["name"].removeprefix("test_"): entry for entry in report["benchmarks"]}


def median_us(report: Report, name: str) -> float:
    if name not in report:
        raise SystemExit(
            f"benchmarks/goals.py names {name}, but the report has no such benchmark; run all files"
        )
    seconds: float = report[name]["stats"]["median"]
    return seconds * 1e6


def measured_row(row: Measured, report: Report) -> list[str]:
    median = median_us(report, row.benchmark)
    extra = report[row.benchmark]["extra_info"]
    floor, goal = extra.get("floor_us"), extra.get("goal_us")
    sglang = min(row.sglang_us, default=None)
    return [
        row.operation,
        " / ".join(figure(us) for us in row.sglang_us),
        figure(floor),
        figure(goal),
        figure(median),
        figure(floor and median / floor),
        figure(goal and median / goal),
        figure(sglang and median / sglang),
    ]


def ratio_row(row: Ratio, report: Report) -> list[str]:
    ratio = median_us(report, row.benchmark) / median_us(report, row.base)
    times = f"{figure(ratio)} times"
    return [row.operation, row.sglang, "", f"{row.goal} times", times, "", figure(ratio / row.goal), ""]


def count_row(row: Counted) -> list[str]:
    """The goal, if the tests that hold it pass here and now."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *row.tests]
    held = subprocess.run(command, cwd=ROOT, check=False, stdout=sys.stderr).returncode == 0
    tests = ", ".join(f"`{test}`" for test in row.tests)
    return [row.operation, row.sglang, row.goal, row.goal if held else "**not held**", tests]


def figure(value: float | None) -> str:
    """Two or three digits; nothing for what was not measured."""
    if not value:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value >= 1 else f"{value:.2g}"


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def section(part: Section, report: Report) -> str:
    rows = [
        measured_row(row, report) if isinstance(row, Measured) else ratio_row(row, report)
        for row in part.rows
    ]
    return "\n".join([f"## {part.title}", "", part.about, "", HEAD, *map(line, rows)])


def tables(report: dict[str, Any]) -> str:
    """All sections, as the page shows them."""
    named = by_name(report)
    counts = "\n".join(["## What is counted", "", COUNT_HEAD, *(line(count_row(row)) for row in COUNTS)])
    python = report["machine_info"]["python_version"]
    machine = f"Measured on {report['datetime'][:10]} with Python {python}{report.get('load', '')}."
    return "\n\n".join([machine, *(section(part, named) for part in SECTIONS), counts])


def write(text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE} lacks the lines {BEGIN} and {END}; nothing was written")
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path, nargs="?", help="of pytest-benchmark; without one all are run")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    report = run_benchmarks() if options.report is None else json.loads(options.report.read_text("utf-8"))
    text = tables(report)
    print(text)
    if options.write:
        write(text)


if __name__ == "__main__":
    main()
