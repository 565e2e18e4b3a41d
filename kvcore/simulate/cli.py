"""The command line: ``python -m kvcore simulate``. The only file of kvcore that knows click and rich."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from kvcore.errors import ConfigurationError
from kvcore.simulate.config import SimulationConfig
from kvcore.simulate.plot import check_plot_path, write_plot
from kvcore.simulate.run import simulate
from kvcore.simulate.trace import BUNDLED_TRACE, TraceError, TraceRequest, read_trace
from kvcore.simulate.violation import Violation, active_toggles, toggles_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvcore.simulate.run import Outcome

Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")

_PROGRESS_AFTER_S = 2.0
"""A run that is over by then draws no bar."""
_WRONG_USE = 2
_FINDING = 1


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """The KV-cache allocation stack of an LLM serving engine, without the engine."""


def _setting(name: str, kind: Any, text: str, shown: str | None = None) -> Callable[[Command], Command]:
    """An option for a field of SimulationConfig; ``shown`` words a default that is no plain value."""
    default = getattr(SimulationConfig(), name) if shown is None else shown
    return click.option(f"--{name.replace('_', '-')}", type=kind, help=f"{text}  [default: {default}]")


def _switch(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(f"--{name}", is_flag=True, default=None, help=text)


@main.command("simulate")
@click.option(
    "--trace", type=click.Path(path_type=Path), help="Mooncake JSONL or Azure CSV, told by content."
)
@click.option("--limit", type=click.IntRange(min=1), help="Read the first N requests only.")
@_setting("context_len", int, "Longest sequence; longer requests are cut to it.")
@_setting("pool_size", int, "Slots in the pool.", "24 contexts")
@_setting("page_size", int, "Slots in a page.")
@_setting("max_requests", int, "Requests that run at once.")
@_setting("chunk_size", int, "Prompt tokens computed per step, at most.")
@_setting("spec", click.Choice(["none", "eagle", "dflash", "ngram"]), "Speculation.")
@_setting("topk", int, "Branches of the draft tree.", "4 for eagle")
@_setting("steps", int, "Draft steps in a row.", "3 for eagle")
@_setting("draft_tokens", int, "Tokens verified per step.", "what topk and steps need")
@_setting("cache", click.Choice(["chunk", "radix", "swa", "mamba"]), "Prefix cache.")
@_setting("window", int, "Sliding window of --cache swa, in tokens.", "128")
@_setting("policy", str, "What to evict first: lru, lfu, fifo, mru, filo, priority, slru.", "lru")
@_setting("device", str, "Where rows and pools live.")
@_setting("seed", int, "Of accepted lengths and weights.")
@_setting("check", click.Choice(["every-step", "end"]), "When all laws are checked.")
@_switch("disaggregation", "Decode side only: the KV of prompts comes from elsewhere.")
@_switch(
    "compute",
    "Run a small decoder through the pools and compare its logits with a dense pass; smaller defaults.",
)
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
    if as_json:
        click.echo(json.dumps(_clean_json(outcome, config), indent=2))
    else:
        _print_table(outcome, _title(config, trace))
    if plot is not None:
        try:
            write_plot(plot, outcome.samples, _title(config, trace))
        except OSError as error:
            _fail(ConfigurationError(f"--plot {plot}: cannot be written: {error}"), _WRONG_USE)


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
    table.add_row("active toggles", toggles_text())
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
