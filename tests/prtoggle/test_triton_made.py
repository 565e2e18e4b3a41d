"""Kernels that no decorator made in place: `triton.jit` called on a function, and kernels of a factory."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import prtoggle
from tests.prtoggle.made_modules import Modules, modules

pytest.importorskip("triton")

from tests.prtoggle.test_triton_toggles import toggle

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["modules"]

MADE = """\
import torch, triton, triton.language as tl

def hp(v):
    w = v + 1
    return w

h = triton.jit(hp)

def body(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = h(tl.load(x_ptr + i, mask=i < n))
    v = v * 2
    tl.store(x_ptr + i, v, mask=i < n)

kern = triton.jit(body)
KEPT = [triton.jit(body)]

def mk():
    @triton.jit
    def inner(x_ptr, n, B: tl.constexpr):
        i = tl.arange(0, B)
        v = tl.load(x_ptr + i, mask=i < n)
        v = v * 2
        tl.store(x_ptr + i, v, mask=i < n)
    return inner

made = mk()

def launch(kernel):
    x = torch.zeros(4)
    kernel[(1,)](x, 4, B=4)
    return x.tolist()[0]
"""
EDITS = {"body": ("v = v * 2", "v = v * 3"), "hp": ("w = v + 1", "w = v + 4")}


def state(module: ModuleType) -> list[Any]:
    return [(kernel.src, kernel.cache_key) for kernel in (module.kern, *module.KEPT, module.h)]


@pytest.mark.parametrize("moment", ["at load", "live"])
@pytest.mark.parametrize("target", EDITS)
def test_a_kernel_under_another_name_follows_and_gets_its_key_back(
    modules: Modules, monkeypatch: pytest.MonkeyPatch, target: str, moment: str
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    name = modules.write(MADE)
    expected = state(importlib.import_module(modules.write(MADE)))
    if moment == "live":
        assert state(importlib.import_module(name)) == expected

    handle = prtoggle.revert(toggle(name, target, *EDITS[target]))
    module = importlib.import_module(name)
    reverted = state(module)
    handle.restore()

    changed = {"body": 2, "hp": 3}[target]
    assert sum(old[1] != new[1] for old, new in zip(expected, reverted, strict=True)) == changed
    assert any(EDITS[target][1] in src for src, _ in reverted)
    assert state(module) == expected


@pytest.mark.parametrize("moment", ["at load", "live"])
@pytest.mark.parametrize(("target", "during"), [("body", 3.0), ("hp", 8.0)])
def test_an_interpreted_kernel_under_another_name_runs_what_is_in_force(
    modules: Modules, monkeypatch: pytest.MonkeyPatch, target: str, during: float, moment: str
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    name = modules.write(MADE)
    if moment == "live":
        module = importlib.import_module(name)
        assert module.launch(module.kern) == 2.0

    handle = prtoggle.revert(toggle(name, target, *EDITS[target]))
    module = importlib.import_module(name)
    assert [module.launch(kernel) for kernel in (module.kern, *module.KEPT)] == [during, during]
    handle.restore()

    assert [module.launch(kernel) for kernel in (module.kern, *module.KEPT)] == [2.0, 2.0]


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_a_kernel_of_a_factory_that_was_born_reverted_is_not_put_back_in_silence(
    tmp_path: Path, interpret: str
) -> None:
    """In a process of its own: the way back is closed."""
    (tmp_path / "born.py").write_text(MADE, encoding="utf-8")
    made = toggle("born", "mk", "v = v * 2", "v = v * 3")
    script = f"""
import prtoggle
handle = prtoggle.revert(prtoggle.load({made.text!r}))
import born
before = vars(born.made).get("src")
try:
    handle.restore()
except prtoggle.RestoreError as error:
    assert "made the Triton kernel mk.<locals>.inner while it was reverted" in str(error), error
else:
    raise SystemExit("restored")
assert vars(born.made).get("src") == before
"""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TRITON_INTERPRET": interpret}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environ, check=True)
