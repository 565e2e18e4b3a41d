"""Files that a command writes when it is done: whether they can be written is asked before it begins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click


class OutputError(click.ClickException):
    """A file could not be written after all: the disk is full, or its folder went away meanwhile."""

    exit_code = 2


class _OutputFile(click.Path):
    """The path of a file that can be written: its folder is there, and it is no folder itself."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """The path; fails for one that cannot be written, having changed nothing."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        problem = why_not_writable(path)
        if problem:
            self.fail(problem, param, ctx)
        return path


def why_not_writable(path: Path) -> str:
    """Why no file can be written at `path`; empty when one can, as far as it can be seen."""
    folder = path.parent
    if not folder.is_dir():
        return f"{path} cannot be written: there is no folder {folder}; make it, or name another place"
    if not (os.access(path, os.W_OK) if path.exists() else os.access(folder, os.W_OK | os.X_OK)):
        return f"{path} cannot be written: no permission"
    return ""


#: The type of an option that names a file to write.
OUTPUT: Final = _OutputFile()


def write_output(path: Path, text: str) -> None:
    """Writes the file that an option named, as UTF-8. Raises OutputError when that fails after all."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path} could not be written: {error.strerror or error}") from error
