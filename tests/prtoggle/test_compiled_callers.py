"""torch.compile'd callers see a flip and its restore, however they came by the function."""

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
from prtoggle import dynamo, engine, reach
from tests.prtoggle.made_modules import Modules, modules

if TYPE_CHECKING:
    from types import ModuleType

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.skipif(sys.version_info >= (3, 14), reason="torch.compile follows Python with a delay"),
    # Of torch's own making, when it compiles.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]
__all__ = ["modules"]
_serial = itertools.count()

TARGET = """
import functools
import torch


def helper(x):
    y = x + 1
    return y


def deco(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@deco
@torch.no_grad()
def decorated(x):
    y = x + 1
    return y


class Model:
    def m(self, x):
        y = x + 1
        return y

    @classmethod
    def c(cls, x):
        y = x + 1
        return y

    @staticmethod
    def s(x):
        y = x + 1
        return y


class Net(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        return y


class Sub(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        return y


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Net()

    def forward(self, x):
        return self.inner(x) * 2


OFFSET = 1
model = Model()
net = Net()
sub = Sub()


def calls_constant(x):
    return (x + OFFSET) * 2


def calls_helper(x):
    return helper(x) * 2


def calls_decorated(x):
    return decorated(x) * 2


def calls_method(x):
    return model.m(x) * 2


def calls_classmethod(x):
    return Model.c(x) * 2


def calls_static(x):
    return Model.s(x) * 2


def calls_forward(x):
    return net(x) * 2


def calls_sub(x):
    return sub(x) * 2


compiled = {
    name: torch.compile(value, backend="eager")
    for name, value in list(globals().items())
    if name.startswith("calls_") or name == "helper"
}
compiled["net"] = torch.compile(Net(), backend="eager")
compiled["outer"] = torch.compile(Outer(), backend="eager")
"""

# (compiled callable, target, its answer with the fix, without)
CALLERS = [
    ("helper", "helper", 2.0, 51.0),
    ("calls_helper", "helper", 4.0, 102.0),
    ("calls_decorated", "decorated", 4.0, 102.0),
    ("calls_method", "Model.m", 4.0, 102.0),
    ("calls_classmethod", "Model.c", 4.0, 102.0),
    ("calls_static", "Model.s", 4.0, 102.0),
    ("calls_forward", "Net.forward", 4.0, 102.0),
    ("net", "Net.forward", 2.0, 51.0),
    ("outer", "Net.forward", 4.0, 102.0),
]


def toggle(module: str, target: str, **patch: Any) -> prtoggle.Toggle:
    if not patch:
        patch = {"edits": [{"match": "y = x + 1", "replacement": "y = x + 50"}]}
    spec = {"id": f"c{next(_serial)}", "patches": [{"target": f"{module}.{target}", **patch}]}
    return prtoggle.load(json.dumps(spec))


@pytest.fixture
def target(modules: Modules) -> ModuleType:
    return modules.load(TARGET)


def answer(module: ModuleType, caller: str) -> float:
    return float(module.compiled[caller](torch.ones(2))[0])


@pytest.mark.parametrize(("caller", "qualname", "fixed", "reverted"), CALLERS)
def test_a_caller_that_was_compiled_before_sees_every_flip(
    target: ModuleType, caller: str, qualname: str, fixed: float, reverted: float
) -> None:
    made = toggle(target.__name__, qualname)
    assert answer(target, caller) == fixed

    for _ in range(2):
        with prtoggle.reverted(made):
            assert answer(target, caller) == reverted
        assert answer(target, caller) == fixed


@pytest.mark.parametrize(("caller", "qualname", "fixed", "reverted"), CALLERS[1::2])
def test_a_caller_that_is_compiled_reverted_sees_the_restore(
    target: ModuleType, caller: str, qualname: str, fixed: float, reverted: float
) -> None:
    with prtoggle.reverted(toggle(target.__name__, qualname)):
        assert answer(target, caller) == reverted

    assert answer(target, caller) == fixed


@pytest.mark.parametrize(("caller", "qualname", "fixed", "reverted"), CALLERS)
def test_callers_of_what_was_born_reverted_see_it_and_the_restore(
    modules: Modules, caller: str, qualname: str, fixed: float, reverted: float
) -> None:
    name = modules.write(TARGET)
    with prtoggle.reverted(toggle(name, qualname)):
        module = importlib.import_module(name)
        assert answer(module, caller) == reverted

    assert answer(module, caller) == fixed


