"""Names that an edit leaves undefined are found before the first call."""

from __future__ import annotations

import ast

import pytest

from prtoggle.edits import edit_module
from prtoggle.errors import UndefinedNameError
from prtoggle.source.names import undefined_in_code, undefined_names
from tests.prtoggle.planned_edits import edits, make_source, plan, replaced

SOURCE = "from math import pi\nLIMIT = 3\ndef f(x):\n    y = new_way(x)\n    return y\ndef new_way(x):\n    return x\n"


def undefined(new: str, match: str = "y = new_way(x)", text: str = SOURCE) -> list[str]:
    source = make_source(text)
    return undefined_names(source, text.replace(match, new))


@pytest.mark.parametrize(
    "new",
    [
        "y = LIMIT + pi + x + len([])",
        "y = [z for z in x]",
        "y = (z := 1) + z",
        "import os; y = os.getcwd()",
        "y = __name__ + __file__",
        "def g(q): return q + x\n    y = g(1)",
        "y = lambda q, *a, **k: (q, a, k)",
        "y = f",
        "global LATER; LATER = 1; y = LATER",
        "y = x.old_way",
    ],
)
def test_what_the_module_the_function_or_the_edit_defines_is_fine(new):
    assert undefined(new) == []


@pytest.mark.parametrize(
    ("new", "names"),
    [
        ("y = old_way(x)", ["old_way"]),
        ("y = old_way(other)", ["old_way", "other"]),
        ("y = [old_way(z) for z in x]", ["old_way"]),
        ("def g(): return old_way(x)\n    y = g()", ["old_way"]),
        ("pass", ["y"]),
    ],
)
def test_what_nothing_defines_is_found(new, names):
    assert undefined(new) == names


def test_a_local_of_another_function_does_not_count():
    assert undefined("y = q", text=SOURCE + "def other():\n    q = 1\n    return q\n") == ["q"]


def test_what_was_undefined_before_is_not_the_edit_s_fault():
    text = SOURCE.replace("return y", "return y + injected")
    assert undefined("y = 1", text=text) == []


def test_an_import_for_type_checkers_is_no_definition():
    guard = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nowhere import Req\n"
    assert undefined("y = Req(x)", text=guard + SOURCE) == ["Req"]
    assert undefined("y = Req(x)", text=guard + SOURCE + "def other():\n    Req = 1\n    return Req\n") == [
        "Req"
    ]
    assert undefined("y = Req(x)", text=guard + "else:\n    Req = int\n" + SOURCE) == []


def test_a_star_import_may_define_anything():
    assert undefined("y = old_way(x)", text="from os.path import *\n" + SOURCE) == []


def test_the_refusal_names_target_toggle_and_name():
    splices = plan(SOURCE, "f", edits(("y = new_way(x)", "y = old_way(x)")))
    with pytest.raises(UndefinedNameError) as caught:
        edit_module(make_source(SOURCE), ast.parse(SOURCE), splices)
    assert caught.value.names == ("old_way",)
    assert caught.value.toggles == ("1",)
    assert isinstance(caught.value, NameError)
    assert "hc.f" in str(caught.value)
    assert "old_way" in str(caught.value)


def test_a_deletion_that_takes_a_name_s_only_assignment_is_refused():
    with pytest.raises(UndefinedNameError, match="y"):
        replaced(SOURCE, "y = new_way(x)", "")


NAMESPACE = {"LIMIT": 3, "__builtins__": {}}


class TestLiveCode:
    def code(self, body: str):
        root = compile(f"def f(x):\n    {body}\n", "hc.py", "exec")
        return next(const for const in root.co_consts if hasattr(const, "co_code"))

    @pytest.mark.parametrize(
        ("before", "after", "names"),
        [
            ("return x", "return LIMIT + len(x)", []),
            ("return x", "return x.old_way", []),
            ("return x", "return old_way(x)", ["old_way"]),
            ("return x.old_way", "return old_way(x)", ["old_way"]),
            ("return gone", "return gone + 1", []),
            ("y = x; return y", "return y", ["y"]),
            ("return x", "return [old_way(z) for z in x]", ["old_way"]),
            ("return x", "return (lambda: old_way)()", ["old_way"]),
        ],
    )
    def test_new_global_loads_that_the_namespace_lacks(self, before, after, names):
        assert undefined_in_code(self.code(before), self.code(after), NAMESPACE) == names

    def test_only_the_words_of_the_edit_are_looked_at(self):
        before, after = self.code("return x"), self.code("return old_way(x)")
        assert undefined_in_code(before, after, NAMESPACE, {"x", "old_way"}) == ["old_way"]
        assert undefined_in_code(before, after, NAMESPACE, {"x"}) == []
