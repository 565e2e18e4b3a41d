"""What docs/limitations.md says of source edits is what a user gets, word by word."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import prtoggle
from tests.prtoggle.cases.moments import AT_LOAD, LIVE, World, live, patch, toggle

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = ["live"]

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "limitations.md").read_text(encoding="utf-8")
F = "def f():\n    return 1\n"
MAKE = "def make(k, b):\n    def g(x):\n        return x * k\n    return g\ng = make(2, 5)\n"


def rewrite(module: ModuleType) -> None:
    Path(module.__file__ or "").write_text("def f():\n    return 7\n")


def exchange(module: ModuleType) -> None:
    module.f.__code__ = (lambda: 5).__code__


#: Text, target below the module, match, replacement, moment, what happens in between, words on the page.
CASES: dict[str, tuple[str, str, str, str, str, Callable[[ModuleType], None] | None, str]] = {
    "decorator": ("def t(k):\n    return lambda f: lambda: f() * k\n@t(3)\n" + F, "f", "@t(3)", "@t(9)", LIVE, None,
                  "the edit changes a decorator, and decorators are outside of what can be exchanged on a loaded module: they have run"),
    "super": ("class Q:\n    def m(self):\n        return 2\n", "Q.m", "return 2", "return super().m()", LIVE, None,
              "the edit newly uses super() or __class__ of the enclosing scope, for which the running function has no cell"),
    "cell": (MAKE, "g", "return x * k", "return x * k + b", LIVE, None, "the edit newly uses b of the enclosing scope, for which the running function has no cell"),
    "renamed": (F, "f", "def f():", "def g():", LIVE, None, "takes the definition away, renames it, or puts something before it"),
    "default": ("def f(a=1):\n    return a\n", "f", "def f(a=1):", "def f(a=1 // 0):", LIVE, None,
                "the changed expression '1 // 0' of the def line fails where the function was defined"),
    "class statement": ("class C:\n    x = 1\n", "C", "x = 1", "x = 2", LIVE, None, "stands in no function: that statement ran when app.core was loaded"),
    "computed": ("import os\nX = os.getpid()\n", "X", "X = os.getpid()", "X = 5", LIVE, None, "is no plain literal: on a loaded module that cannot be edited"),
    "lambdas": ("f, g = (lambda: 1), (lambda: 2)\n", "f", "f, g = (lambda: 1), (lambda: 2)", "f, g = (lambda: 3), (lambda: 2)", LIVE, None,
                "several lambdas stand in one line, and the edit is not told apart"),
    "stale": (F, "f", "return 1", "return 2", LIVE, rewrite, "the file was changed after it was imported, or another tool rewrote the function. Nothing was changed; restart the process, or revert before that tool does its work"),
    "generated": ("exec('def f():\\n    return 1\\n')\n", "f", "return 1", "return 2", LIVE, None, "has no source: it was generated (<string>), as dataclasses do"),
    "C": ("from math import sqrt\n", "sqrt", "return 1", "return 2", LIVE, None, "is written in C (builtin_function_or_method) and has no Python source"),
    "inherited": ("class B:\n    def m(self):\n        return 1\nclass L(B): pass\n", "L.m", "return 1", "return 2", LIVE, None,
                  "class L only inherits m from B, and an edit there changes every subclass"),
    "imported": ("from textwrap import dedent\n", "dedent", "return text", "return 2", LIVE, None, "is only bound here and defined in textwrap"),
    "of an instance": ("class Op:\n    def m(self):\n        return 1\nop = Op()\n", "op.m", "return 1", "return 2", LIVE, None, "op is not a class but an instance of Op"),
    "instance": ("class Op:\n    def __call__(self):\n        return 1\nop = Op()\n", "op", "return 1", "return 2", LIVE, None, "has no code of its own"),
    "replaced": (F + "def g():\n    return 2\nf.__code__ = g.__code__\n", "f", "return 1", "return 2", LIVE, None, "runs what is defined as g (line 3)"),
    "a lambda": ("T = type('T', (), {'f': lambda self: 1})\n", "T.f", "return 1", "return 2", LIVE, None, "is the lambda of line 1, which has no name"),
    "a field": ("import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: list = dataclasses.field(default_factory=list)\n", "C.x", "x: list = dataclasses.field(default_factory=list)", "x: set = dataclasses.field(default_factory=set)", LIVE, None,
                "x is a field of the dataclass C, whose __init__ has taken its default"),
    "an enumeration's __new__": ("import enum\nclass E(enum.Enum):\n    def __new__(cls, v):\n        return object.__new__(cls)\n    A = 1\n", "E.__new__", "return object.__new__(cls)", "return 2", LIVE, None,
                                 "__new__ of an enumeration makes its members when the class is created, and never again"),
    "a base of the same name": ("class C:\n    def m(self):\n        return 1\nclass C(C): pass\n", "C.m", "return 1", "return 2", LIVE, None,
                                "class C only inherits m from another class of its own name"),
    "type parameters": ("def f(a):\n    return a\n", "f", "def f(a):", "def f[T](a):", LIVE, None, "the edit changes the type parameters, which were made when the function was defined"),
    "misspelt": ("def get_length(x):\n    return x\n", "get_lenght", "return x", "return 2", LIVE, None, "has no get_lenght; did you mean get_length?"),
    "dependency": ("import no_such_dep\n" + F, "f", "return 1", "return 2", AT_LOAD, None, "imports no_such_dep, and there is no module of that name"),
    "ambiguous": ("def f(x):\n    if x:\n        x += 1\n    else:\n        x += 1\n    return x\n", "f", "x += 1", "x += 2", LIVE, None, "matches 2 times, at lines 3 and 5 of"),
    "mismatch": (F, "f", "return 3", "return 2", LIVE, None, "does not match"),
    "already": ("def f(x):\n    y = x\n    return y\n", "f", "y = x + 1", "y = x", LIVE, None, "this source is already reverted there, or it never had the fix"),
    "string": ("def f(x):\n    '''\n    y = x\n    '''\n    return 1\n", "f", "y = x", "y = 1", LIVE, None, "stands inside a string literal (line 3), which is not code"),
    "gone": (F, "f", "return 1", "return gone", LIVE, None, "uses gone, which neither module app.core nor the builtins define"),
    "syntax": (F, "f", "return 1", "return (", LIVE, None, "the source is not valid Python"),
    "branch": ("if 0:\n    def f():\n        return 1\nelse:\n    def f():\n        return 2\n", "f", "return 1", "return 9", AT_LOAD, None,
               "but what app.core defines under that name in the end is something else (another branch, or a later assignment); name what is in force, or use wrap: on it"),
    "statement": ("import os\nX = os.getpid()\n", "X", "X = os.getpid()", "X = 5", AT_LOAD, None, "a statement that ran when app.core was loaded, and it cannot be put back"),
    "inner": ("def make():\n    def inner(x, k=1):\n        return x * k\n    return inner\nkept = make()\n", "make", "def inner(x, k=1):", "def inner(x, k=5):", AT_LOAD, None,
              "while it was reverted, and makes no such function otherwise, so that this one cannot be put back"),
    "called": ("@lambda fn: fn()\n" + F, "f", "return 1", "return 2", AT_LOAD, None, "a decorator called the reverted function while app.core was loaded"),
    "exchanged": (F, "f", "return 1", "return 2", AT_LOAD, exchange, "somebody else exchanged the function's code after it was loaded reverted"),
}  # fmt: skip


def refusal(
    world: World, *patches: dict[str, Any], moment: str, between: Callable[[ModuleType], None] | None
) -> str:
    """The message of the whole round: load, revert and restore."""
    world.moment = moment
    with pytest.raises(prtoggle.PrToggleError) as caught:  # noqa: PT012  # whichever of the steps refuses
        if moment == LIVE and between is not None:
            between(world.load("app.core"))
        module, handle = world.revert(toggle(*patches), name="app.core")
        if between is not None:
            between(module)
        handle.restore()
    return str(caught.value)


@pytest.mark.parametrize("name", CASES)
def test_the_page_has_the_message(live: World, name: str) -> None:
    text, target, match, new, moment, between, words = CASES[name]
    if name == "type parameters" and sys.version_info < (3, 12):
        pytest.skip("the syntax is of Python 3.12")
    live.write({"app/__init__.py": b"", "app/core.py": text.encode()})
    message = refusal(live, patch(f"app.core.{target}", match, new), moment=moment, between=between)
    assert words in message
    assert words in PAGE


def test_what_somebody_else_changed_and_what_overlaps(live: World) -> None:
    live.write(
        {"app/__init__.py": b"", "app/core.py": b"def f(x):\n    y = x + 1\n    z = y\n    return z\n"}
    )
    module, handle = live.revert(toggle(patch("app.core.f", "y = x + 1", "y = x")), name="app.core")
    with pytest.raises(prtoggle.EditOverlapError) as overlap:
        prtoggle.revert(toggle(patch("app.core.f", "y = x + 1\nz = y", "z = x")))
    code = module.f.__code__
    module.f.__code__ = (lambda x: x).__code__
    with pytest.raises(prtoggle.RestoreError) as meddled:
        handle.restore()
    module.f.__code__ = code
    handle.restore()
    assert str(meddled.value) in PAGE
    said = re.findall(r"`\.\.\. (want the same .*?)`", PAGE)
    assert [words for words in said if words in str(overlap.value)] == said != []


#: The commands tell these themselves, on pages of their own.
TOOLS = {"bisect", "cli", "drift", "forge", "trace", "verify"}
#: What only another message holds, or nobody gets: a diff is never planned of a `value:` patch.
INSIDE = (
    "It is no assignment of a constant in a loaded module.",
    " patch changes an object, not source text",
)
REFUSALS = {
    name
    for name, kind in vars(prtoggle.errors).items()
    if isinstance(kind, type)
    and issubclass(kind, prtoggle.PrToggleError)
    and kind not in (prtoggle.PrToggleError, prtoggle.SpecError, prtoggle.CatalogueError)
    and not issubclass(kind, (prtoggle.UnknownToggleError, prtoggle.DuplicateToggleError))
}


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _messages() -> list[tuple[str, list[str]]]:
    """Where a refusal is raised, and the parts of its message that are always the same."""
    found = []
    for path in sorted((ROOT / "prtoggle").rglob("*.py")):
        if TOOLS.intersection(path.parts) or path.name == "shadows.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
                continue
            parts = [part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
            texts = [part for part in parts if isinstance(part, str)]
            if node.func.id in REFUSALS and not any(part.startswith(INSIDE) for part in texts):
                found.append((f"{path.name}:{node.lineno}", texts))
    return found


def test_every_refusal_has_an_entry() -> None:
    """Four words in a row of each message, or all where it has fewer, stand on the page of its subject."""
    pages = [PAGE, (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")]
    known = " ".join(word for page in pages for word in _words(page))
    messages = _messages()
    missing = []
    for place, texts in messages:
        size = min(4, max((len(_words(text)) for text in texts), default=0))
        runs = [
            " ".join(words[start : start + size])
            for words in map(_words, texts)
            for start in range(len(words) - size + 1)
            if size
        ]
        if runs and not any(f" {run} " in f" {known} " for run in runs):
            missing.append((place, texts))

    assert len(messages) > 70
    assert missing == []