def test_many_flips_do_not_reach_the_recompile_limit(target: ModuleType) -> None:
    toggles = [
        toggle(target.__name__, "helper", edits=[{"match": "y = x + 1", "replacement": f"y = x + {number}"}])
        for number in range(2, 14)
    ]
    assert len(toggles) > torch._dynamo.config.recompile_limit

    for number, made in enumerate(toggles, start=2):
        with prtoggle.reverted(made):
            assert answer(target, "calls_helper") == 2.0 * (1 + number)
        assert answer(target, "calls_helper") == 4.0


@pytest.mark.parametrize(
    ("caller", "qualname"),
    [
        ("calls_helper", "helper"),
        ("calls_method", "Model.m"),
        ("calls_classmethod", "Model.c"),
        ("calls_static", "Model.s"),
        ("calls_sub", "Sub.forward"),
    ],
)
def test_a_wrapper_is_seen_by_compiled_callers(
    target: ModuleType, modules: Modules, caller: str, qualname: str
) -> None:
    wrappers = modules.write(
        "def plus(wrapped, instance, args, kwargs):\n    return wrapped(*args, **kwargs) + 49\n"
    )
    made = toggle(target.__name__, qualname, wrap=f"{wrappers}:plus")
    assert answer(target, caller) == 4.0

    with prtoggle.reverted(made):
        assert answer(target, caller) == 102.0

    assert answer(target, caller) == 4.0


def test_a_wrapper_around_what_a_compiled_module_has_bound_is_refused(
    target: ModuleType, modules: Modules
) -> None:
    wrappers = modules.write(
        "def plus(wrapped, instance, args, kwargs):\n    return wrapped(*args, **kwargs)\n"
    )
    assert answer(target, "net") == 2.0

    with pytest.raises(prtoggle.UnsupportedTargetError, match=r"bound method Net\.forward"):
        prtoggle.revert(toggle(target.__name__, "Net.forward", wrap=f"{wrappers}:plus"))

    assert answer(target, "net") == 2.0


def test_a_value_is_seen_by_compiled_callers(target: ModuleType) -> None:
    assert answer(target, "calls_constant") == 4.0

    with prtoggle.reverted(toggle(target.__name__, "OFFSET", value=50)):
        assert answer(target, "calls_constant") == 102.0

    assert answer(target, "calls_constant") == 4.0


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="what is compiled raises no events of sys.monitoring")
@pytest.mark.parametrize("fullgraph", [False, True])
def test_what_is_traced_into_a_graph_counts_as_reached(target: ModuleType, fullgraph: bool) -> None:
    reach.start()
    made = toggle(target.__name__, "helper")
    compiled = torch.compile(target.calls_helper, backend="eager", fullgraph=fullgraph)

    with engine.revert([made], observe=True):
        assert [float(compiled(torch.ones(2))[0]) for _ in range(3)] == [102.0] * 3
        assert reach.called(made.id)
        assert reach.reached(made.id)

    assert float(compiled(torch.ones(2))[0]) == 4.0


def test_a_scripted_function_is_refused_and_stays(modules: Modules) -> None:
    module = modules.load(
        "import torch\n\n\n@torch.jit.script\ndef f(x: torch.Tensor) -> torch.Tensor:\n    y = x + 1\n    return y\n"
    )

    with pytest.raises(prtoggle.UnsupportedTargetError, match=rf"{module.__name__}\.f"):
        prtoggle.revert(toggle(module.__name__, "f"))

    assert float(module.f(torch.ones(1))) == 2.0


def test_a_function_with_a_scripted_copy_is_refused_and_born_reverted_it_is_fine(modules: Modules) -> None:
    text = "import torch\n\n\ndef f(x: torch.Tensor) -> torch.Tensor:\n    y = x + 1\n    return y\n\n\ng = torch.jit.script(f)\n"
    module = modules.load(text)
    code = module.f.__code__

    with pytest.raises(
        prtoggle.UnsupportedTargetError, match=r"\.f was compiled by torch.jit.script as well"
    ):
        prtoggle.revert(toggle(module.__name__, "f"))
    assert module.f.__code__ is code

    # In a process of its own: the copy that was born reverted cannot be put back.
    script = f"""
import prtoggle, torch
prtoggle.revert(prtoggle.load({toggle("born", "f").text!r}))
import born
assert float(born.f(torch.ones(1))) == float(born.g(torch.ones(1))) == 51.0
"""
    folder = Path(module.__file__).parent
    (folder / "born.py").write_text(text, encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", script], cwd=folder, env=environ, check=True)


def test_without_dynamo_there_is_nothing_to_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)

    assert dynamo.forget_compiled() is False
    assert "torch._dynamo" not in sys.modules
