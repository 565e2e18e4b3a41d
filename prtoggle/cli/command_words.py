"""Commands that run another command: whose option is whose, without a `--` between them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class RunsCommand(click.Command):
    """A command whose last argument is another command, to which every word from its first one on belongs.

    click would look for options of ours up to the end of the line, or to a `--` that the user has to know of.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts the `--` in front of the other command where the user left it out."""
        return super().parse_args(ctx, self._separated(ctx, args))

    def _separated(self, ctx: click.Context, args: list[str]) -> list[str]:
        arguments = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Argument)]
        own_words = len(arguments) - 1
        with_value = {
            name
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option) and not (parameter.is_flag or parameter.count)
            for name in parameter.opts
        }
        words = iter(enumerate(args))
        for at, word in words:
            if word == "--":
                break
            if word.startswith("-") and word != "-":
                if word in with_value:
                    next(words, None)
            elif own_words:
                own_words -= 1
            else:
                return [*args[:at], "--", *args[at:]]
        return args


def refuse_ids_in_command(ids: str, command: Sequence[str], known: Collection[str]) -> None:
    """Raises UsageError when the command begins with the id of another toggle: the ids are one word.

    A program that has the name of a toggle is run all the same.
    """
    first = command[0]
    if first in known and shutil.which(first) is None:
        more = [word for word in command[: _up_to_separator(command)] if word in known]
        raise click.UsageError(
            f"there is no command {first}, but a toggle: several ids are one comma list, "
            f"{','.join(dict.fromkeys([*ids.split(','), *more]))}"
        )


def _up_to_separator(command: Sequence[str]) -> int:
    return command.index("--") if "--" in command else len(command)
