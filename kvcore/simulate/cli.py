"""The command line: ``python -m kvcore simulate``. The only file of kvcore that knows click and rich."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from kvcore.errors import ConfigurationError
from kvcore.simulate.config import SimulationConfig
from kvcore.simulate.plot import check_plot_path, write_plot
from kvcore.simulate.run import simulate
from kvcore.simulate.trace import BUNDLED_TRACE, TraceError, TraceRequest, read_trace
from kvcore.simulate.violation import Violation, active_toggles

if TYPE_CHECKING:
    from kvcore.simulate.run import Outcome

_PROGRESS_AFTER_S = 2.0
"""A run that is over by then draws no bar."""
_WRONG_USE = 2
_FINDING = 1


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """The KV-cache allocation stack of an LLM serving engine, without the engine."""


@main.command("simulate")
@click.option(
    "--trace", type=click.Path(path_type=Path), help="Mooncake JSONL or Azure CSV, told by content."
)
@click.option("--limit", type=click.IntRange(min=1), help="Read the first N requests only.")
@click.option("--context-len", type=int, help="Longest sequence; longer requests are cut to it.")
@click.option("--pool-size", type=int, help="Slots in the pool.  [default: 24 contexts]")
@click.option("--page-size", type=int, help="Slots in a page.  [default: 16]")
@click.option("--max-requests", type=int, help="Requests that run at once.")
@click.option("--chunk-size", type=int, help="Prompt tokens computed per step, at most.")
@click.option("--spec", type=click.Choice(["none", "eagle", "dflash", "ngram"]), help="Speculation.  [eagle]")
@click.option("--topk", type=int, help="Branches of the draft tree.")
@click.option("--steps", type=int, help="Draft steps in a row.")
@click.option("--draft-tokens", type=int, help="Tokens verified per step.")
@click.option("--cache", type=click.Choice(["chunk", "radix", "swa", "mamba"]), help="Prefix cache.")
@click.option("--window", type=int, help="Sliding window of --cache swa, in tokens.")
@click.option("--policy", help="What to evict first: lru, lfu, fifo, mru, filo, priority or slru.")
@click.option(
    "--disaggregation", is_flag=True, default=None, help="Decode side only: KV comes from elsewhere."
)
@click.option("--device", help="Where rows and pools live.")
@click.option("--seed", type=int, help="Of accepted lengths and weights.")
@click.option("--check", type=click.Choice(["every-step", "end"]), help="When all invariants are checked.")
@click.option("--compute", is_flag=True, default=None, help="Run a small decoder; compare with a dense one.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the run into a .png or .html file.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def simulate_command(
    trace: Path | None, limit: int | None, plot: Path | None, as_json: bool, **options: Any
) -> None:
    """Replay a request trace through the allocation stack, without a model. Time is virtual.

    Without --trace a small bundled trace runs. Exit status: 0 clean, 1 a violation was found, 2 wrong use.
    """
    try:
        config = SimulationConfig.from_options(options)
        if plot is not None:
            check_plot_path(plot)
        requests = read_trace(trace or BUNDLED_TRACE, limit)
    except (ConfigurationError, TraceError) as error:
        _fail(error, _WRONG_USE)
    try:
        outcome = _run_with_progress(config, requests)
    except Violation as violation:
        if as_json:
            click.echo(json.dumps(_violation_json(violation, config), indent=2))
        _fail(violation, _FINDING)
    except ConfigurationError as error:
        _fail(error, _WRONG_USE)
    if plot is not None:
        write_plot(plot, outcome.samples, _title(config, trace))
    if as_json:
        click.echo(json.dumps(_clean_json(outcome, config), indent=2))
    else:
        _print_table(outcome, _title(config, trace))


def _fail(error: Exception, status: int) -> NoReturn:
    click.echo(f"Error: {error}" if status == _WRONG_USE else str(error), err=True)
    sys.exit(status)


def _run_with_progress(config: SimulationConfig, requests: list[TraceRequest]) -> Outcome:
    console = Console(stderr=True)
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with _LateBar(bar, len(requests)) as late:
        return simulate(config, requests, on_progress=late.update)


class _LateBar:
    """A progress bar that appears only when the run takes longer than ``_PROGRESS_AFTER_S``."""

    def __init__(self, bar: Progress, total: int) -> None:
        self._bar = bar
        self._total = total
        self._show_at = time.monotonic() + _PROGRESS_AFTER_S
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()

    def update(self, done: int) -> None:
        if self._task is None:
            if time.monotonic() < self._show_at:
                return
            self._task = self._bar.add_task("", total=self._total)
            self._bar.start()
        self._bar.update(self._task, completed=done)


def _title(config: SimulationConfig, trace: Path | None) -> str:
    name = trace.name if trace is not None else "bundled trace"
    return f"{name}: {config.describe()}"


def _print_table(outcome: Outcome, title: str) -> None:
    table = Table(show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in outcome.result.table():
        table.add_row(name, value)
    table.add_row("active toggles", active_toggles())
    console = Console()
    console.print(title, highlight=False)
    console.print(table)


def _violation_json(violation: Violation, config: SimulationConfig) -> dict[str, Any]:
    return {
        "version": 1,
        "status": "violation",
        "config": asdict(config),
        "toggles": active_toggles(),
        "violation": violation.as_json(),
    }


def _clean_json(outcome: Outcome, config: SimulationConfig) -> dict[str, Any]:
    return {
        "version": 1,
        "status": "clean",
        "config": asdict(config),
        "toggles": active_toggles(),
        "result": outcome.result.as_json(),
    }
