"""`prtoggle run ID[,ID] -- command ...`: a command with toggles in its environment, and what came of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from typing import TYPE_CHECKING

import click

from prtoggle import report
from prtoggle.activation import CATALOGUES, REPORT, TOGGLES, catalogue_folders, parse_ids
from prtoggle.catalog import Catalog
from prtoggle.cli import console
from prtoggle.cli.command_words import RunsCommand, refuse_ids_in_command
from prtoggle.cli.output_file import OUTPUT, write_output
from prtoggle.cli.run_summary import Summary
from prtoggle.errors import ActivationError
from prtoggle.static_check import SourceCache, check_toggle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

    from prtoggle.spec import Toggle

NOT_ACTIVATED = 2
NOT_REACHED = 3
#: Signals that a supervisor sends to the process it started: the command gets them as if that were it.
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
#: Signals that a terminal sends to all of its foreground group: the command has them already.
LEFT_TO_THE_COMMAND = (signal.SIGINT, signal.SIGQUIT)


@click.command("run", cls=RunsCommand)
@click.argument("ids")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--json", "json_file", type=OUTPUT, help="Write the summary to FILE.")
@click.option("--require-reach", is_flag=True, help="Exit 3 when a reverted statement was never reached.")
def run_command(ids: str, command: tuple[str, ...], json_file: Path | None, *, require_reach: bool) -> int:
    """Run COMMAND with the toggles IDS (a comma list) reverted in it and in all of its children.

    Ends with the command's own status; with 2, and the command not started, when a toggle cannot be
    reverted; with 2 too when a process of the command could not activate one.
    """
    catalog = Catalog.discover()
    toggles = catalog.select(_asked_for(ids))
    refuse_ids_in_command(ids, command, catalog.ids())
    refuse_what_does_not_fit(toggles, catalog.ids())
    with tempfile.TemporaryDirectory(prefix="prtoggle-report-") as folder:
        reverted = {TOGGLES: ",".join(toggle.id for toggle in toggles)}
        status = run_to_its_end(command, {**reporting_environment(catalog, folder), **reverted})
        summary = Summary.of(toggles, report.read(folder), command=command, command_status=status)
    if json_file is not None:
        write_output(json_file, json.dumps(summary.as_json(), indent=2) + "\n")
    summary.print(console(stderr=True))
    if summary.failures:
        return NOT_ACTIVATED
    if require_reach and summary.unreached:
        return NOT_REACHED
    return status


def _asked_for(ids: str) -> list[str]:
    """The ids of the argument, after those of PRTOGGLE: what was asked for stays asked for."""
    asked = named_ids(ids)
    return list(dict.fromkeys([*parse_ids(os.environ.get(TOGGLES, "")), *asked]))


def named_ids(ids: str) -> list[str]:
    """The ids of the argument IDS. Raises UsageError when it is empty, ActivationError for no comma list."""
    asked = parse_ids(ids)
    if not asked:
        raise click.UsageError("IDS names no toggle")
    return asked


def refuse_what_does_not_fit(toggles: Sequence[Toggle], known_ids: Sequence[str]) -> None:
    """Raises ActivationError, before anything is started, unless all edits fit the sources that are found."""
    cache = SourceCache()
    checks = [check_toggle(toggle, known_ids, cache) for toggle in toggles]
    messages = [
        f"toggle {check.toggle.id}: {message}"
        for check in checks
        if check.status != "ok"
        for message in check.messages
    ]
    if messages:
        advice = "Nothing was started."
        if any(patch.status == "no-module" for check in checks for patch in check.patches):
            advice += " Modules are looked for here as `python -m` does; PYTHONPATH adds folders."
        raise ActivationError("\n".join([*messages, advice]))


def reporting_environment(catalog: Catalog, report_folder: str) -> dict[str, str]:
    """The environment of a command: ours, with where the specs lie, and where its processes report."""
    return {
        **os.environ,
        CATALOGUES: catalogue_folders(catalog),
        REPORT: report.beside(report_folder, os.environ.get(REPORT)),
    }


def run_to_its_end(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Runs the command on our stdin, stdout and stderr; returns its status, 128 + n for signal n.

    Raises ActivationError when there is no such command.
    """
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, _frame: FrameType | None) -> None:
        if process is None:
            early.append(number)
        else:
            process.send_signal(number)

    # A handler that is a function is back at the default in the command; one that ignores would stay.
    handlers: dict[int, Callable[[int, FrameType | None], object]] = dict.fromkeys(FORWARDED, forward)
    handlers |= dict.fromkeys(LEFT_TO_THE_COMMAND, lambda _number, _frame: None)
    before = {
        number: signal.signal(number, handler)
        for number, handler in handlers.items()
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        process = subprocess.Popen(command, env=environ)  # noqa: S603 (what the user asked to run)
        for number in early:
            process.send_signal(number)
        status = process.wait()
    except OSError as error:
        raise ActivationError(f"cannot start {command[0]}: {error.strerror or error}") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status
