"""A function whose name is another's in the end is none to edit: `check` and `new` say so from the text."""

from __future__ import annotations

import ast

import pytest

from prtoggle.loader import load_text
from prtoggle.rebinding import in_a_branch, rebound_at
from prtoggle.static_check import SourceCache, check_toggle

F = "def f(x):\n    return x\n"


@pytest.mark.parametrize(
    ("later", "line"),
    [
        ("def f(x):\n    return 2\n", 3),
        ("def g():\n    return f(1)\nfrom a import f\n", 5),
        ("f = 1\n", 3),
        ("class f:\n    pass\n", 3),
        ("f = jit(f)\n", 0),
        ("g = f\ndef f(x):\n    return 2\n", 0),
        ("if X:\n    def f(x):\n        return 2\n", 0),
        ("@f.register\ndef f(x):\n    return 2\n", 0),
        ("def h(f):\n    return f\n", 0),
        ("", 0),
    ],
)
def test_a_later_line_takes_the_name(later, line):
    assert rebound_at(ast.parse(F + later), "f", [2]) == line


def test_a_decorated_function_and_the_last_of_its_name_may_be_in_force():
    assert rebound_at(ast.parse("@d\n" + F + F), "f", [3]) == 0
    assert rebound_at(ast.parse(F + F), "f", [2, 4]) == 0
    assert rebound_at(ast.parse("class A:\n    def m(self):\n        return 1\n    m = 2\n"), "A.m", [3]) == 4


def test_branches_are_told_from_lines_that_follow():
    text = "if X:\n    def f():\n        return 1\nelse:\n    def f():\n        return 2\n"
    assert in_a_branch(ast.parse(text), "f", 3)
    assert in_a_branch(ast.parse(text), "f", 6)
    assert rebound_at(ast.parse(text), "f", [3]) == 0
    assert not in_a_branch(ast.parse(F + F), "f", 2)


def test_check_finds_it(tmp_path, monkeypatch):
    (tmp_path / "rbm_module.py").write_text(F + "def f(x):\n    return x + 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = "patches:\n  - target: rbm_module.f\n    edits:\n      - match: return x\n        replacement: return 5\n"
    check = check_toggle(load_text(text, "1.yaml", default_id="1"), None, SourceCache())
    assert check.status == "no-target"
    assert "rbm_module.py:3 gives the name to something else" in check.patches[0].message
