"""Modules written for one test: their text on disk, imported under a name that no other test uses."""

from __future__ import annotations

import importlib
import itertools
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

#: A module with something before, in and after what is edited; `START` calls it while it loads.
TEXT = """import sys
LIMIT = 8


def before():
    raise ValueError("before")


def f(x, k=LIMIT):
    a = x
    b = a + 1
    return b


class C:
    size = 4

    def m(self):
        return self.size


def after():
    raise ValueError("after")


START = f(0)
"""
GROW = ("b = a + 1", "b = a + 10\nb += 1\nb += 1")

_serial = itertools.count()


class Modules:
    """Writes modules below one folder on `sys.path`; `{0}`, `{1}`, ... in a text are the names given so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []

    def write(self, text: str) -> str:
        """Puts a module on disk without importing it, and returns its name."""
        name = f"made_{next(_serial)}"
        self.names.append(name)
        for position, known in enumerate(self.names):
            text = text.replace(f"{{{position}}}", known)
        (self.folder / f"{name}.py").write_text(text, encoding="utf-8")
        importlib.invalidate_caches()
        return name

    def load(self, text: str) -> ModuleType:
        """Writes a module and imports it."""
        return importlib.import_module(self.write(text))


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Modules]:
    """Modules of this test; forgotten at its end."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Modules(tmp_path)
    yield made
    for name in made.names:
        sys.modules.pop(name, None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder of this test's own, to be put on the path or not."""
    return tmp_path


def namespaces(*owners: object) -> Callable[[], list[dict[str, object]]]:
    """Takes a copy of every owner's `__dict__` now; called, it returns them as they are then."""
    return lambda: [dict(vars(owner)) for owner in owners]
