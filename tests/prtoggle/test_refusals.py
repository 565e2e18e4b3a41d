"""What cannot be edited is refused with the target named and the way out told; nothing changes."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import NamedTuple

import pytest

import prtoggle
from prtoggle import engine
from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_toggle

__all__ = ["modules"]


class Refused(NamedTuple):
    """A live target, its edit, the error's class, words of its message, and what stays the same."""

    text: str
    target: str
    match: str
    replacement: str
    error: type[Exception]
    words: tuple[str, ...]
    call: str


LIVE = {
    "generated": Refused(
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n", "P.__init__", "self.x=x", "self.x=0",
        prtoggle.UnsupportedTargetError, ("P.__init__", "no source", "wrap:"), "P(2).x",
    ),
    "inherited": Refused(
        "class B:\n    def m(self):\n        return 1\nclass L(B): pass\nclass R(B): pass\n", "L.m", "return 1",
        "return 2", prtoggle.UnsupportedTargetError, ("L.m", "inherits", ".B.m"), "(L().m(), R().m())",
    ),
    "callable instance": Refused(
        "class Op:\n    def __call__(self):\n        return 1\nop = Op()\n", "op", "return 1", "return 2",
        prtoggle.PrToggleError, (".op",), "op()",
    ),
    "method of an instance": Refused(
        "class Op:\n    def m(self):\n        return 1\nop = Op()\n", "op.m", "return 1", "return 2",
        prtoggle.UnsupportedTargetError, ("op.m", "instance of Op", "Op.m"), "op.m()",
    ),
    "C function": Refused(
        "from math import sqrt\n", "sqrt", "return 1", "return 2",
        prtoggle.UnsupportedTargetError, ("sqrt", "written in C", "wrap:"), "sqrt(4)",
    ),
    "bound here only": Refused(
        "from textwrap import dedent\n", "dedent", "return text", "return 2",
        prtoggle.UnsupportedTargetError, ("dedent", "textwrap.dedent"), "dedent(' x')",
    ),
    "misspelt": Refused(
        "def get_length(x):\n    return x\n", "get_lenght", "return x", "return 2",
        prtoggle.TargetError, ("get_lenght", "get_length"), "get_length(1)",
    ),
    "decorator line": Refused(
        "def times(k):\n    def deco(fn):\n        def inner():\n            return fn() * k\n        return inner\n"
        "    return deco\n@times(3)\ndef f():\n    return 1\n", "f", "@times(3)", "@times(9)",
        prtoggle.UnsupportedTargetError, (".f", "decorator", "before the module is loaded"), "f()",
    ),
    "new decorator": Refused(
        "import functools\ndef f():\n    return 1\n", "f", "def f():", "@functools.cache\ndef f():",
        prtoggle.PrToggleError, (".f", "before the module is loaded"), "f()",
    ),
    "super added": Refused(
        "class P:\n    def m(self):\n        return 1\nclass Q(P):\n    def m(self):\n        return 2\n", "Q.m",
        "return 2", "return super().m()", prtoggle.UnsupportedTargetError,
        ("Q.m", "super()", "before the module is loaded"), "Q().m()",
    ),
    "class cell added": Refused(
        "class Q:\n    def m(self):\n        return 2\n", "Q.m", "return 2", "return __class__",
        prtoggle.UnsupportedTargetError, ("Q.m", "__class__"), "Q().m()",
    ),
    "cell added": Refused(
        "def make(k, b):\n    def g(x):\n        return x * k\n    return g\ng = make(2, 5)\n", "g", "return x * k",
        "return x * k + b", prtoggle.UnsupportedTargetError, (".g", " b ", "no cell"), "g(1)",
    ),
    "module statement": Refused(
        "X = 1\ndef f():\n    return X\n", "", "X = 1", "X = 2", prtoggle.UnsupportedTargetError,
        ("stands in no function", "value:"), "f()",
    ),
    "class statement": Refused(
        "class C:\n    x = 1\n    def m(self):\n        return 1\n", "C", "x = 1", "x = 2",
        prtoggle.UnsupportedTargetError, (".C", "stands in no function"), "C.x",
    ),
    "renamed": Refused(
        "def f():\n    return 1\n", "f", "def f():", "def g():", prtoggle.PrToggleError, (".f",), "f()",
    ),
    "failing default": Refused(
        "def f(a=1):\n    return a\n", "f", "def f(a=1):", "def f(a=1 // 0):", prtoggle.EditError,
        (".f", "ZeroDivisionError"), "f()",
    ),
    "undefined name": Refused(
        "def f(x=1):\n    y = x\n    return y\n", "f", "y = x", "y = gone(x)", prtoggle.UndefinedNameError,
        (".f", "gone"), "f()",
    ),
    "comment": Refused(
        "def f():\n    x = 1  # one\n    return x\n", "f", "x = 1  # one", "x = 1  # two", prtoggle.EditError,
        (".f", "comments or layout only", "leave this patch out"), "f()",
    ),
    "brackets and quotes": Refused(
        "def f():\n    return g('a', 1)\ndef g(a, b):\n    return a, b\n", "f", "return g('a', 1)",
        'return (\n    g(\n        "a",\n        1,\n    )\n)', prtoggle.EditError,
        (".f", "comments or layout only"), "f()",
    ),
    "comment of a statement": Refused(
        "X = 1\ndef f():\n    return X\n", "", "X = 1", "X = 1  # why", prtoggle.EditError,
        ("comments or layout only",), "f()",
    ),
    "a module": Refused(
        "import os.path\n", "os.path", "a = 1", "a = 2", prtoggle.PrToggleError, ("os",), "os.path.sep",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LIVE.values(), ids=LIVE)
def test_a_live_target_is_refused(modules: Modules, case: Refused) -> None:
    module = modules.load(case.text)
    before = eval(case.call, vars(module))
    target = f"{module.__name__}.{case.target}".rstrip(".")
    with pytest.raises(case.error) as caught:
        prtoggle.revert(make_toggle(target, (case.match, case.replacement)))

    assert [word for word in case.words if word not in str(caught.value)] == []
    assert eval(case.call, vars(module)) == before
    assert prtoggle.active() == []


AT_LOAD_TOO = {
    "decorator line": ("f()", 9),
    "super added": ("Q().m()", 1),
    "class cell added": ("Q().m().__name__", "Q"),
    "module statement": ("f()", 2),
    "class statement": ("C.x", 2),
}


@pytest.mark.parametrize("name", AT_LOAD_TOO)
def test_what_is_refused_live_works_at_load(
    modules: Modules, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, (call, expected) = LIVE[name], AT_LOAD_TOO[name]
    module_name = modules.write(case.text)
    target = f"{module_name}.{case.target}".rstrip(".")
    monkeypatch.setattr(engine, "_engine", engine.Engine())
    handle = prtoggle.revert(make_toggle(target, (case.match, case.replacement)))
    module = importlib.import_module(module_name)

    assert eval(call, vars(module)) == expected
    # What has run cannot be put back where no literal says what it was; this test's engine keeps it reverted.
    with contextlib.suppress(prtoggle.RestoreError):
        handle.restore()
    assert handle.is_restored is (
        name in ("module statement", "class statement", "super added", "class cell added")
    )
    engine._engine.loading.stop()


@pytest.mark.parametrize("name", ["comment", "brackets and quotes", "comment of a statement"])
def test_what_changes_no_code_is_refused_before_the_load(modules: Modules, name: str) -> None:
    case = LIVE[name]
    module_name = modules.write(case.text)
    with pytest.raises(case.error, match="comments or layout only"):
        prtoggle.revert(
            make_toggle(f"{module_name}.{case.target}".rstrip("."), (case.match, case.replacement))
        )

    assert prtoggle.active() == []
    assert hasattr(importlib.import_module(module_name), "f")


def test_a_comment_may_change_beside_a_statement(modules: Modules) -> None:
    module = modules.load("def f():\n    x = 1  # one\n    return x\n")
    edits = ("x = 1  # one", "x = 1  # two"), ("return x", "return x + 1")
    with prtoggle.reverted(make_toggle(f"{module.__name__}.f", *edits)):
        assert module.f() == 2
    assert module.f() == 1


def test_a_stale_file_is_refused(modules: Modules) -> None:
    from pathlib import Path

    module = modules.load("def f(x):\n    y = x + 1\n    return y\n")
    Path(module.__file__ or "").write_text("def f(x):\n    y = x + 1\n    return ('other', y)\n")
    with pytest.raises(prtoggle.StaleSourceError, match=r"\.f: .* changed after it was imported"):
        prtoggle.revert(make_toggle(f"{module.__name__}.f", ("y = x + 1", "y = x + 50")))
    assert module.f(1) == 2


def test_a_change_elsewhere_in_the_file_does_not_matter(modules: Modules) -> None:
    from pathlib import Path

    module = modules.load("def f(x):\n    y = x + 1\n    return y\n\n\ndef g():\n    return 1\n")
    path = Path(module.__file__ or "")
    path.write_text(path.read_text().replace("return 1", "return 1000"))
    with prtoggle.reverted(make_toggle(f"{module.__name__}.f", ("y = x + 1", "y = x + 50"))):
        assert module.f(1) == 51


def test_a_live_function_is_refused_where_threads_run_at_once(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = modules.load("def f():\n    return 1\n"), modules.write("def f():\n    return 1\n")
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(prtoggle.UnsupportedTargetError, match=r"\.f: with the GIL off"):
        prtoggle.revert(make_toggle(f"{module.__name__}.f", ("return 1", "return 2")))
    assert module.f() == 1
    handle = prtoggle.revert(make_toggle(f"{name}.f", ("return 1", "return 2")))
    assert importlib.import_module(name).f() == 2
    monkeypatch.undo()
    handle.restore()
