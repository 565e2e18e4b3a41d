"""Targets resolve to files and names without importing anything."""

from __future__ import annotations

import importlib
import py_compile
import sys
import types
import zipfile

import pytest

from prtoggle.errors import SpecError, TargetModuleError, UnsupportedTargetError
from prtoggle.target import find_module, find_module_file, parse_target, split_name, split_target

BOMB = "raise RuntimeError('this must not be imported')\n"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Packages that cannot be imported, on sys.path."""
    for name, text in {
        "spx_one.py": BOMB,
        "spx_pkg/__init__.py": BOMB + "from spx_pkg.step import step\n",
        "spx_pkg/step.py": BOMB + "def step(): pass\n",
        "spx_pkg/deep/__init__.py": BOMB,
        "spx_pkg/deep/mod.py": BOMB,
        "spx_space/part/mod.py": BOMB,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    assert not {name for name in set(sys.modules) - before if name.startswith("spx_")}


@pytest.mark.parametrize(
    ("text", "module", "qualname", "file"),
    [
        ("spx_one.f", "spx_one", "f", "spx_one.py"),
        ("spx_one", "spx_one", "", "spx_one.py"),
        ("spx_one:C.m", "spx_one", "C.m", "spx_one.py"),
        ("spx_one.f.<locals>.g", "spx_one", "f.<locals>.g", "spx_one.py"),
        ("spx_pkg.f", "spx_pkg", "f", "spx_pkg/__init__.py"),
        ("spx_pkg", "spx_pkg", "", "spx_pkg/__init__.py"),
        ("spx_pkg.step.step", "spx_pkg.step", "step", "spx_pkg/step.py"),
        ("spx_pkg.step", "spx_pkg.step", "", "spx_pkg/step.py"),
        ("spx_pkg:step", "spx_pkg", "step", "spx_pkg/__init__.py"),
        ("spx_pkg.deep.mod.C.m", "spx_pkg.deep.mod", "C.m", "spx_pkg/deep/mod.py"),
        ("spx_space.part.mod.f", "spx_space.part.mod", "f", "spx_space/part/mod.py"),
    ],
)
def test_the_longest_module_wins(tree, text, module, qualname, file):
    found = split_target(text)
    assert (found.module, found.qualname, found.file) == (module, qualname, tree / file)


def test_a_loaded_module_is_taken_with_its_own_file(tmp_path, monkeypatch):
    path = tmp_path / "elsewhere.py"
    path.write_text("def f(): pass\n")
    module = types.ModuleType("spx_loaded")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "spx_loaded", module)
    assert split_target("spx_loaded.f").file == path
    assert find_module("spx_loaded").loaded


def test_a_submodule_that_only_sys_modules_knows(tmp_path, monkeypatch):
    path = tmp_path / "sub.py"
    path.write_text("")
    package = types.ModuleType("spx_parent")
    package.__path__ = []
    module = types.ModuleType("spx_parent.sub")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "spx_parent", package)
    monkeypatch.setitem(sys.modules, "spx_parent.sub", module)
    assert find_module_file("spx_parent.sub").path == path


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("spx_oen.f", ["spx_oen", "sys.path", "did you mean spx_one"]),
        ("spx_space.prat", ["package spx_space has no module prat", "did you mean part?"]),
        ("spx_space.missing.f", ["package spx_space has no module missing"]),
    ],
)
def test_a_module_that_is_not_there(tree, text, facts):
    with pytest.raises(TargetModuleError) as caught:
        split_target(text)
    for fact in [text, *facts]:
        assert fact in str(caught.value)
    assert isinstance(caught.value, ImportError)


def test_find_module_wants_every_part_to_be_a_module(tree):
    with pytest.raises(TargetModuleError, match=r"spx_one, which is not a package, has no module f"):
        find_module("spx_one.f")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("math.sqrt", "use wrap: or value:"),
        ("sys.exit", "built into the interpreter"),
        ("os.getcwd", "frozen"),
        ("spx_space.part", "namespace package"),
    ],
)
def test_modules_without_source_are_refused_with_what_to_do(tree, text, fact):
    importlib.import_module("os")
    with pytest.raises(UnsupportedTargetError, match=fact) as caught:
        split_target(text)
    assert text in str(caught.value)


def test_their_names_still_split(tree):
    module, qualname = split_name("math.sqrt")
    assert (module.name, qualname, module.path) == ("math", "sqrt", None)


def test_bytecode_without_source_is_refused(tmp_path, monkeypatch):
    source = tmp_path / "spx_bare.py"
    source.write_text("def f(): pass\n")
    py_compile.compile(str(source), cfile=str(tmp_path / "spx_bare.pyc"))
    source.unlink()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnsupportedTargetError, match="bytecode only"):
        split_target("spx_bare.f")


def test_a_zip_archive_is_refused(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("spx_zipped.py", "def f(): pass\n")
    monkeypatch.syspath_prepend(tmp_path / "lib.zip")
    with pytest.raises(UnsupportedTargetError, match="zip archive"):
        split_target("spx_zipped.f")


def test_a_blocked_import_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "spx_blocked", None)
    with pytest.raises(TargetModuleError, match=r"blocked in sys.modules"):
        split_target("spx_blocked.f")


@pytest.mark.parametrize("text", ["", "a b", "a..b", ".a", "a.", "a:b:c", "3a.b", "a.<lambda>", "a/b.py"])
def test_text_that_is_no_target(text):
    with pytest.raises(SpecError, match="is not a target"):
        parse_target(text)
