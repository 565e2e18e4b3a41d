"""Files that a command writes when it is done: whether they can be written is asked before it begins."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    try:
        if not folder.is_dir():
            return f"{path} cannot be written: there is no folder {folder}; make it, or name another place"
        if not (os.access(path, os.W_OK) if path.exists() else os.access(folder, os.W_OK | os.X_OK)):
            return f"{path} cannot be written: no permission"
        _try(path)
    except OSError as error:
        return f"{path} cannot be written: {error.strerror or error}"
    return ""


def _try(path: Path) -> None:
    """Opens the file as one that is written, and leaves all as it was: permissions do not say everything.

    Raises OSError. A device or a pipe is not tried: somebody may listen at its other end.
    """
    if path.is_file():
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    elif not path.exists():
        # A link that leads nowhere: what is written there is made where it points to.
        place = path.resolve()
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        place.unlink()


#: The type of an option that names a file to write.
OUTPUT: Final = _OutputFile()


def write_output(path: Path, text: str) -> None:
    """Writes the file that an option named, as UTF-8: all of it or, with an OutputError, nothing."""
    try:
        _write(path, text.encode(errors="backslashreplace"))
    except OSError as error:
        raise OutputError(f"{path} could not be written: {error.strerror or error}") from error


def write_outputs(texts: Mapping[Path | None, str]) -> None:
    """Writes the files that were asked for; raises OutputError, for all that could not be, at the end."""
    problems = []
    for path, text in texts.items():
        try:
            if path is not None:
                write_output(path, text)
        except OutputError as error:
            problems.append(error.message)
    if problems:
        raise OutputError("\n".join(problems))


def _write(path: Path, data: bytes) -> None:
    place = path.resolve()
    # What stands there (/dev/stdout, a pipe) is open elsewhere: it is written into, never replaced.
    is_special = path.exists() and not path.is_file()
    if is_special or path.absolute().is_relative_to("/dev") or path.absolute().is_relative_to("/proc"):
        path.write_bytes(data)
        return
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{place.name[:40]}.", dir=place.parent)
    except PermissionError:
        # A file that may be written, in a folder where none may be made.
        place.write_bytes(data)
        return
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.chmod(place.stat().st_mode & 0o7777 if place.exists() else 0o666 & ~_umask())
        temporary.replace(place)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _umask() -> int:
    """The permissions that a new file does not get; there is no way to ask but to set them."""
    found = os.umask(0o077)
    os.umask(found)
    return found
