"""Syntax of Python 3.12 and later, whose scopes and code objects nest in ways of their own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.prtoggle.cases.moments import patch, toggle, world

if TYPE_CHECKING:
    from tests.prtoggle.cases.moments import World

__all__ = ["world"]
pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is of Python 3.12")

CASES = {
    "type parameters": ("def f[T](x: T) -> T:\n    y = x + 1\n    return y\n", "f", "y = x + 1", "y = x + 50", "f(1)", 2, 51),
    "of a class and a method": (
        "class C[T]:\n    def f[U](self, x: U) -> U:\n        y = x + 1\n        return y\n",
        "C.f", "y = x + 1", "y = x + 50", "C().f(1)", 2, 51,
    ),
    "a default beside them": (
        "def f[T](x: T, k=1) -> T:\n    return x + k\n", "f", "def f[T](x: T, k=1) -> T:", "def f[T](x: T, k=5) -> T:", "f(1)", 2, 6,
    ),
    "quotes nested in an f-string": (
        "def f(x):\n    s = f\"{'a' + f\"{x}\"}\"\n    y = x + 1\n    return s, y\n", "f", "y = x + 1", "y = x + 50", "f(1)", ("a1", 2), ("a1", 51),
    ),
    "a type statement": ("type A = int\ndef f(x: A):\n    y = x + 1\n    return y\n", "f", "y = x + 1", "y = x + 50", "f(1)", 2, 51),
    "super() in an inlined comprehension": (
        "class P:\n    def go(self):\n        return 5\nclass C(P):\n    def f(self):\n        y = [super().go() for _ in 'a']\n        return y\n",
        "C.f", "y = [super().go() for _ in 'a']", "y = [super().go() for _ in 'ab']", "C().f()", [5], [5, 5],
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "target", "match", "new", "call", "fixed", "old"), CASES.values(), ids=CASES
)
def test_an_edit(
    world: World, text: str, target: str, match: str, new: str, call: str, fixed: Any, old: Any
) -> None:
    world.write({"case.py": text.encode()})
    module, handle = world.revert(toggle(patch(f"case.{target}", match, new)))
    during = eval(call, vars(module))
    handle.restore()

    assert (during, eval(call, vars(module))) == (old, fixed)
