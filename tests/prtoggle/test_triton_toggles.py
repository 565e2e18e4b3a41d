"""Toggles on Triton kernels, through the public verbs: at load and live, compiled and interpreted."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import prtoggle
from prtoggle import engine, reach
from tests.prtoggle.made_modules import Modules, modules

pytest.importorskip("triton")

from tests.prtoggle.test_triton_jit import KERNELS, compiled_text
from tests.prtoggle.triton_language import language

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

__all__ = ["language", "modules"]
_serial = itertools.count()


def toggle(module: str, target: str, match: str, replacement: str) -> prtoggle.Toggle:
    patch = {"target": f"{module}.{target}", "edits": [{"match": match, "replacement": replacement}]}
    return prtoggle.load(json.dumps({"id": f"k{next(_serial)}", "patches": [patch]}))


@pytest.fixture(params=["at load", "live"])
def reverted(
    request: pytest.FixtureRequest, modules: Modules, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> Iterator[Callable[..., tuple[ModuleType, prtoggle.Handle]]]:
    """Gives the module with one edit in it, and the handle, for either moment."""
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    handles: list[prtoggle.Handle] = []

    def revert(target: str, match: str, replacement: str) -> tuple[ModuleType, prtoggle.Handle]:
        name = modules.write(KERNELS)
        if request.param == "live":
            module = importlib.import_module(name)
            if hasattr(module.kern, "cache_key"):
                assert module.kern.cache_key
        handles.append(prtoggle.revert(toggle(name, target, match, replacement)))
        return importlib.import_module(name), handles[-1]

    yield revert
    for handle in handles:
        handle.restore()


@pytest.mark.parametrize(
    ("target", "match", "replacement", "constant"),
    [
        ("kern", "v = v * 2", "v = v * 3", "3.000000e+00"),
        ("helper", "return v + 1", "return v + 100", "1.000000e+02"),
    ],
)
def test_kernel_compiles_reverted_and_then_as_it_was(
    reverted: Any, modules: Modules, target: str, match: str, replacement: str, constant: str
) -> None:
    plain = modules.load(KERNELS)
    fixed = compiled_text(plain.kern)
    module, handle = reverted(target, match, replacement)
    key = module.kern.cache_key

    assert constant in compiled_text(module.kern)
    assert replacement in getattr(module, target).src

    handle.restore()
    assert module.kern.cache_key != key
    assert getattr(module, target).src == getattr(plain, target).src
    assert compiled_text(module.kern).replace(module.__name__, plain.__name__) == fixed


def test_cache_keys_of_kernel_and_callers_come_back(modules: Modules) -> None:
    module = modules.load(KERNELS)
    keys = module.kern.cache_key, module.helper.cache_key, module.bystander.cache_key

    with prtoggle.reverted(toggle(module.__name__, "helper", "return v + 1", "return v + 100")):
        now = module.kern.cache_key, module.helper.cache_key, module.bystander.cache_key
        assert [one == other for one, other in zip(keys, now, strict=True)] == [False, False, True]

    assert (module.kern.cache_key, module.helper.cache_key, module.bystander.cache_key) == keys


def test_two_toggles_on_a_kernel_and_its_helper_go_on_and_off_in_any_order(modules: Modules) -> None:
    module = modules.load(KERNELS)
    one = toggle(module.__name__, "helper", "return v + 1", "return v + 100")
    two = toggle(module.__name__, "kern", "v = v * 2", "v = v * 3")
    fixed = module.kern.cache_key

    with prtoggle.reverted(one):
        alone = module.kern.cache_key
    first, second = prtoggle.revert(one), prtoggle.revert(two)
    both = module.kern.cache_key
    first.restore()
    other = module.kern.cache_key
    second.restore()

    assert len({fixed, alone, both, other}) == 4
    assert module.kern.cache_key == fixed
    with prtoggle.reverted(two, one):
        assert module.kern.cache_key == both


def test_a_kernel_behind_autotune_and_heuristics_follows(reverted: Any) -> None:
    module, handle = reverted(
        "tuned", "tl.store(x_ptr + i, i * 2, mask=i < n)", "tl.store(x_ptr + i, i, mask=i < n)"
    )
    kernel = module.tuned.fn.fn

    assert "i * 2" not in kernel.src

    handle.restore()
    assert "i * 2" in kernel.src


@pytest.mark.parametrize(
    ("target", "match", "replacement", "answer"),
    [
        ("kern", "v = v * 2", "v = v * 3", [3, 6, 9, 12]),
        ("helper", "return v + 1", "return v + 100", [200, 202, 204, 206]),
    ],
)
def test_interpreted_kernels_run_reverted_and_then_as_they_were(
    reverted: Any,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    match: str,
    replacement: str,
    answer: list[int],
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    x = torch.arange(4, dtype=torch.float32)
    module, handle = reverted(target, match, replacement)

    assert module.launch(x).tolist() == answer

    handle.restore()
    assert module.launch(x).tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize("target", ["kern", "helper"])
@pytest.mark.parametrize("moment", ["at load", "live"])
def test_a_kernel_is_reached_when_triton_takes_up_its_source(
    modules: Modules, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, moment: str, target: str
) -> None:
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    reach.start()
    name = modules.write(KERNELS)
    if moment == "live":
        assert importlib.import_module(name).kern.cache_key
    old, new = {"kern": ("v = v * 2", "v = v * 3"), "helper": ("return v + 1", "return v + 100")}[target]
    made = toggle(name, target, old, new)

    with engine.revert([made], observe=True):
        module = importlib.import_module(name)
        assert not reach.called(made.id)

        compiled_text(module.bystander, {"x_ptr": "*i32"}, {})
        assert not reach.called(made.id)

        compiled_text(module.kern)
        assert reach.called(made.id)
        assert reach.reached(made.id)


def test_an_interpreted_kernel_is_reached_when_it_runs(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    reach.start()
    module = modules.load(KERNELS)
    made = toggle(module.__name__, "helper", "return v + 1", "return v + 100")

    with engine.revert([made], observe=True):
        assert not reach.called(made.id)
        assert module.launch(torch.zeros(1)).tolist() == [200]
        assert reach.reached(made.id)


def test_changed_parameters_of_a_kernel_are_for_load_time_only(modules: Modules, tmp_path: Path) -> None:
    old, new = "def helper(v):\n    return v + 1\n", "def helper(v, k=7):\n    return v + k\n"
    module = modules.load(KERNELS)
    src, key = module.helper.src, module.helper.cache_key

    with pytest.raises(prtoggle.UnsupportedTargetError, match=r"parameters of .*helper"):
        prtoggle.revert(toggle(module.__name__, "helper", old, new))
    assert (module.helper.src, module.helper.cache_key) == (src, key)

    # In a process of its own: the way back is closed for a loaded kernel too.
    (tmp_path / "born.py").write_text(KERNELS, encoding="utf-8")
    script = f"""
import prtoggle
handle = prtoggle.revert(prtoggle.load({toggle("born", "helper", old, new).text!r}))
import born
assert born.helper.arg_names == ["v", "k"]
try:
    handle.restore()
except prtoggle.PrToggleError as error:
    assert "parameters of born.helper" in str(error), error
else:
    raise SystemExit("restored")
assert born.helper.arg_names == ["v", "k"]
"""
    root = Path(__file__).parents[2]
    environ = {**os.environ, "PYTHONPATH": str(root)}
    environ.pop("TRITON_INTERPRET", None)
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environ, check=True)
