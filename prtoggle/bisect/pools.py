"""Where runs happen: processes of this machine, several at a time."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, NamedTuple, Protocol

from prtoggle.bisect.one_run import run_job
from prtoggle.process_group import ProcessGroup

if TYPE_CHECKING:
    from prtoggle.bisect.one_run import Job
    from prtoggle.bisect.records import RunRecord


class Ended(NamedTuple):
    """A run that ended: the number it was submitted under, and its record or what went wrong with it."""

    number: int
    record: RunRecord | None
    error: BaseException | None = None


class Pool(Protocol):
    """Runs jobs side by side; whoever submits sees to it that there are not too many."""

    def submit(self, number: int, job: Job) -> None:
        """Start a run."""

    def next_ended(self) -> Ended:
        """Wait for any run to end."""

    def cancel(self, number: int) -> None:
        """End a run that nobody needs any more; it may still be reported as ended."""

    def close(self) -> None:
        """End all runs."""


class LocalPool:
    """Processes of this machine, each run in a thread that waits for it."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._running: dict[int, tuple[ProcessGroup, threading.Thread]] = {}

    def submit(self, number: int, job: Job) -> None:
        """Start a run."""
        group = ProcessGroup()
        thread = threading.Thread(target=self._run, args=(number, job, group), daemon=True)
        self._running[number] = group, thread
        thread.start()

    def next_ended(self) -> Ended:
        """Wait for any run to end."""
        ended = self._ended.get()
        self._running.pop(ended.number)[1].join()
        return ended

    def cancel(self, number: int) -> None:
        """End a run; it is reported as ended, with whatever became of it."""
        if number in self._running:
            self._running[number][0].cancel()

    def close(self) -> None:
        """End all runs and wait until they have."""
        for group, _ in self._running.values():
            group.cancel()
        for _, thread in self._running.values():
            thread.join()
        self._running.clear()

    def _run(self, number: int, job: Job, group: ProcessGroup) -> None:
        try:
            self._ended.put(Ended(number, run_job(job, group)))
        except BaseException as error:  # noqa: BLE001 (whoever waits for the run has to hear of it)
            self._ended.put(Ended(number, None, error))
