"""Edits that parse and do not compile: refused by `check`, at load and on a loaded module, by the same error."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

import prtoggle
from prtoggle.static_check import SourceCache, check_toggle
from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_toggle

if TYPE_CHECKING:
    from prtoggle.spec import Toggle

__all__ = ["modules"]

TEXT = "def f():\n    r = 1\n    return r\n"
REPLACEMENTS = {
    "break": "r = 2\nbreak",
    "async for": "async for i in []: pass\nr = 2",
    "bare star": "r = *'x'",
    "__debug__": "__debug__ = 1\nr = 2",
    "async comprehension": "r = [await x for x in []]",
    "nonlocal": "nonlocal q\nr = 2",
    "argument twice": "g = lambda a, a: 1\nr = 2",
    "late global": "r = 1\nglobal r\nr = 2",
    "star import": "from os import *\nr = 2",
    "walrus": "r = [x := 0 for x in []]",
}


@pytest.fixture(params=[*REPLACEMENTS, "future"])
def toggle(modules: Modules, request: pytest.FixtureRequest) -> Toggle:
    target = f"{modules.write(TEXT)}.f"
    if request.param == "future":
        return make_toggle(target, ("r = 1", "r = 2"), preamble="from __future__ import annotations")
    return make_toggle(target, ("r = 1", REPLACEMENTS[request.param]))


def test_check_calls_it_an_invalid_edit(toggle: Toggle) -> None:
    checked = check_toggle(toggle, None, SourceCache())

    assert checked.status == "invalid-edit"
    assert f"with toggle {toggle.id} the source is no valid Python" in checked.message


@pytest.mark.parametrize("loaded", [False, True], ids=["at load", "live"])
def test_it_cannot_be_reverted(toggle: Toggle, loaded: bool) -> None:
    name = toggle.targets[0].rpartition(".")[0]
    if loaded:
        importlib.import_module(name)

    with (
        pytest.raises(prtoggle.EditError, match=rf"{toggle.id} the source is not? valid Python"),
        prtoggle.reverted(toggle),
    ):
        importlib.import_module(name)

    assert prtoggle.active() == []
    assert (name in sys.modules) == loaded
    assert importlib.import_module(name).f() == 1
