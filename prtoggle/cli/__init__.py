"""The command line: `prtoggle COMMAND`, or `python -m prtoggle COMMAND`.

Each command is a file of its own, imported when it is called for. Exit statuses are the same everywhere:
0 fine, 1 a finding, 2 wrong use, wrong spec or failed activation, 3 asked for reach and not reached.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prtoggle.errors import PrToggleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

WRONG_USE = 2
#: What a shell reports for a program that was ended by SIGPIPE: the reader of our output has gone.
OUTPUT_CLOSED = 141

_UNBOUNDED = 100_000

#: Command name -> (module, attribute).
COMMANDS = {
    "list": ("prtoggle.cli.list", "list_command"),
    "show": ("prtoggle.cli.show", "show_command"),
    "check": ("prtoggle.cli.check", "check_command"),
    "new": ("prtoggle.cli.new", "new_command"),
    "run": ("prtoggle.cli.run", "run_command"),
    "trace": ("prtoggle.cli.trace", "trace_command"),
    "verify": ("prtoggle.cli.verify", "verify_command"),
    "bisect": ("prtoggle.cli.bisect", "bisect_command"),
}


class LazyGroup(click.Group):
    """A group that imports a command's module when that command, or help on all of them, is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's interface)
        """The commands in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="prtoggle")
def cli() -> None:
    """Take one historical fix out of a live Python process, and put it back."""


def console(*, stderr: bool = False) -> Console:
    """A rich console that prints text as it is: no markup, no highlighting, no guessing at emoji."""
    from rich.console import Console  # noqa: PLC0415 (a third of the start-up time; --json needs none of it)

    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def print_table(out: Console, table: Table) -> None:
    """Prints a table; off a terminal its lines are as long as they have to be.

    A name that is broken over two lines is not found by whoever searches a log for it.
    """
    width = out.width
    if not out.file.isatty():
        out.width = _UNBOUNDED
    out.print(table)
    out.width = width


def _search_working_directory() -> None:
    """Makes `prtoggle` look for modules where `python -m prtoggle` does: in the working directory first."""
    if not sys.flags.safe_path and not {"", str(Path.cwd())} & set(sys.path):
        sys.path.insert(0, str(Path.cwd()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit status. Only here does a `PrToggleError` turn into a message."""
    _search_working_directory()
    try:
        result = cli.main(arguments, prog_name="prtoggle", standalone_mode=False)
        sys.stdout.flush()
    except PrToggleError as error:
        console(stderr=True).print(f"prtoggle: {error}", style="red", soft_wrap=True)
        return WRONG_USE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 128 + 2
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OUTPUT_CLOSED
    return result if isinstance(result, int) else 0
