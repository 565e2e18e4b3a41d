"""Functions that torch decorates, compiles, differentiates or scripts: reverted, or refused with the target named."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import prtoggle
from tests.prtoggle.cases.moments import LIVE, live, patch, toggle, world

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from tests.prtoggle.cases.moments import World

__all__ = ["live", "world"]
pytestmark = [
    pytest.mark.skipif(sys.version_info >= (3, 14), reason="torch.compile follows Python with a delay"),
    # Of torch's own making, when it compiles or scripts.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

TEXT = """
    import functools
    import torch

    @torch.no_grad()
    def quiet(x):
        y = x + 1
        return y

    class Model(torch.nn.Module):
        @torch.inference_mode()
        def infer(self, x):
            y = x + 1
            return y

        @functools.lru_cache
        @torch.enable_grad()
        def loud(self, n):
            y = torch.ones(n) + 1
            return y

        def hook(self, module, inputs, output):
            y = output + 1
            return y

        def forward(self, x):
            return x

    model = Model()
    model.register_forward_hook(model.hook)

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x + 1
            return y

        @staticmethod
        def backward(ctx, grad):
            back = grad * 2
            return back

    @torch.compile(backend="eager")
    def compiled(x):
        y = x + 1
        return y

    @functools.lru_cache
    @torch.compile(backend="eager", dynamic=True)
    def cached(x):
        y = x + 1
        return y

    def inner(x):
        y = x + 1
        return y

    mapped = torch.vmap(inner)
    gradient = torch.func.grad(lambda x: inner(x) ** 2)
    both = torch.compile(lambda x: mapped(x) * 2, backend="eager")

    def pair(x):
        def local(v):
            y = v + 1
            return y
        return local(x) * 2

    compiled_pair = torch.compile(pair, backend="eager")
