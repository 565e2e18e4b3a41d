"""Files that exist only in `linecache`: the text that an edited function was compiled from.

An edited function carries the name of such a file in `co_filename`, so tracebacks, `pdb` and
`inspect.getsource` show the text that runs. The file holds the whole module with only that function's edits
made: every line above the first edit has the number that it has on disk. An entry lives exactly as long as
the code object that names it.
"""

from __future__ import annotations

import itertools
import linecache
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType

# Distinguishes two texts of one function under one set of toggles, as after a reload of a changed file.
_serial = itertools.count(1)


@dataclass(frozen=True, slots=True)
class VirtualFile:
    """The text behind one edited function: the `lines` (newlines included) made from the file `path`."""

    name: str
    path: str
    toggle_ids: tuple[str, ...]
    lines: list[str]


# The live virtual files by name; an entry goes when its code object does.
_files: dict[str, VirtualFile] = {}


def new_name(target: str, toggle_ids: Iterable[str]) -> str:
    """A file name that no other code object has; angle brackets tell tools that it is not on disk."""
    return f"<prtoggle {','.join(toggle_ids)}: {target} #{next(_serial)}>"


def publish(file: VirtualFile, code: CodeType) -> None:
    """Make the text readable through `linecache` for as long as `code` exists."""
    _files[file.name] = file
    ensure_readable(file.name)
    weakref.finalize(code, _withdraw, file.name).atexit = False


def ensure_readable(name: str) -> None:
    """Put the entry back if somebody emptied `linecache`; does nothing for a name that is not ours."""
    if name not in linecache.cache and (file := _files.get(name)) is not None:
        # The modification time None tells linecache.checkcache to leave the entry alone; the size then
        # counts for nothing.
        linecache.cache[name] = (0, None, file.lines, name)


def lookup(code: CodeType) -> VirtualFile | None:
    """The virtual file that a code object names, or None when it was not edited by us."""
    return _files.get(code.co_filename)


def _withdraw(name: str) -> None:
    _files.pop(name, None)
    linecache.cache.pop(name, None)
