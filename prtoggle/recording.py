"""Takes down what happens to the toggles in this process, for whoever `PRTOGGLE_REPORT` names."""

from __future__ import annotations

import atexit
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from prtoggle import engine
from prtoggle.disk_caches import caches_on
from prtoggle.report import VARIABLE, Reporter, folders_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from prtoggle.states import Event


class Recording:
    """Writes the events of the engine, and the caches on disk that come into use; `write` adds others."""

    def __init__(self, *folders: str) -> None:
        self.write = Reporter(*folders).write
        self._caches: set[str] = set()
        engine.subscribe(self._take_down)
        # A compiler may be loaded after the last event.
        atexit.register(self._take_down_caches)

    def _take_down(self, event: Event) -> None:
        """Writes one event, and the caches that have come into use since the last one."""
        facts = {field.name: getattr(event, field.name) for field in fields(event)}
        toggle = facts.pop("toggle_id")
        if "error" in facts:
            facts["message"] = str(facts.pop("error"))
        self.write(type(event).__name__.lower(), toggle=toggle, **facts)
        self._take_down_caches()

    def _take_down_caches(self) -> None:
        """Writes each cache once."""
        for cache in caches_on():
            if cache not in self._caches:
                self._caches.add(cache)
                self.write("cache", cache=cache)


def begin(text: str, complain: Callable[[str], object]) -> Recording | None:
    """Begins to write into those folders of the variable's value that are there; None without one.

    Of the others `complain` is told: a process that outlives the run it was started by finds its folder gone.
    """
    asked = folders_of(text)
    folders = [folder for folder in asked if Path(folder).is_dir()]
    for folder in asked:
        if folder not in folders:
            complain(f"prtoggle: {VARIABLE}={folder} is not a folder; this process does not report\n")
    return Recording(*folders) if folders else None
