"""The files that a command names, and a digest of each: runs of other files are runs of another program."""

from __future__ import annotations

import hashlib
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Weights and data of that size are told apart by their size and time of change.
_LARGE: Final = 64 << 20


def command_digests(command: Sequence[str]) -> dict[str, str]:
    """A digest of each file that the command names and that is there, by its path; see `named_files`."""
    return {str(path): _digest(path) for path in dict.fromkeys(named_files(command))}


def named_files(command: Sequence[str]) -> Iterator[Path]:
    """The program itself, wherever PATH finds it, and the files among the words.

    A word of a shell's line counts, too, and so do the value in --option=FILE, the file in FILE::test, and
    the module behind -m, where it is in the working directory.
    """
    words = [word for text in command for word in (text, *_words_of(text))]
    found = shutil.which(command[0])
    candidates = [Path(found)] if found else []
    for before, word in zip(["", *words], words, strict=False):
        texts = (word, word.partition("=")[2], word.partition("::")[0])
        candidates += [Path(text) for text in texts if text]
        if before == "-m":
            module = Path(*word.split("."))
            candidates += [
                module.with_name(f"{module.name}.py"),
                module / "__main__.py",
                module / "__init__.py",
            ]
    for path in candidates:
        if _is_file(path):
            yield path


def _words_of(text: str) -> list[str]:
    """The words of a text that is a line of its own, such as what follows `sh -c`."""
    if not any(map(str.isspace, text)):
        return []
    try:
        return list(shlex.shlex(text, posix=True, punctuation_chars=True))
    except ValueError:
        return text.split()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # A word of code may be longer than a name can be.
        return False


def _digest(path: Path) -> str:
    try:
        status = path.stat()
        if status.st_size > _LARGE:
            return f"{status.st_size} bytes of {status.st_mtime_ns}"
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        return f"not read: {error.strerror}"
