"""Modules that do not come from Python's own source loader: refused, or served as far as they can be."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import py_compile
import sys
import types
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import prtoggle
from prtoggle.spec import Patch
from tests.prtoggle.made_modules import GROW, TEXT, Modules, modules, path
from tests.prtoggle.toggle_making import make_toggle, toggle_of

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


def test_a_module_of_a_loader_that_gets_in_first_is_refused(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = modules.write(TEXT)
    spec = importlib.util.find_spec(name)
    assert spec is not None
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        monkeypatch.setattr(sys, "meta_path", [_ForeignFinder(name, spec.origin or ""), *sys.meta_path])
        for _ in range(2):
            with pytest.raises(prtoggle.UnsupportedTargetError, match=f"{name} was loaded by other means"):
                importlib.import_module(name)
        assert name not in sys.modules
        assert prtoggle.active()[0].state == "failed"
    assert importlib.import_module(name).f(0) == 1


def test_a_wrapper_gets_around_a_function_whose_loader_got_in_first(
    modules: Modules, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = modules.write(TEXT)
    (path / "made_wrapping.py").write_text(
        "def twice(wrapped, instance, args, kwargs):\n    return 2 * wrapped(*args)\n"
    )
    monkeypatch.syspath_prepend(str(path))
    spec = importlib.util.find_spec(name)
    assert spec is not None
    toggle = toggle_of(Patch(f"{name}.f", wrap="made_wrapping:twice"))
    with prtoggle.reverted(toggle):
        monkeypatch.setattr(sys, "meta_path", [_ForeignFinder(name, spec.origin or ""), *sys.meta_path])
        module: Any = importlib.import_module(name)
        assert (module.f(0), prtoggle.active()[0].state) == (2, "active")
    assert module.f(0) == 1


def test_a_module_that_is_put_there_by_hand_is_seen_to_run_without_its_wrapper(modules: Modules) -> None:
    name = modules.write(TEXT)
    with prtoggle.reverted(toggle_of(Patch(f"{name}.f", wrap="operator:call"))):
        assert prtoggle.active()[0].state == "armed"
        sys.modules[name] = types.ModuleType(name)
        (state,) = prtoggle.active()
        assert (state.state, "loaded by other means" in state.patches[0].note) == ("failed", True)
        del sys.modules[name]


def test_a_lazy_module_waits_until_it_is_used(modules: Modules) -> None:
    name = modules.write(TEXT)
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module: Any = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        assert prtoggle.active()[0].state == "armed"
        assert module.f(0) == 12
        assert prtoggle.active()[0].state == "active"
    assert module.f(0) == 1


def test_a_loader_with_a_relative_path_is_served(
    modules: Modules, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = modules.write(TEXT)
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        monkeypatch.chdir(path)
        spec = importlib.util.spec_from_loader(name, importlib.machinery.SourceFileLoader(name, f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        monkeypatch.chdir(path.parent)
        assert module.f(0) == 12
        assert prtoggle.active()[0].state == "active"
    assert module.f(0) == 1


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
