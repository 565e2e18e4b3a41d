"""The code that drift is judged in: how targets lead to files, and which files a lost function may be in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from prtoggle.drift.candidates import package_files
from prtoggle.errors import PrToggleError
from prtoggle.static_check import SourceCache
from prtoggle.target import find_module

if TYPE_CHECKING:
    from prtoggle.drift.source_tree import SourceTree


@dataclass(slots=True)
class Surroundings:
    """Sources, each read once; of a tree where one is given, else of what is installed."""

    tree: SourceTree | None = None
    cache: SourceCache = field(init=False)
    _files: dict[str, list[tuple[str, Path]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The cache resolves where the surroundings are."""
        if self.tree is None:
            self.cache = SourceCache()
        else:
            self.cache = SourceCache(resolve=self.tree.resolve, installed=False)

    def files_near(self, target: str) -> list[tuple[str, Path]]:
        """(module, file) of everything in the top-level package of the target; empty when it is gone."""
        name = target.partition(":")[0].partition(".")[0]
        if name not in self._files:
            self._files[name] = self._package(name)
        return self._files[name]

    def _package(self, name: str) -> list[tuple[str, Path]]:
        if self.tree is not None:
            folder = self.tree.package(name)
            return [] if folder is None else package_files(folder)
        try:
            found = find_module(name)
        except PrToggleError:
            return []
        if found.folders:
            return [entry for folder in found.folders for entry in package_files(Path(folder))]
        # A single module beside many others: its neighbours are other projects.
        return [] if found.path is None else [(name, found.path)]
