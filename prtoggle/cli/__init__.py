"""The command line: `prtoggle COMMAND`, or `python -m prtoggle COMMAND`.

Each command is a file of its own, imported when it is called for. Exit statuses are the same everywhere:
0 fine, 1 a finding, 2 wrong use, wrong spec or failed activation, 3 asked for reach and not reached.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
from itertools import pairwise
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
_NARROWEST = 40

#: The commands that print JSON, rather than write it to a file.
JSON_ON_OUTPUT = ("list", "check")

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


class _OutputFailedError(Exception):
    """Its cause is a BrokenPipeError; click would end the process for that, with the status of a finding."""


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

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command; what click would make of a reader that has gone is left to `main`."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _OutputFailedError from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="prtoggle")
def cli() -> None:
    """Take one historical fix out of a live Python process, and put it back."""


def console(*, stderr: bool = False) -> Console:
    """A rich console that prints text as it is: no markup, no highlighting, no guessing at emoji."""
    from rich.console import Console  # noqa: PLC0415 (a third of the start-up time; --json needs none of it)

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            """Leaves to `main` what rich would end the process for, with the status of a finding."""
            raise BrokenPipeError

    made = Plain(stderr=stderr, markup=False, highlight=False, emoji=False)
    # In less (COLUMNS=0, say) rich prints nothing of a table.
    made.width = max(made.width, _NARROWEST)
    return made


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
    # A folder that is gone has no modules.
    with contextlib.suppress(FileNotFoundError):
        if not sys.flags.safe_path and not {"", str(Path.cwd())} & set(sys.path):
            sys.path.insert(0, str(Path.cwd()))


def _print_what_cannot_be_encoded() -> None:
    """Lets a terminal that knows ASCII only show a title, with escapes for what it does not know."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
            stream.reconfigure(errors="backslashreplace")


def _abandon_output() -> None:
    """Keeps the interpreter from failing once more at its end, when it flushes what could not be written."""
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether the command was asked for JSON on standard output."""
    if not arguments or arguments[0] not in JSON_ON_OUTPUT:
        return False
    after_format = [value for flag, value in pairwise(arguments) if flag == "--format"]
    return "--json" in arguments or "--format=json" in arguments or "json" in after_format


def _failed(error: Exception, message: str, arguments: Sequence[str]) -> None:
    """Says what was wrong; to a program that reads JSON, in JSON."""
    if _wants_json(arguments):
        document = {"version": 1, "error": {"type": type(error).__name__, "message": message}}
        with contextlib.suppress(OSError):
            click.echo(json.dumps(document, indent=2))
    console(stderr=True).print(f"prtoggle: {message}", style="red", soft_wrap=True)


def search_project(root: Path) -> None:
    """Makes a command that only reads find the modules of the project's root from its sub-folders too.

    `verify` runs guards at the root, so that they are found there; whatever `python -m` finds comes first.
    """
    if not sys.flags.safe_path and str(root) not in sys.path:
        sys.path.append(str(root))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit status. Only here does a `PrToggleError` turn into a message."""
    given = sys.argv[1:] if arguments is None else arguments
    _search_working_directory()
    _print_what_cannot_be_encoded()
    try:
        result = cli.main(arguments, prog_name="prtoggle", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except PrToggleError as error:
        _failed(error, str(error), given)
        return WRONG_USE
    except click.ClickException as error:
        if _wants_json(given):
            _failed(error, error.format_message(), given)
        else:
            error.show()
        return error.exit_code
    except click.Abort as abort:
        # An Interruption knows by which signal.
        return int(getattr(abort.__cause__, "status", 128 + 2))
    except (_OutputFailedError, BrokenPipeError, OSError) as error:
        cause = error.__cause__ if isinstance(error, _OutputFailedError) else error
        _abandon_output()
        if isinstance(cause, BrokenPipeError):
            return OUTPUT_CLOSED
        _failed(error, str(cause), ())
        return WRONG_USE
    return result if isinstance(result, int) else 0
