"""Runs on the machines of a Ray cluster. The only place that knows Ray.

Ray's own `runtime_env` takes the working directory to each machine; the specs travel with each run, as text,
because a catalogue's folder need not be there. What has to be there is prtoggle itself, installed in the
environment that the workers run in: its start file is read from site-packages.
"""

from __future__ import annotations

from dataclasses import asdict
from importlib import metadata
from typing import TYPE_CHECKING, Any

from prtoggle.bisect.one_run import Job, run_job
from prtoggle.bisect.pools import Ended
from prtoggle.bisect.records import RunRecord
from prtoggle.bisect.refusals import BisectError
from prtoggle.bisect.verdicts import Rules

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def run_remotely(data: Mapping[str, Any], version: str) -> dict[str, Any]:
    """One run on a worker, from plain values to plain values."""
    found = metadata.version("prtoggle")
    if found != version:
        raise BisectError(
            f"a Ray worker has prtoggle {found}, this is {version}: install the same everywhere"
        )
    return run_job(_job(data)).as_json()


def _job(data: Mapping[str, Any]) -> Job:
    return Job(**{**data, "rules": Rules(**data["rules"])})


class RayPool:
    """A pool on a Ray cluster: the one that RAY_ADDRESS names, or one that runs here, or a new local one."""

    def __init__(self, folder: Path, *, cpus: float = 1, gpus: float = 0) -> None:
        """Join the cluster. Raises BisectError when Ray is not installed or cannot be reached."""
        try:
            import ray  # noqa: PLC0415 (an extra: nothing else needs it)
        except ImportError as error:
            raise BisectError(
                "--executor ray needs Ray, which is not installed: pip install 'prtoggle[ray]'"
            ) from error
        self._ray: Any = ray
        self._started_here = not ray.is_initialized()
        try:
            if self._started_here:
                environment = {"working_dir": str(folder), "excludes": [".git", ".venv"]}
                ray.init(runtime_env=environment, log_to_driver=False, logging_level="ERROR")
        except Exception as error:
            raise BisectError(f"Ray cannot be used: {error}") from error
        # An interruption is handed on, so that the run on the other machine ends; it is not tried again.
        self._task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(run_remotely)
        self._version = metadata.version("prtoggle")
        self._running: dict[Any, int] = {}

    def submit(self, number: int, job: Job) -> None:
        """Hand a run to the cluster."""
        self._running[self._task.remote(asdict(job), self._version)] = number

    def next_ended(self) -> Ended:
        """Wait for any run to end."""
        done, _ = self._ray.wait(list(self._running), num_returns=1)
        number = self._running.pop(done[0])
        try:
            return Ended(number, RunRecord.from_json(self._ray.get(done[0])))
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, BisectError) else None
            return Ended(number, None, cause or BisectError(f"a run on Ray failed: {error}"))
        except self._ray.exceptions.RayError as error:
            return Ended(number, None, BisectError(f"a run on Ray was lost: {error}"))

    def cancel(self, number: int) -> None:
        """Interrupt a run."""
        for reference, of in self._running.items():
            if of == number:
                self._ray.cancel(reference, force=False)

    def close(self) -> None:
        """Interrupt all runs, wait until they have ended, and leave the cluster."""
        for reference in self._running:
            self._ray.cancel(reference, force=False)
        if self._running:
            self._ray.wait(list(self._running), num_returns=len(self._running), timeout=10)
        self._running.clear()
        if self._started_here and self._ray.is_initialized():
            self._ray.shutdown()