"""
ONES = torch.ones(2)
ONE = torch.tensor(1.0)

CALLS = {
    "quiet": ("quiet", "module.quiet(torch.ones(2, requires_grad=True))", [2, 2], [51, 51]),
    "inference mode": ("Model.infer", "module.model.infer(ONES)", [2, 2], [51, 51]),
    "a cache over enable_grad": ("Model.loud", "module.model.loud(2)", [2, 2], [51, 51]),
    "a compiled function itself": ("compiled", "module.compiled(ONES)", [2, 2], [51, 51]),
    "a cache over a compiled one": ("cached", "module.cached(ONES)", [2, 2], [51, 51]),
    "vmap": ("inner", "module.mapped(ONES)", [2, 2], [51, 51]),
    "grad": ("inner", "module.gradient(ONE)", 4, 102),
    "vmap in a compiled caller": ("inner", "module.both(ONES)", [4, 4], [102, 102]),
    "a local function in a compiled caller": ("pair", "module.compiled_pair(ONES)", [4, 4], [102, 102]),
}  # fmt: skip


@pytest.mark.parametrize(("target", "call", "fixed", "old"), CALLS.values(), ids=CALLS)
def test_a_function_in_the_hands_of_torch(
    world: World, target: str, call: str, fixed: object, old: object
) -> None:
    world.write({"case.py": TEXT})
    names = {"torch": torch, "ONES": ONES, "ONE": ONE}
    new = "y = v + 50" if target == "pair" else "y = torch.ones(n) + 50" if "loud" in target else "y = x + 50"
    wanted = toggle(patch(f"case.{target}", new.replace("50", "1"), new))
    if world.moment == LIVE:
        assert eval(call, {**names, "module": world.load()}).tolist() == fixed
    module, handle = world.revert(wanted)
    names["module"] = module
    assert eval(call, names).tolist() == old
    handle.restore()
    result = eval(call, names)
    assert (result.tolist(), result.requires_grad) == (fixed, False)


def test_hooks_and_autograd_functions_follow(world: World) -> None:
    world.write({"case.py": TEXT})
    module, handle = world.revert(
        toggle(
            patch("case.Model.hook", "y = output + 1", "y = output + 50"),
            patch("case.Double.forward", "y = x + 1", "y = x + 50"),
            patch("case.Double.backward", "back = grad * 2", "back = grad * 7"),
        )
    )

    def seen() -> list[float]:
        x = torch.tensor(1.0, requires_grad=True)
        y = module.Double.apply(x)
        y.backward()
        return [float(module.model(ONE)), float(y.detach()), float(x.grad)]

    assert seen() == [51, 51, 7]
    handle.restore()
    assert seen() == [2, 2, 2]


SCRIPTED = {
    "script": "@torch.jit.script\ndef f(x):\n    y = x + 1\n    return y\n",
    "traced": "def g(x):\n    y = x + 1\n    return y\nf = torch.jit.trace(g, torch.ones(2))\n",
    "a module": "class M(torch.nn.Module):\n    def forward(self, x):\n        y = x + 1\n        return y\nf = torch.jit.script(M())\n",
}


@pytest.mark.parametrize("text", SCRIPTED.values(), ids=SCRIPTED)
def test_scripted_code_is_refused_live(live: World, text: str) -> None:
    live.write({"case.py": f"import torch\n{text}".encode()})
    module = live.load()
    with pytest.raises(prtoggle.PrToggleError, match=r"case\.f"):
        prtoggle.revert(toggle(patch("case.f", "y = x + 1", "y = x + 50")))
    assert module.f(ONES).tolist() == [2, 2]


METHODS = {
    "forward of a module": ("torch.nn.Module", "forward", "net = torch.jit.script(M())\n"),
    "method that a module calls": ("torch.nn.Module", "h", "net = torch.jit.script(M())\n"),
    "method of a base": ("torch.nn.Module", "h", "class N(M): pass\nnet = torch.jit.script(N())\n"),
    "class": ("object", "h", "torch.jit.script(M)\nnet = None\n"),
}


@pytest.mark.parametrize(("base", "target", "use"), METHODS.values(), ids=METHODS)
def test_methods_that_were_scripted_are_refused_and_not_put_back_in_silence(
    world: World, base: str, target: str, use: str
) -> None:
    text = (
        f"import torch\nclass M({base}):\n    def forward(self, x: int) -> int:\n        y = self.h(x)\n        return y\n"
        f"    def h(self, x: int) -> int:\n        z = x + 1\n        return z\n{use}"
    )
    text = text.replace("class M(object):", "class M:")
    old, new = {"h": ("z = x + 1", "z = x + 2"), "forward": ("y = self.h(x)", "y = self.h(x) + 1")}[target]
    world.write({"case.py": text.encode()})
    made = toggle(patch(f"case.M.{target}", old, new))
    if world.moment == LIVE:
        module = world.load()
        with pytest.raises(
            prtoggle.UnsupportedTargetError, match=r"was compiled by torch\.jit\.script as well"
        ):
            world.revert(made)
        assert module.M().forward(1) == 2
        return
    module, handle = world.revert(made)
    assert module.M().forward(1) == 3
    with pytest.raises(prtoggle.RestoreError, match=r"was compiled by torch\.jit\.script as well"):
        handle.restore()
    assert module.M().forward(1) == 3
    assert module.net is None or module.net(1) == 3


def test_a_method_of_a_class_that_nobody_scripted_is_reverted(world: World) -> None:
    """Though a scripted module has one of its name."""
    text = (
        "import torch\nclass M(torch.nn.Module):\n    def forward(self, x: int) -> int:\n        return x + 1\n"
        "class N(torch.nn.Module):\n    def forward(self, x):\n        y = x + 1\n        return y\n"
        "net = torch.jit.script(M())\n"
    )
    world.write({"case.py": text.encode()})
    module, handle = world.revert(toggle(patch("case.N.forward", "y = x + 1", "y = x + 2")))
    assert (module.N()(1), module.net(1)) == (3, 2)
    handle.restore()
    assert module.N()(1) == 2
