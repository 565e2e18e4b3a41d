"""A function whose name is another's in the end is none to edit: `check` and `new` say so from the text."""

from __future__ import annotations

import ast

import pytest

from prtoggle.loader import load_text
from prtoggle.rebinding import in_a_branch, may_be_rebound_at, rebound_at
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
        ("class h:\n    def m(self):\n        return f(1)\nf = 1\n", 6),
        ("class h:\n    m = f\nf = 1\n", 0),
        ("f: int = 1\n", 3),
        ("g, f = 1, 2\n", 3),
        ("(f := 3)\n", 3),
        ("del f\n", 3),
        ("for f in (1, 2):\n    pass\n", 3),
        ("for f in range(N):\n    pass\n", 0),
        ("with open(X) as f:\n    pass\n", 3),
        ("with X:\n    def f(x):\n        return 2\n", 3),
        ("if True:\n    f = 2\n", 3),
        ("if TYPE_CHECKING:\n    from a import f\n", 0),
        ("if X:\n    f = 1\nelse:\n    f = 2\n", 3),
        ("try:\n    f = g()\nexcept KeyError:\n    raise\n", 3),
        ("try:\n    f = g()\nexcept KeyError:\n    pass\n", 0),
        ("try:\n    pass\nfinally:\n    f = 2\n", 3),
        ("try:\n    from a import f\nexcept ImportError:\n    pass\n", 0),
        ("from a import *\n", 0),
        ("globals()['f'] = 5\n", 3),
        ("globals()['g'] = 5\n", 0),
        ("globals().update(f=5)\n", 3),
        ("globals().update({'g': f})\n", 0),
        ("setattr(sys.modules[__name__], 'f', 5)\n", 3),
        ("setattr(other, 'f', 5)\n", 0),
        ("match X:\n    case f:\n        pass\n", 0),
        ("def h():\n    global f\n    f = 2\n", 0),
        ("", 0),
    ],
)
def test_a_later_line_takes_the_name(later, line):
    assert rebound_at(ast.parse(F + later), "f", [2]) == line


@pytest.mark.parametrize(
    ("later", "line"),
    [
        ("for f in range(N):\n    pass\n", 3),
        ("try:\n    from a import f\nexcept ImportError:\n    pass\n", 3),
        ("from a import *\n", 3),
        ("g = f\nf = 2\n", 4),
        ("globals()[name] = 5\n", 3),
        ("globals().update(more)\n", 3),
        ("match X:\n    case f:\n        pass\n", 3),
        ("def h():\n    global f\n    f = 2\n", 3),
        ("f, g = g, f\n", 3),
        ("f = jit(f)\n", 0),
        ("g = 2\n", 0),
        ("if TYPE_CHECKING:\n    from a import f\n", 0),
    ],
)
def test_a_later_line_that_may_take_the_name_is_told(later, line):
    assert rebound_at(ast.parse(F + later), "f", [2]) == 0
    assert may_be_rebound_at(ast.parse(F + later), "f", [2]) == line


A = "class A:\n    def m(self):\n        return 1\n"


@pytest.mark.parametrize(
    ("later", "line"),
    [
        ("A.m = len\n", 4),
        ("A.m = jit(A.m)\n", 0),
        ("del A.m\n", 4),
        ("setattr(A, 'm', len)\n", 4),
        ("B.m = len\n", 0),
        ("A = 3\n", 4),
        ("class A(A):\n    def m(self):\n        return 3\n", 4),
        ("class A(A):\n    def n(self):\n        return 3\n", 0),
        ("class A:\n    pass\n", 4),
        ("A = register(A)\n", 0),
        ("class B(A):\n    pass\nA = 3\n", 0),
        ("m = 2\n", 0),
    ],
)
def test_a_method_is_taken_away_from_outside_of_its_class_too(later, line):
    assert rebound_at(ast.parse(A + later), "A.m", [3]) == line


def checked(tmp_path, monkeypatch, name, files):
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    text = f"patches:\n  - target: {name}.f\n    edits:\n      - match: return x\n        replacement: return 5\n"
    return check_toggle(load_text(text, "1.yaml", default_id="1"), None, SourceCache())


@pytest.mark.parametrize(
    ("later", "other", "status", "cautions"),
    [
        ("from rbo_other import *\n", "def f(x):\n    return 1\n", "no-target", 0),
        ("from rbo_other import *\n", "def g(x):\n    return 1\n", "ok", 0),
        ("from rbo_other import *\n", "__all__ = ['g']\ndef f(x):\n    return 1\n", "ok", 0),
        ("from rbo_other import *\n", "if X:\n    f = 2\n", "ok", 1),
        ("from rbo_other import *\n", "from math import *\n", "ok", 1),
        ("try:\n    from rbo_other import f\nexcept ImportError:\n    pass\n", "f = 2\n", "no-target", 0),
        ("try:\n    from rbo_none import f\nexcept ImportError:\n    pass\n", "", "ok", 0),
        ("try:\n    from rbo_none import f\nexcept ImportError:\n    f = None\n", "", "no-target", 0),
        ("try:\n    from os.path import join as f\nexcept ImportError:\n    pass\n", "", "ok", 1),
    ],
)
def test_imports_are_looked_up_where_their_source_is(tmp_path, monkeypatch, later, other, status, cautions):
    check = checked(tmp_path, monkeypatch, "rbo_module", {"rbo_module.py": F + later, "rbo_other.py": other})
    assert (check.status, len(check.patches[0].cautions)) == (status, cautions)
    if cautions:
        assert (
            "in force only if line 3 " in check.patches[0].cautions[0]
            or "line 4 " in check.patches[0].cautions[0]
        )


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
