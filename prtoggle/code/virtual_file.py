"""Files that exist only in `linecache`: the text that an edited function was compiled from.

An edited function carries the name of such a file in `co_filename`, so tracebacks, `pdb` and
`inspect.getsource` show the text that runs. The file holds the whole module with only that function's edits
made: every line above the first edit has the number that it has on disk. An entry lives exactly as long as
the code object that names it, and its lines are put together when somebody reads them: few are ever read.
"""

from __future__ import annotations

import itertools
import linecache
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import CodeType

# Distinguishes two texts of one function under one set of toggles, as after a reload of a changed file.
_serial = itertools.count(1)


@dataclass(slots=True, eq=False)
class VirtualFile:
    """The text behind one edited function: the file `path` with its lines `[start:end]` replaced by `own`.

    All lines have their newlines; `original` belongs to whoever read the file.
    """

    name: str
    path: str
    toggle_ids: tuple[str, ...]
    original: Sequence[str]
    start: int
    end: int
    own: Sequence[str]
    _lines: list[str] | None = None

    @property
    def lines(self) -> list[str]:
        """The whole text; one list, made at the first use."""
        if self._lines is None:
            self._lines = [*self.original[: self.start], *self.own, *self.original[self.end :]]
        return self._lines


class _Entry(tuple[Any, ...]):
    """An entry of `linecache`: size, modification time, lines, full name. Its lines are made when read."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        return tuple(self)[index]

    def __iter__(self) -> Iterator[Any]:
        size, time, file, name = super().__iter__()
        return iter((size, time, file.lines, name))


# The live virtual files by name; an entry goes when its code object does.
_files: dict[str, VirtualFile] = {}
_watched: dict[str, weakref.ref[CodeType]] = {}


def new_name(target: str, toggle_ids: Iterable[str]) -> str:
    """A file name that no other code object has; angle brackets tell tools that it is not on disk."""
    return f"<prtoggle {','.join(toggle_ids)}: {target} #{next(_serial)}>"


def publish(file: VirtualFile, code: CodeType) -> None:
    """Make the text readable through `linecache` for as long as `code` exists."""
    name = file.name
    _files[name] = file
    ensure_readable(name)
    _watched[name] = weakref.ref(code, lambda _: _withdraw(name))


def ensure_readable(name: str) -> None:
    """Put the entry back if somebody emptied `linecache`; does nothing for a name that is not ours."""
    if name not in linecache.cache and (file := _files.get(name)) is not None:
        # The modification time None tells linecache.checkcache to leave the entry alone; the size then
        # counts for nothing.
        linecache.cache[name] = _Entry((0, None, file, name))


def lookup(code: CodeType) -> VirtualFile | None:
    """The virtual file that a code object names, or None when it was not edited by us."""
    return _files.get(code.co_filename)


def _withdraw(name: str) -> None:
    _watched.pop(name, None)
    _files.pop(name, None)
    linecache.cache.pop(name, None)
