"""A `functools.lru_cache` around a function gives no answer that the other variant computed, wherever it is."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import prtoggle
from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_toggle

__all__ = ["modules"]

F = "def f(x):\n    return x + 1\n"
DECO = "def deco(fn):\n    def inner(*a):\n        return fn(*a)\n    return inner\n"
IN_CLASS = "class A:\n    {0}\n    def f(*x):\n        return x[-1] + 1\n"


class Cached(NamedTuple):
    """A module below `import functools`, its target, and an expression that comes to 2, or 3 reverted."""

    text: str
    target: str
    call: str


CASES = {
    "around it": Cached(F + "g = functools.lru_cache(f)\n", "f", "g(1)"),
    "around its wrapper": Cached(DECO + "@deco\n" + F + "g = functools.lru_cache(f)\n", "f", "g(1)"),
    "around a wrapt proxy": Cached(
        "import wrapt\n@wrapt.decorator\ndef deco(fn, instance, args, kwargs):\n    return fn(*args)\n@deco\n"
        + F + "g = functools.lru_cache(f)\n", "f", "g(1)",
    ),
    "around an instance of a class": Cached(
        "class D:\n    def __init__(self, fn):\n        self.fn = fn\n    def __call__(self, *a):\n        return self.fn(*a)\n"
        "@D\n" + F + "class A:\n    g = staticmethod(functools.lru_cache(f))\n", "f", "A.g(1)",
    ),
    "around a bound class method": Cached(
        IN_CLASS.format("@classmethod") + "g = functools.lru_cache(A.f)\n", "A.f", "g(1)"
    ),
    "around a static method": Cached(
        IN_CLASS.format("@staticmethod") + "g = functools.lru_cache(A.f)\n", "A.f", "g(1)"
    ),
    "around the descriptor itself": Cached(
        IN_CLASS.format("@staticmethod") + "g = functools.lru_cache(vars(A)['f'])\n", "A.f", "g(1)"
    ),
    "around a bound method": Cached(IN_CLASS.format("") + "g = functools.lru_cache(A().f)\n", "A.f", "g(1)"),
    "around a single dispatch": Cached(
        "@functools.singledispatch\ndef h(x):\n    return x\n@h.register\ndef _(x: int):\n    return x + 1\n"
        "g = functools.lru_cache(h)\n", "_", "g(1)",
    ),
    "around a function of a factory": Cached(
        "def make(k):\n    def inner(x):\n        return x + 1\n    return inner\nf = make(0)\ng = functools.lru_cache(f)\n",
        "f", "g(1)",
    ),
    "around a lambda": Cached("f = lambda x: (\n    x + 1\n)\ng = functools.lru_cache(f)\n", "f", "g(1)"),
    "found by its class": Cached(IN_CLASS.format("") + "g = functools.lru_cache(A().f)\n", "A", "g(1)"),
    "one an instance, of many": Cached(
        "class A:\n    def __init__(self):\n        self.g = functools.lru_cache(self.f)\n    def f(self, x):\n"
        "        return x + 1\nmany = [A() for _ in range(1500)]\n", "A.f", "max(a.g(1) for a in many)",
    ),
    "beside many holders": Cached(
        DECO + F + "many = [functools.partial(f, 1) for _ in range(1500)]\ng = functools.lru_cache(deco(f))\n",
        "f", "g(1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_answer_outlives_a_flip(modules: Modules, case: Cached) -> None:
    module = modules.load("import functools\n" + case.text)
    line = next(line.strip() for line in case.text.splitlines() if line.rstrip().endswith("+ 1"))
    toggle = make_toggle(f"{module.__name__}.{case.target}", (line, line.replace("+ 1", "+ 2")))
    seen = [eval(case.call, vars(module))]
    for _ in range(2):
        with prtoggle.reverted(toggle):
            seen.append(eval(case.call, vars(module)))
        seen.append(eval(case.call, vars(module)))

    assert seen == [2, 3, 2, 3, 2]
