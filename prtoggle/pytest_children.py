"""The processes that tests and fixtures of one run start, and what each of them reached."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prtoggle import report

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prtoggle.report import ProcessReport

_PROC: Final = Path("/proc")
#: In the command of the process from which `multiprocessing` forks for whoever asks.
_FORK_SERVER: Final = "multiprocessing.forkserver"


class Children:
    """All processes of a run but this one; `reports` is the folder that they report to."""

    def __init__(self, reports: Path) -> None:
        self._reports = reports
        self._mark = os.fsencode(reports)

    def pids(self) -> set[int]:
        """Those that run, by the folder's name in their environment, and those that reported."""
        found = {int(path.name.partition("-")[0]) for path in self._reports.glob("*.jsonl")}
        # Where there is no such folder, those that reported are all that is known.
        for folder in _PROC.iterdir() if _PROC.is_dir() else ():
            # Another's process, and one that ends meanwhile, cannot be read.
            with contextlib.suppress(OSError):
                if folder.name.isdigit() and self._mark in (folder / "environ").read_bytes():
                    found.add(int(folder.name))
        return found - {os.getpid()}

    def descendants(self, pids: Iterable[int]) -> set[int]:
        """These processes and all that they started, as far as that is known; a fork server starts none."""
        parents = dict(self._parents())
        servers = {
            process.pid
            for process in self._read()
            if not process.forked and _FORK_SERVER in " ".join(process.argv)
        }
        found = set(pids)
        while more := {
            pid for pid, parent in parents.items() if parent in found - servers and pid not in found
        }:
            found |= more
        return found

    def reached(self, pids: set[int], *, since: float = 0, alive: bool = False) -> set[str]:
        """The toggles whose statement these reached since then; with `alive` only those still there."""
        return {
            str(event["toggle"])
            for process in self._read()
            if process.pid in pids and (not alive or _is_alive(process.pid))
            for event in process.events
            if event["event"] == "reached" and float(str(event["time"])) >= since
        }

    def _read(self) -> list[ProcessReport]:
        own = f"{os.getpid()}-"
        if all(path.name.startswith(own) for path in self._reports.glob("*.jsonl")):
            return []
        return [process for process in report.read(self._reports) if process.pid != os.getpid()]

    def _parents(self) -> Iterator[tuple[int, int]]:
        """Process and parent: as things stand of those that run, and as they were at the start of others."""
        for pid in self.pids():
            with contextlib.suppress(OSError):
                yield pid, int(_stat(pid)[1])
        yield from ((process.pid, process.ppid) for process in self._read())


def _stat(pid: int) -> list[str]:
    """The state and the parent, and more; they come after the name, which stands in parentheses."""
    return (
        (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()
    )


def _is_alive(pid: int) -> bool:
    try:
        # A process that has ended and was not waited for is a zombie.
        return _stat(pid)[0] != "Z"
    except OSError:
        return False
