"""What could not be reverted in a pytest session that was to run without fixes, and how that becomes known.

With pytest-xdist the tests run in workers. One of them that cannot do what was asked for ends at once, as any
process does. The session, which then has not run what it was asked to, finds what it left in a folder, and
ends with status 2 as well.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import pytest

from prtoggle import activation

#: The folder in which the workers of a session leave what they could not do; of workers only.
FOLDER: Final = "PRTOGGLE_PYTEST_FAILURES"


class WorkerSide:
    """The hooks of a worker of pytest-xdist; `folder` is the session's."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        activation.before_exit.append(self._leave)

    def _leave(self, message: str) -> None:
        path = Path(self._folder, f"{os.getpid()}.txt")
        path.write_text(message, encoding="utf-8", errors="backslashreplace")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Tells what only the end shows, while the session still listens."""
        failures = activation.failures()
        if failures:
            self._leave("\n".join(failures))


class SessionSide:
    """The hooks of the process that reports."""

    def __init__(self) -> None:
        self._folder: str | None = None

    def failures(self) -> list[str]:
        """What could not be reverted, here and in the workers."""
        folder = Path(self._folder) if self._folder is not None else None
        files = sorted(folder.glob("*.txt")) if folder is not None else ()
        return [
            *activation.failures(),
            *dict.fromkeys(file.read_text(encoding="utf-8") for file in files),
        ]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self) -> None:
        """Makes the folder, and names it to the workers that are about to start."""
        self._folder = os.environ[FOLDER] = tempfile.mkdtemp(prefix="prtoggle-pytest-")

    @pytest.hookimpl(optionalhook=True, trylast=True)
    def pytest_testnodedown(self) -> None:
        """Ends the session with the first worker that ended because of a toggle."""
        if self.failures():
            pytest.exit("prtoggle: a worker could not revert what was asked for", activation.FAILED)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Gives the session the status that any process has which could not revert something."""
        if self.failures():
            session.exitstatus = activation.FAILED

    def pytest_unconfigure(self) -> None:
        """Removes the folder."""
        if self._folder is not None:
            os.environ.pop(FOLDER, None)
            shutil.rmtree(self._folder, ignore_errors=True)


def join(config: pytest.Config) -> None:
    """Takes part in a session whose process has fixes out, from before its first conftest on."""
    # Output on descriptor 2 goes to a file while pytest captures, and would be lost with the process.
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        activation.before_exit.append(lambda _: capture.suspend_global_capture(in_=True))
    folder = os.environ.pop(FOLDER, None)
    side = SessionSide() if folder is None else WorkerSide(folder)
    config.pluginmanager.register(side, "prtoggle-workers")
