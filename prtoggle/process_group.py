"""Processes that run in a group of their own, so that nothing of a run outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: How long a process group that was told to end may take over it.
GRACE_SECONDS: Final = 5.0


class ProcessGroup:
    """The processes of one run, to be ended from another thread."""

    def __init__(self) -> None:
        self._leader: subprocess.Popen[bytes] | None = None
        self._cancelled = False

    def start(
        self, command: Sequence[str], environ: Mapping[str, str], output: int, cwd: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start the command in a group of its own. Raises OSError when there is no such command."""
        self._leader = subprocess.Popen(  # noqa: S603 (what the user asked to run)
            command,
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if self._cancelled:
            self.cancel()
        return self._leader

    def finish(self, timeout: float | None) -> tuple[int, bool]:
        """Wait for the command's end, then end what it left; its status, and whether the time was over.

        A group whose time is over is told to end, and GRACE_SECONDS later it is ended.
        """
        assert self._leader is not None
        timed_out = False
        try:
            try:
                status = self._leader.wait(timeout)
            except subprocess.TimeoutExpired:
                timed_out = True
                self.send(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._leader.wait(GRACE_SECONDS)
                self.send(signal.SIGKILL)
                status = self._leader.wait()
        finally:
            self.send(signal.SIGKILL)
            self._leader.wait()
        return status, timed_out

    def cancel(self) -> None:
        """End the group, now or as soon as it is started."""
        self._cancelled = True
        if self._leader is not None:
            self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to every process of the group."""
        assert self._leader is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._leader.pid, number)


class CancelledError(Exception):
    """A run was asked for after all of them had been ended."""


class ProcessGroups:
    """The groups of a command that keeps several runs going, to be ended all at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[ProcessGroup] = set()
        self._cancelled = False

    def run(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        output: int,
        *,
        cwd: Path | None = None,
        timeout: float | None = None,
    ) -> tuple[int, int, bool]:
        """Run the command to its end: the leader's pid, its status, and whether its time was over.

        Raises OSError when it cannot be started, CancelledError once `cancel` was called.
        """
        group = ProcessGroup()
        with self._lock:
            self._refuse_when_cancelled()
            self._running.add(group)
        try:
            leader = group.start(command, environ, output, cwd)
            status, timed_out = group.finish(timeout)
        finally:
            with self._lock:
                self._running.discard(group)
        self._refuse_when_cancelled()
        return leader.pid, status, timed_out

    def cancel(self) -> None:
        """End all groups; none is started any more."""
        with self._lock:
            self._cancelled = True
            for group in self._running:
                group.cancel()

    def _refuse_when_cancelled(self) -> None:
        if self._cancelled:
            raise CancelledError
