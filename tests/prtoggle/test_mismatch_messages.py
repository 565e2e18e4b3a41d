"""An edit that does not fit says where it looked, what comes nearest, and why it may be gone."""

from __future__ import annotations

import pytest

from prtoggle.errors import AlreadyRevertedError, AmbiguousMatchError, MatchError
from prtoggle.spec import Edit, Patch, SourceRef
from tests.prtoggle.planned_edits import edits, make_source, plan


def message(text: str, patch: Patch, kind: type[MatchError] = MatchError, qualname: str = "f") -> str:
    before = make_source(text)
    with pytest.raises(kind) as caught:
        plan(text, qualname, patch)
    assert before.text == text
    assert caught.value.target == f"hc.{qualname}"
    return str(caught.value)


def test_both_places_of_an_ambiguous_edit_are_shown():
    text = "def f(x):\n    if x > 0:\n        x += 1\n    else:\n        x += 1\n    return x\n"
    shown = message(text, edits(("x += 1", "x += 2")), AmbiguousMatchError)
    for fact in ("hc.f", "lines 3 and 5", "3 |         x += 1", "occurrence: 1 to 2"):
        assert fact in shown


@pytest.mark.parametrize(("occurrence", "line"), [(1, 3), (2, 5)])
def test_occurrence_picks_one_place(occurrence, line):
    text = "def f(x):\n    if x > 0:\n        x += 1\n    else:\n        x += 1\n    return x\n"
    (splice,) = plan(text, "f", edits(("x += 1", "x += 2"), occurrence=occurrence))
    assert make_source(text).line_of(splice.start) == line


def test_an_occurrence_beyond_the_last_is_refused_with_the_places():
    text = "def f(x):\n    x += 1\n    return x\n"
    shown = message(text, edits(("x += 1", "x += 2"), occurrence=2))
    assert "occurrence 2" in shown
    assert "stands once" in shown
    assert "(line 2)" in shown


def test_the_nearest_line_is_shown_with_its_number():
    text = "def f(x, k):\n    extra = max(x, k, 4)\n    return extra\n"
    shown = message(text, edits(("extra = max(x, k)", "extra = x")))
    for fact in (
        "hc.f",
        "edit 1 of toggle 1",
        "hc.py:1-3",
        "| extra = max(x, k)",
        ">   2 |     extra = max(x, k, 4)",
    ):
        assert fact in shown


def test_the_lines_that_a_formatter_made_of_one_are_shown_together():
    text = (
        "def f(a, b):\n    if (\n        a > 1\n        and b > 1\n    ):\n        return a\n    return b\n"
    )
    shown = message(text, edits(("if a > 1 and b > 1:", "if a > 1:")))
    assert ">   2 |     if (\n>   3 |         a > 1\n>   4 |         and b > 1\n>   5 |     ):" in shown


def test_lines_that_agree_are_told_from_those_that_do_not():
    text = "def f(x, k):\n    a = x\n    b = k + 1\n    return a, b\n"
    shown = message(text, edits(("a = x\nb = k\nreturn a, b", "")))
    assert "    2 |     a = x\n>   3 |     b = k + 1\n    4 |     return a, b" in shown


def test_lines_that_differ_in_indentation_only_are_told():
    text = "def f(x):\n    if x:\n        x = 1\n    return x\n"
    assert "same lines stand at line 3, but indented otherwise" in message(
        text, edits(("x = 1\nreturn x", ""))
    )


def test_nearest_text_of_another_function_is_not_offered():
    text = "def f(x):\n    return x\n\ndef g(x):\n    extra = max(x, 1)\n"
    assert "no text there is similar" in message(text, edits(("extra = max(x, 2)", "")))


def test_text_that_moved_is_found():
    text = "def f(x):\n    return g(x)\n\nclass A:\n    def g(self, x):\n        return x + 1\n"
    shown = message(text, edits(("return x + 1", "return x")))
    assert "line 6 (A.g)" in shown
    assert "Did the code move?" in shown


def test_a_source_that_is_reverted_already_is_told():
    text = "def f(x):\n    y = x\n    return y\n"
    shown = message(text, edits(("y = x + 1", "y = x")), AlreadyRevertedError)
    assert "stands at line 2" in shown
    assert "already reverted" in shown


def test_text_that_only_another_edit_writes_is_told():
    text = "def f(x):\n    y = x + 1\n    return y\n"
    shown = message(text, edits(("y = x + 1", "y = x\ny = y * 1"), ("y = y * 1", "y = -y")))
    assert "Edit 1 writes this text" in shown
    assert "edit 2 of toggle 1" in shown


def test_the_place_in_the_spec_is_named():
    edit = Edit("nothing like it", "x", where=SourceRef("toggles/7.yaml", 4, 7))
    shown = message("def f(x):\n    return x\n", Patch("hc.f", (edit,)))
    assert "toggles/7.yaml:4" in shown


def test_the_error_carries_the_nearest_lines_and_the_edit():
    with pytest.raises(MatchError) as caught:
        plan("def f(x):\n    a = 1\n    return x + 2\n", "f", edits(("a = 1", ""), ("return x + 1", "")))
    assert caught.value.edit_index == 1
    assert caught.value.nearest == ((3, "return x + 2"),)


def test_an_append_into_the_middle_of_a_string_is_refused():
    text = 'def f(x):\n    sql = """\n    SELECT 1\n    """\n    return sql\n'
    shown = message(text, edits(('sql = """', "x = 1"), mode="append"))
    assert "match ends at line 2, inside a string literal" in shown
