"""Small projects for one test each, reverted live or at load: the same test holds for both moments."""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

import prtoggle
from prtoggle import engine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

LIVE, AT_LOAD = "live", "at load"
_serial = itertools.count(1)


def patch(target: str, match: str = "", replacement: str | None = None, **fields: Any) -> dict[str, Any]:
    """One patch as a spec writes it, with one edit when there is a `match`."""
    edit = {
        "match": match,
        **{key: fields.pop(key) for key in ("prepend", "append", "occurrence") if key in fields},
    }
    if replacement is not None:
        edit["replacement"] = replacement
    return {"target": target, **({"edits": [edit]} if match else {}), **fields}


def toggle(*patches: dict[str, Any], **fields: Any) -> prtoggle.Toggle:
    """A toggle through the spec loader, with an id of its own."""
    spec = {"id": f"case-{next(_serial)}", "patches": list(patches), **fields}
    return prtoggle.load(json.dumps(spec, ensure_ascii=False))


class World:
    """A folder on `sys.path`; what it holds is imported before the toggles or after them."""

    def __init__(self, folder: Path, moment: str) -> None:
        self.folder = folder
        self.moment = moment

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Put files below the folder; a text loses its common indentation."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else dedent(content).encode())
        importlib.invalidate_caches()

    def load(self, name: str = "case") -> ModuleType:
        return importlib.import_module(name)

    def revert(self, *toggles: prtoggle.Toggle, name: str = "case") -> tuple[ModuleType, prtoggle.Handle]:
        """The module with the toggles in effect, and what restores it."""
        if self.moment == LIVE:
            module = self.load(name)
            return module, prtoggle.revert(*toggles)
        handle = prtoggle.revert(*toggles)
        return self.load(name), handle

    def forget(self) -> None:
        """Drop every module of the folder from `sys.modules`."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file and Path(file).is_relative_to(self.folder):
                del sys.modules[name]


def _world(folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> Iterator[World]:
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    # An engine of its own: a toggle that cannot be put back, as some tests want it, ends with the test.
    own = engine.Engine()
    monkeypatch.setattr(engine, "_engine", own)
    made = World(folder, moment)
    yield made
    made.forget()
    own.loading.stop()


@pytest.fixture(params=[LIVE, AT_LOAD])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A project for each of the two moments."""
    yield from _world(tmp_path, monkeypatch, request.param)


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A project whose modules are loaded before they are reverted."""
    yield from _world(tmp_path, monkeypatch, LIVE)
