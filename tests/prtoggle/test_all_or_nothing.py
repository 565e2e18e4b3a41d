"""A call that fails leaves everything as it was: every target, the toggles' states, the environment."""

from __future__ import annotations

import os

import pytest

import prtoggle
from prtoggle.spec import Patch
from tests.prtoggle.made_modules import Modules, modules, namespaces
from tests.prtoggle.toggle_making import make_patch, make_toggle, toggle_of

__all__ = ["modules"]

TEXT = """
import os
LIMIT = 8

def a(x):
    return x + 1

def b(x):
    return x + 2

class C:
    def m(self):
        return 1

class D(C):
    pass
"""

FAILING = {
    "no match": lambda name: make_patch(f"{name}.b", ("return x + 999", "return 0")),
    "two matches": lambda name: make_patch(f"{name}", ("return x + 1\n", "")),
    "no such name": lambda name: make_patch(f"{name}.bb", ("return x + 2", "return 0")),
    "invalid": lambda name: make_patch(f"{name}.b", ("return x + 2", "return (")),
    "undefined": lambda name: make_patch(f"{name}.b", ("return x + 2", "return gone(x)")),
    "inherited": lambda name: make_patch(f"{name}.D.m", ("return 1", "return 2")),
    "cell": lambda name: make_patch(f"{name}.C.m", ("return 1", "return super().m()")),
    "builtin": lambda name: make_patch(f"{name}.os.getpid", ("return 1", "return 2")),
    "no module": lambda name: make_patch(f"{name}_gone.f", ("return 1", "return 2")),
    "wrapper that is not there": lambda name: Patch(f"{name}.b", wrap="prtoggle.errors:gone"),
}


@pytest.mark.parametrize("failing", FAILING)
def test_a_failing_patch_takes_the_others_with_it(modules: Modules, failing: str) -> None:
    module = modules.load(TEXT)
    name = module.__name__
    before = namespaces(module, module.C, module.D)
    kept, codes = before(), (module.a.__code__, module.b.__code__, module.C.m.__code__)
    good = make_patch(f"{name}.a", ("return x + 1", "return x + 100"))
    toggle = toggle_of(
        good, Patch(f"{name}.LIMIT", value=9), FAILING[failing](name), env={"MADE_BY_TOGGLE": "1"}
    )
    with pytest.raises(prtoggle.PrToggleError) as caught:
        prtoggle.revert(make_toggle(f"{name}.C.m", ("return 1", "return 3")), toggle)

    assert name in str(caught.value)
    assert before() == kept
    assert (module.a.__code__, module.b.__code__, module.C.m.__code__) == codes
    assert (module.a(1), module.b(1), module.C().m(), module.LIMIT) == (2, 3, 1, 8)
    assert "MADE_BY_TOGGLE" not in os.environ
    assert toggle.id not in [state.toggle.id for state in prtoggle.active()]


def test_a_step_that_fails_while_it_is_installed_is_undone(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prtoggle.installers import value

    module = modules.load(TEXT)
    code = module.a.__code__
    toggle = toggle_of(
        make_patch(f"{module.__name__}.a", ("return x + 1", "return x + 100")),
        Patch(f"{module.__name__}.LIMIT", value=9),
    )

    def broken(step: value.ValueStep) -> None:
        assert module.a(1) == 101
        raise prtoggle.UnsupportedTargetError("not today")

    monkeypatch.setattr(value.ValueStep, "install", broken)
    with pytest.raises(prtoggle.UnsupportedTargetError, match="not today"):
        prtoggle.revert(toggle)

    assert module.a.__code__ is code
    assert prtoggle.active() == []


def test_restoring_refuses_to_destroy_what_somebody_else_did(modules: Modules) -> None:
    module = modules.load(TEXT)
    original = module.a.__code__
    handle = prtoggle.revert(
        make_toggle(f"{module.__name__}.a", ("return x + 1", "return x + 100")),
        make_toggle(f"{module.__name__}.b", ("return x + 2", "return x + 200")),
    )
    ours, theirs = module.a.__code__, (lambda x: "theirs").__code__
    module.a.__code__ = theirs
    with pytest.raises(prtoggle.RestoreError, match=r"\.a: somebody else changed"):
        handle.restore()
    assert (module.a(1), module.b(1)) == ("theirs", 201)
    assert not handle.is_restored

    module.a.__code__ = ours
    handle.restore()
    assert module.a.__code__ is original
    assert module.b(1) == 3


def test_reverting_refuses_a_function_that_another_tool_rewrote(modules: Modules) -> None:
    module = modules.load(TEXT)
    module.a.__code__ = module.b.__code__.replace(co_name="a", co_qualname="a")
    with pytest.raises(prtoggle.StaleSourceError, match=r"\.a: the running code does not come from"):
        prtoggle.revert(make_toggle(f"{module.__name__}.a", ("return x + 1", "return x + 100")))
    assert module.a(1) == 3


def test_a_replaced_name_is_found_when_the_toggle_goes_on_again(modules: Modules) -> None:
    module = modules.load(TEXT + "\ndef make():\n    def a(x):\n        return x\n    return a\n")
    toggle = make_toggle(f"{module.__name__}.a", ("return x + 1", "return x + 100"))
    prtoggle.revert(toggle).restore()
    vars(module)["a"] = len
    with pytest.raises(prtoggle.UnsupportedTargetError, match=r"\.a: .*written in C"):
        prtoggle.revert(toggle)
    assert module.a is len
