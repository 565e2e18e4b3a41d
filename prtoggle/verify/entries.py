"""What `guards:` names: a file, a folder, or a node in a file, however its path is written."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Entry:
    """One guard: an absolute file or folder, and a node in it such as `TestRows::test_a`, or ""."""

    file: Path
    node: str = ""

    def holds(self, file: Path, node: str) -> bool:
        """Whether the test `node` of `file` is one of this guard's: it, a case of it, or one inside of it."""
        if _real(file) == _real(self.file):
            return self.node in {"", node} or node.startswith((f"{self.node}::", f"{self.node}["))
        return not self.node and _real(file).is_relative_to(_real(self.file))

    def overlaps(self, file: Path, node: str) -> bool:
        """Whether tests below `node` of `file` may be among this guard's; `node` is "" for the whole file."""
        return self.holds(file, node) or Entry(file, node).holds(self.file, self.node)

    def name(self, root: Path) -> str:
        """As it is shown: relative to the project where it lies in it."""
        return shown_name(self.file, self.node, root)


def entry_of(guard: str, root: Path) -> Entry:
    """The guard as `guards:` writes it; `./tests//x.py` is `tests/x.py`, and so is its absolute path."""
    file, _, node = guard.strip().partition("::")
    return Entry(Path(os.path.normpath(root.absolute() / file)), node)


def entries_of(guards: Iterable[str], root: Path) -> tuple[Entry, ...]:
    """The guards in their order, each once."""
    return tuple(dict.fromkeys(entry_of(guard, root) for guard in guards))


def shown_name(file: Path, node: str, root: Path) -> str:
    """`tests/test_x.py::test_a`, with the path relative to `root` where the file lies in it."""
    shown = str(file)
    for path, place in ((file, root.absolute()), (_real(file), _real(root))):
        if path.is_relative_to(place):
            shown = path.relative_to(place).as_posix()
            break
    return f"{shown}::{node}" if node else shown


@functools.lru_cache(maxsize=4096)
def _real(path: Path) -> Path:
    """Two ways to a file, one of them through a link, are one file."""
    return path.resolve()
