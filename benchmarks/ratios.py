"""Turns pytest-benchmark's JSON into a table of medians, floors and goals.

    pytest benchmarks --benchmark-json=bench.json
    python -m benchmarks.ratios bench.json

A benchmark may leave ``floor_us`` (a routine that touches only what the call has to touch, timed beside it)
and ``goal_us`` in its ``extra_info``.
"""

from __future__ import annotations

import json
import sys
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def best_us(routine: Callable[[], object], number: int = 2000) -> float:
    """Microseconds of one call: the best of seven runs, which other load on the machine disturbs least."""
    return min(timeit.repeat(routine, number=number, repeat=7)) / number * 1e6


def row(benchmark: dict[str, Any]) -> str:
    extra = benchmark["extra_info"]
    median = benchmark["stats"]["median"] * 1e6
    best = benchmark["stats"]["min"] * 1e6
    floor, goal = extra.get("floor_us"), extra.get("goal_us")
    cells = [
        benchmark["name"].removeprefix("test_"),
        f"{median:.1f}",
        f"{best:.1f}",
        f"{floor:.1f}" if floor else "-",
        f"{median / floor:.1f}" if floor else "-",
        f"{goal:.3g}" if goal else "-",
        ("yes" if median <= goal else "no") if goal else "-",
    ]
    return "| " + " | ".join(cells) + " |"


def table(report: dict[str, Any]) -> str:
    head = [
        "| operation | median us | best us | floor us | ratio | goal us | met |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join(head + [row(benchmark) for benchmark in report["benchmarks"]])


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
