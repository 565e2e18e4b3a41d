"""`prtoggle trace ID[,ID] -- command ...`: where both variants of a function come out differently."""

from __future__ import annotations

import json
import os
import tempfile
from typing import TYPE_CHECKING

import click

from prtoggle import report
from prtoggle.activation import TOGGLES, parse_ids
from prtoggle.catalog import Catalog
from prtoggle.cli import console
from prtoggle.cli.command_words import RunsCommand, refuse_ids_in_command
from prtoggle.cli.output_file import OUTPUT, write_output
from prtoggle.cli.run import (
    NOT_ACTIVATED,
    NOT_REACHED,
    named_ids,
    refuse_what_does_not_fit,
    reporting_environment,
    run_to_its_end,
)
from prtoggle.cli.trace_report import print_summary
from prtoggle.cli.trace_summary import TraceSummary
from prtoggle.errors import ActivationError
from prtoggle.static_check import SourceCache
from prtoggle.trace.refusals import refusals
from prtoggle.trace.settings import VARIABLE, TraceSettings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from prtoggle.spec import Toggle

_SIZES = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class _Bytes(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A number of bytes: 1048576, 64M, 2G."""

    name = "bytes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number that a text stands for."""
        if isinstance(value, int):
            return value
        text = str(value).strip().upper()
        unit = text.lstrip("0123456789")
        digits = text.removesuffix(unit)
        if not digits or unit.removesuffix("IB") not in _SIZES:
            self.fail(f"{value!r} is no number of bytes, such as 1048576, 64M or 2G", param, ctx)
        return int(digits) * _SIZES[unit.removesuffix("IB")]


@click.command("trace", cls=RunsCommand)
@click.argument("ids")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Differing argument sets that are shown, for each function.",
)
@click.option(
    "--calls",
    type=click.IntRange(min=1),
    help="Compare the first N calls only, for each function and process.",
    metavar="N",
)
@click.option(
    "--max-copy",
    type=_Bytes(),
    default="64M",
    show_default=True,
    help="Do not compare a call whose inputs are larger than that.",
)
@click.option(
    "--continue-with",
    type=click.Choice(["fixed", "reverted"]),
    default="fixed",
    show_default=True,
    help="Whose result the command goes on with.",
)
@click.option("--json", "json_file", type=OUTPUT, help="Write the findings to FILE.")
def trace_command(
    ids: str,
    command: tuple[str, ...],
    limit: int,
    calls: int | None,
    max_copy: int,
    continue_with: str,
    json_file: Path | None,
) -> int:
    """Run COMMAND, and both variants of what the toggles IDS (a comma list) revert on each call's inputs.

    Shows the calls whose result, exception or in-place change differs. The command itself goes on with the
    fixed variant, as it does without tracing. Ends with the command's own status; with 2, and the command not
    started, when a toggle cannot be traced; with 2 too when a process of the command could not trace one;
    with 3 when not a single call was compared.
    """
    catalog = Catalog.discover()
    toggles = catalog.select(_asked_for(ids))
    refuse_ids_in_command(ids, command, catalog.ids())
    refuse_what_does_not_fit(toggles, catalog.ids())
    _refuse_what_cannot_be_traced(toggles)
    settings = TraceSettings(
        tuple(toggle.id for toggle in toggles), limit, calls or 0, max_copy, continue_with == "fixed"
    )
    with tempfile.TemporaryDirectory(prefix="prtoggle-trace-") as folder:
        # The start file of every interpreter looks for one name only; empty, it reverts nothing.
        traced = {TOGGLES: os.environ.get(TOGGLES, ""), VARIABLE: settings.as_text()}
        status = run_to_its_end(command, {**reporting_environment(catalog, folder), **traced})
        summary = TraceSummary.of(
            toggles, settings, report.read(folder), command=command, command_status=status
        )
    if json_file is not None:
        write_output(json_file, json.dumps(summary.as_json(), indent=2) + "\n")
    print_summary(summary, console(stderr=True))
    if summary.failures:
        return NOT_ACTIVATED
    return status if summary.compared else NOT_REACHED


def _asked_for(ids: str) -> list[str]:
    asked = named_ids(ids)
    reverted = [toggle_id for toggle_id in parse_ids(os.environ.get(TOGGLES, "")) if toggle_id in asked]
    if reverted:
        raise ActivationError(
            f"{TOGGLES} takes {', '.join(reverted)} out of the command already, so that there is nothing to "
            "compare. Nothing was started; unset it, or trace another toggle"
        )
    return asked


def _refuse_what_cannot_be_traced(toggles: Sequence[Toggle]) -> None:
    messages = refusals(toggles, SourceCache())
    if messages:
        raise ActivationError("\n".join([*messages, "Nothing was started."]))
