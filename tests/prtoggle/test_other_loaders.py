"""Modules that do not come from Python's own source loader: refused, or served as far as they can be."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import py_compile
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import prtoggle
from tests.prtoggle.made_modules import GROW, TEXT, Modules, modules, path
from tests.prtoggle.toggle_making import make_toggle

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["modules", "path"]


def test_a_module_in_an_archive_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = path / "made_archive.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("made_zipped.py", TEXT)
    monkeypatch.syspath_prepend(str(archive))
    with pytest.raises(prtoggle.UnsupportedTargetError, match=r"made_zipped.*zip archive"):
        prtoggle.revert(make_toggle("made_zipped.f", GROW))


def test_a_module_without_source_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(path))
    source = path / "made_sourceless.py"
    source.write_text(TEXT)
    py_compile.compile(str(source), cfile=str(path / "made_sourceless.pyc"))
    source.unlink()
    importlib.invalidate_caches()
    with pytest.raises(prtoggle.UnsupportedTargetError, match=r"made_sourceless.*bytecode only"):
        prtoggle.revert(make_toggle("made_sourceless.f", GROW))
    module = importlib.import_module("made_sourceless")
    with pytest.raises(prtoggle.UnsupportedTargetError, match="made_sourceless"):
        prtoggle.revert(make_toggle("made_sourceless.f", GROW))
    assert module.f(0) == 1
    del sys.modules["made_sourceless"]


class _ForeignFinder:
    """Brings one module in by a loader that is not Python's own, as assertion rewriting does."""

    def __init__(self, name: str, path: str) -> None:
        self.name, self.path = name, path

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_loader(name, self, origin=self.path)  # type: ignore[arg-type]  # enough of one

    def create_module(self, spec: object) -> None:
        pass

    def exec_module(self, module: ModuleType) -> None:
        exec(Path(self.path).read_text(), vars(module))


def test_a_module_that_another_loader_brings_in_is_refused(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = modules.write(TEXT)
    spec = importlib.util.find_spec(name)
    assert spec is not None
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        at = next(i for i, finder in enumerate(sys.meta_path) if type(finder).__name__ == "_Sentry")
        monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
        sys.meta_path.insert(at + 1, _ForeignFinder(name, spec.origin or ""))
        for _ in range(2):
            with pytest.raises(prtoggle.UnsupportedTargetError, match=f"module {name} .* is brought in by"):
                importlib.import_module(name)
        assert name not in sys.modules
        assert prtoggle.active()[0].state == "failed"


def test_a_loader_that_gets_in_first_is_found_out(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    name = modules.write(TEXT)
    spec = importlib.util.find_spec(name)
    assert spec is not None
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
        sys.meta_path.insert(0, _ForeignFinder(name, spec.origin or ""))
        assert importlib.import_module(name).f(0) == 1
        (state,) = prtoggle.active()
        assert state.state == "failed"
        assert "loaded by other means" in state.patches[0].note


class _Rewriting(importlib.machinery.SourceFileLoader):
    """Compiles in a way of its own, as run-time type checkers do: from bytes only, doubling every 1."""

    def source_to_code(self, data: bytes, path: str, *, _optimize: int = -1) -> object:  # type: ignore[override]  # as it was
        text = importlib.util.decode_source(data)
        return compile(text.replace("b = a + 1", "b = a + 2"), path, "exec", dont_inherit=True)


def test_a_rewriting_loader_sees_the_edited_source(modules: Modules, path: Path) -> None:
    name = modules.write(TEXT)
    file = str(path / f"{name}.py")
    with prtoggle.reverted(make_toggle(f"{name}.f", ("a = x", "a = x * 3"))):
        spec = importlib.util.spec_from_file_location(name, file, loader=_Rewriting(name, file))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.f(1) == 5
