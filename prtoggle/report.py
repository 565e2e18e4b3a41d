"""What each process did with its toggles, as JSON lines that outlive it.

`PRTOGGLE_REPORT` names a folder, or several, separated like PATH: a run within a run reports to both. Every
process appends to a file of its own there, at the moment something happens: a forked worker skips `atexit`,
and one that is killed runs nothing at all.

One line is one event: `version` (1), `time` (seconds since the epoch), `pid`, `event`, and its facts.
The first line is `start` and says who the process is: `ppid`, `argv`, `rank`, `local_rank`, `forked`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FORMAT_VERSION = 1
#: Names the folders.
VARIABLE: Final = "PRTOGGLE_REPORT"
#: Events that say how things stand, which a forked child inherits. Calls and hits stay where they fell.
STANDING_EVENTS = frozenset({"armed", "loaded", "activated", "restored", "cache", "env", "trace", "traced"})


def folders_of(text: str) -> list[str]:
    """The folders that the variable names."""
    if text and Path(text).is_dir():
        return [text]
    return [folder for folder in text.split(os.pathsep) if folder]


def beside(folder: str, inherited: str | None) -> str:
    """The variable for a command that reports to `folder`, and to whoever listens already."""
    return os.pathsep.join(dict.fromkeys([folder, *folders_of(inherited or "")]))


class Reporter:
    """Writes the events of this process; after a fork the child goes on in a file of its own.

    The file is opened for each event and closed again. There are few events, and a descriptor that is kept
    would, in a program that closes all of its descriptors, come to stand for some other file of the program.
    """

    def __init__(self, *folders: str) -> None:
        self._folders = folders
        self._standing: list[dict[str, object]] = []
        self._begin(forked=False)
        os.register_at_fork(after_in_child=self._after_fork)

    def write(self, event: str, **facts: object) -> None:
        """Appends one event with one system call; does nothing once the folder is gone."""
        entry: dict[str, object] = {"event": event, **facts}
        if event in STANDING_EVENTS:
            self._standing.append(entry)
        self._append(entry)

    def _begin(self, *, forked: bool) -> None:
        name = f"{os.getpid()}-{os.urandom(6).hex()}.jsonl"
        self._paths = [Path(folder, name) for folder in self._folders]
        self._append(
            {
                "event": "start",
                "ppid": os.getppid(),
                "argv": sys.orig_argv,
                "rank": os.environ.get("RANK"),
                "local_rank": os.environ.get("LOCAL_RANK"),
                "forked": forked,
            }
        )

    def _append(self, entry: Mapping[str, object]) -> None:
        line = {"version": FORMAT_VERSION, "time": time.time(), "pid": os.getpid(), **entry}
        data = json.dumps(line, default=str).encode() + b"\n"
        for path in self._paths:
            # Whoever asked for the report may have removed the folder; the program must not suffer from it.
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
                try:
                    os.write(descriptor, data)
                finally:
                    os.close(descriptor)

    def _after_fork(self) -> None:
        self._begin(forked=True)
        for entry in self._standing:
            self._append({**entry, "inherited": True})


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """What one process wrote, in order. Two reports share a pid when a process replaced itself by `exec`."""

    pid: int
    ppid: int
    argv: tuple[str, ...]
    rank: str | None
    local_rank: str | None
    forked: bool
    events: tuple[Mapping[str, object], ...]

    def names(self, event: str, toggle: str, target: str) -> bool:
        """Whether this process reported `event` of that patch."""
        return any(
            entry["event"] == event and entry.get("toggle") == toggle and entry.get("target") == target
            for entry in self.events
        )

    @property
    def failures(self) -> list[str]:
        """Why this process could not put a toggle into effect; it ended with the last of them."""
        return [str(entry["message"]) for entry in self.events if entry["event"] == "failed"]


def failures(processes: Iterable[ProcessReport]) -> list[str]:
    """Why processes could not put a toggle into effect, each message once."""
    return list(dict.fromkeys(message for process in processes for message in process.failures))


def read(folder: str | Path) -> list[ProcessReport]:
    """Reads the reports of all processes, in the order in which they started.

    A last line that a full disk or a kill cut short is left out; the lines before it stand.
    """
    reports = []
    for path in Path(folder).glob("*.jsonl"):
        entries = []
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                entries.append(json.loads(line))
        if entries and entries[0]["event"] == "start":
            reports.append((entries[0]["time"], _process(entries)))
    return [report for _, report in sorted(reports, key=lambda pair: pair[0])]


def _process(entries: list[dict[str, object]]) -> ProcessReport:
    start = entries[0]
    argv = start["argv"]
    assert isinstance(argv, list)
    return ProcessReport(
        pid=int(str(start["pid"])),
        ppid=int(str(start["ppid"])),
        argv=tuple(str(part) for part in argv),
        rank=None if start["rank"] is None else str(start["rank"]),
        local_rank=None if start["local_rank"] is None else str(start["local_rank"]),
        forked=bool(start["forked"]),
        events=tuple(entries[1:]),
    )
