"""A `value:` patch of a module that is not loaded is an edit of the assignment."""

from __future__ import annotations

import ast
import datetime as dt
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prtoggle.code.value_source import as_literal, plan_value
from prtoggle.errors import AlreadyRevertedError, TargetError, UnsupportedTargetError
from prtoggle.source.source_text import ModuleSource
from prtoggle.source.splices import apply_splices
from prtoggle.spec import Patch
from prtoggle.target import ResolvedTarget

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=6,
)


def edited(text: str, qualname: str, value: object) -> str:
    source = ModuleSource("made.py", text)
    target = ResolvedTarget("made", qualname, Path("made.py"))
    patch = Patch(target=f"made.{qualname}", value=value)
    return apply_splices(text, plan_value(source, ast.parse(text), target, patch, "t"))


def run(text: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    return namespace


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("X = 1\n", "X = 7\n"),
        ("X = (\n    1\n)  # one\n", "X = (\n    7\n)  # one\n"),
        ("X: int = compute(3,\n    4)\n", "X: int = 7\n"),
        ("é = 'é'; X = 'é' ; Y = 2\n", "é = 'é'; X = 7 ; Y = 2\n"),
        ("if a:\n\tX = 1\r\nelse:\n\tX = 2\r\n", "if a:\n\tX = 7\r\nelse:\n\tX = 7\r\n"),
        ("try:\n    X = f()\nexcept E:\n    X = None\n", "try:\n    X = 7\nexcept E:\n    X = 7\n"),
        ("X = Y = 1  # both\n", "X = Y = 1; X = 7  # both\n"),
        ("X, Y = 1, 2\n", "X, Y = 1, 2; X = 7\n"),
        ("X = 1", "X = 7"),
        ("X = f()\nX = 7\n", "X = 7\nX = 7\n"),
    ],
)
def test_the_assigned_expression_is_replaced_and_no_other_byte(before: str, after: str) -> None:
    assert edited(before, "X", 7) == after


def test_class_attributes_are_told_from_constants_of_the_same_name() -> None:
    text = "x = 1\n\n\nclass C:\n    x = 2\n\n    class D:\n        x = 3\n"

    assert edited(text, "C.x", 7) == text.replace("x = 2", "x = 7")
    assert edited(text, "C.D.x", 7) == text.replace("x = 3", "x = 7")


def test_what_is_computed_from_it_while_loading_follows() -> None:
    text = "X = 1\nDOUBLE = X * 2\n\n\ndef f(n=X):\n    return n\n"

    loaded = run(edited(text, "X", 7))

    assert (loaded["X"], loaded["DOUBLE"], loaded["f"]()) == (7, 14, 7)


@given(VALUES)
def test_every_value_has_a_literal_that_gives_it_back(value: object) -> None:
    given_back = run(f"X = {as_literal(value, 'x')}")["X"]

    assert given_back == value
    assert type(given_back) is type(value)


def test_infinities_and_nan_need_no_name() -> None:
    assert run(f"X = {as_literal([math.inf, -math.inf], 'x')}")["X"] == [math.inf, -math.inf]
    assert math.isnan(run(f"X = {as_literal(math.nan, 'x')}")["X"])


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("Y = 1\n", TargetError, "X"),
        ("from y import X\n", TargetError, "X"),
        ("def X():\n    pass\n", UnsupportedTargetError, "line 1 of made.py is not an assignment"),
        ("X: int\n", UnsupportedTargetError, "line 1 of made.py is not an assignment"),
        ("X = 1\nX += 2\n", UnsupportedTargetError, "line 2 of made.py goes on changing it"),
        ("X = 7\n", AlreadyRevertedError, "7 already"),
    ],
)
def test_what_cannot_be_edited_is_refused(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        edited(text, "X", 7)


def test_true_is_not_one() -> None:
    assert edited("X = 1\n", "X", True) == "X = True\n"


def test_a_value_without_literal_is_refused() -> None:
    with pytest.raises(UnsupportedTargetError, match="date"):
        edited("X = 1\n", "X", dt.date(2024, 1, 1))
