"""A module that is watched is asked about after each of its loads."""

from __future__ import annotations

import importlib
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from prtoggle.installers import after_load
from tests.prtoggle.made_modules import Modules, modules

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["modules"]


@pytest.fixture(autouse=True)
def _unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    # The hooks themselves stay with wrapt; without a question of ours they would fail.
    monkeypatch.setattr(after_load, "_questions", dict(after_load._questions))


def test_first_load_reload_and_load_after_removal_all_ask(modules: Modules) -> None:
    name = modules.write("VALUE = 1\n")
    seen: list[tuple[ModuleType, int]] = []
    after_load.watch(name, lambda module: seen.append((module, module.VALUE)))
    assert seen == []

    module = importlib.import_module(name)
    module.VALUE = 2
    importlib.reload(module)
    importlib.reload(module)
    del sys.modules[name]
    other = importlib.import_module(name)

    assert seen == [(module, 1)] * 3 + [(other, 1)]


def test_an_error_comes_out_of_every_import_until_it_is_gone(modules: Modules) -> None:
    name = modules.write("VALUE = 1\n")
    wrong = [True, True, False]

    def loaded(module: ModuleType) -> None:
        if wrong.pop(0):
            raise ValueError(f"{module.__name__} is not wanted")

    after_load.watch(name, loaded)

    for _ in range(2):
        with pytest.raises(ValueError, match="not wanted"):
            importlib.import_module(name)
        assert name not in sys.modules

    assert importlib.import_module(name).VALUE == 1


def test_a_loaded_module_is_asked_about_at_its_reload_only(modules: Modules) -> None:
    module = modules.load("VALUE = 1\n")
    seen: list[ModuleType] = []

    after_load.watch(module.__name__, seen.append)
    assert seen == []
    assert sys.modules[module.__name__] is module

    importlib.reload(module)
    assert seen == [module]


def test_the_modules_loader_is_its_own(modules: Modules) -> None:
    plain = modules.load("VALUE = 1\n")
    name = modules.write("VALUE = 1\n")
    after_load.watch(name, lambda _: None)

    module = importlib.import_module(name)

    for loader in (module.__loader__, module.__spec__.loader):
        assert type(loader) is type(plain.__loader__)


def test_threads_that_import_at_once_get_one_module(modules: Modules) -> None:
    name = modules.write("import time\ntime.sleep(0.01)\n")
    after_load.watch(name, lambda _: None)
    got: list[ModuleType] = []
    threads = [threading.Thread(target=lambda: got.append(importlib.import_module(name))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({id(module) for module in got}) == 1


def test_packages_and_their_modules_are_told_apart(modules: Modules, tmp_path: object) -> None:
    seen: list[str] = []
    first, second = modules.write("A = 1\n"), modules.write("A = 1\n")
    after_load.watch(first, lambda module: seen.append(module.__name__))

    importlib.import_module(second)
    assert seen == []

    importlib.import_module(first)
    assert seen == [first]
