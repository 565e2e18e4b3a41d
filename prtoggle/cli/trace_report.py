"""Prints what tracing found: a panel for each set of arguments that makes a difference, then the counts."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

    from prtoggle.cli.trace_summary import FoundDifference, FunctionTrace, TraceSummary


def print_summary(summary: TraceSummary, console: Console) -> None:
    """Print the findings; what must not be overlooked comes last."""
    if not summary.processes:
        console.print(_nobody_reported(summary), style="red", soft_wrap=True)
        return
    for function in summary.functions:
        for number, found in enumerate(function.differences, 1):
            console.print(_panel(function, found, number))
    for function in summary.functions:
        console.print(_account(function), style="yellow" if function.differing else "green", soft_wrap=True)
        for line in _shortfalls(function):
            console.print(line, style="yellow", soft_wrap=True)
    if summary.compared and not summary.settings.continues_fixed:
        console.print("The command went on with the reverted variant.", style="yellow", soft_wrap=True)
    for message in summary.failures:
        text = f"A process could not trace what was asked for:\n{message}"
        console.print(text, style="red", soft_wrap=True)
    for toggle, target in summary.never_called:
        console.print(
            f"{toggle}: {target} was never called: NOTHING IS KNOWN of it.",
            style="red",
            soft_wrap=True,
        )
    if not summary.compared:
        console.print("NOTHING WAS COMPARED in this run.", style="red", soft_wrap=True)


def _panel(function: FunctionTrace, found: FoundDifference, number: int) -> Panel:
    rows = Table.grid(padding=(0, 1))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    for name, value in found.facts["arguments"]:
        rows.add_row(name, Text(value))
    rows.add_row("", "")
    for side, style in (("fixed", "green"), ("reverted", "red")):
        rows.add_row(Text(side, style="bold"), Text(found.facts[side], style=style))
    for difference in found.facts["differences"]:
        if not _is_said(found.facts, difference):
            shown = Text(f"{difference['where']}: ", style="bold")
            shown.append(difference["fixed"], style="green").append(" ≠ ")
            shown.append(difference["reverted"], style="red")
            rows.add_row("differs", shown)
    title = f"{', '.join(function.toggles)}: {function.name} ({number})"
    return Panel(
        rows, title=Text(title), title_align="left", subtitle=Text(_where(found)), subtitle_align="left"
    )


def _is_said(facts: dict[str, Any], difference: dict[str, str]) -> bool:
    """Whether a difference is that of the whole outcomes, which stand above it."""
    outcomes = facts["fixed"], facts["reverted"]
    here = difference["fixed"], difference["reverted"]
    if difference["where"] == "exception":
        here = f"raises {here[0]}", f"raises {here[1]}"
    return difference["where"] in ("outcome", "result", "exception") and here == outcomes


def _where(found: FoundDifference) -> str:
    first = f"first in call {found.facts['call']} of process {found.pid}"
    if found.count == 1:
        return first.removeprefix("first ")
    others = f" in {len(found.pids)} processes" if len(found.pids) > 1 else ""
    return f"{found.count} calls like this{others}, {first}"


def _account(function: FunctionTrace) -> str:
    at_least = "" if function.complete else "at least "
    head = f"{', '.join(function.toggles)}: {function.name}: "
    calls = (
        f"{at_least}{_count(function.calls, 'call')} in {_count(function.processes, 'process', 'processes')}"
    )
    if not function.calls:
        return f"{head}no call"
    if function.compared and not function.differing:
        return f"{head}{calls}; no call differed, of {function.compared} compared"
    if not function.compared:
        return f"{head}{calls}, none of them compared"
    beyond = f", {function.beyond} of them not shown" if function.beyond else ""
    return f"{head}{calls}; {function.differing} of {function.compared} compared differed{beyond}"


def _shortfalls(function: FunctionTrace) -> list[str]:
    lines = [f"  not compared: {count}: {reason}" for reason, count in function.not_compared.items()]
    if function.beyond:
        lines.append("  those not shown had other arguments or outcomes; --limit N shows more of them")
    if not function.complete:
        lines.append("  a process ended without its last count, so that there may have been more calls")
    return lines


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _nobody_reported(summary: TraceSummary) -> str:
    return (
        f"No process of `{shlex.join(summary.command)}` reported to prtoggle: none of them was a Python that "
        "has prtoggle and runs start files (`python -S` does not). NOTHING WAS COMPARED in this run."
    )
