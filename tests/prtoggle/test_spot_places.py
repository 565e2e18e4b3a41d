"""A probe goes before the first statement of an edit, or to where a deleted one stood."""

from __future__ import annotations

import ast
import textwrap

import pytest

from prtoggle.installers.base import Spot
from prtoggle.installers.spot_places import locate_spot


def probed(text: str, lines: tuple[int, ...], indent: int | None = None) -> str:
    """The text with `REACHED` put where the edit is reached and `CALLED` where its function is called."""
    tree = ast.parse(textwrap.dedent(text))
    before = ast.dump(tree, include_attributes=True)
    location = locate_spot(tree, Spot("t", "x", 0, lines, indent))
    assert location is not None
    nodes = [(location.reached, ast.Name("REACHED", ast.Load()))]
    if location.called is not None:
        nodes.append((location.called, ast.Name("CALLED", ast.Load())))
    for block, node in nodes:
        block.insert(node)
    text = ast.unparse(tree)
    compile(ast.fix_missing_locations(tree), "made", "exec")
    for block, node in nodes:
        block.remove(node)
    assert ast.dump(tree, include_attributes=True) == before
    return text


F = """
def f(x):
    '''Doc.'''
    a = 1
    if x:
        b = (
            2,
            3,
        )
        c = 3
    elif y:
        d = 4
    else:
        e = 5
    for i in x:
        g = 6
    try:
        h = 7
    except (
        ValueError,
    ):
        k = 8
    else:
        l = 9
    match x:
        case 1:
            m = 10

    @deco
    def inner():
        return 11
    return x
"""


@pytest.mark.parametrize(
    ("lines", "after", "before"),
    [
        ((4,), "", "a = 1"),
        ((5,), "", "if x:"),
        ((5, 6), "", "if x:"),
        ((7,), "if x:", "b = (2, 3)"),
        ((8, 9), "if x:", "b = (2, 3)"),
        ((9, 10), "if x:", "b = (2, 3)"),
        ((10,), "b = (2, 3)", "c = 3"),
        ((11,), "else:", "if y:"),
        ((13,), "else:", "e = 5"),
        ((13, 14), "else:", "e = 5"),
        ((15,), "", "for i in x:"),
        ((17, 18), "", "try:"),
        ((20,), "except (ValueError,):", "k = 8"),
        ((23,), "else:", "l = 9"),
        ((26,), "case 1:", "m = 10"),
        ((29,), "", "@deco"),
        ((30, 31), "", "@deco"),
        ((31,), "def inner():", "return 11"),
    ],
)
def test_the_first_statement_of_the_edited_lines_is_probed(
    lines: tuple[int, ...], after: str, before: str
) -> None:
    text = [line.strip() for line in probed(F, lines).splitlines() if line.strip()]

    called = [at for at, line in enumerate(text) if line == "CALLED"]
    assert [text[at - 1].strip("\"'") for at in called if text[at - 1] != "REACHED"] in (["Doc."], [])
    text.remove("CALLED")
    at = text.index("REACHED")
    assert text[at + 1].startswith(before)
    assert text[at - 1].startswith(after)


@pytest.mark.parametrize(
    ("line", "indent", "after", "before"),
    [
        (4, 4, '"""Doc."""', "a = 1"),
        (10, 8, "b = (2, 3)", "c = 3"),
        # The last statement of the `if` went: not everything that comes to line 11 was in there.
        (11, 8, "c = 3", "elif y:"),
        (15, 8, "e = 5", "for i in x:"),
        (32, 8, "return 11", "return x"),
        (33, 4, "return x", ""),
    ],
)
def test_a_deletion_is_reached_where_it_stood(line: int, indent: int, after: str, before: str) -> None:
    text = [line.strip() for line in probed(F, (line,), indent).splitlines() if line.strip()]

    if "CALLED" in text:
        text.remove("CALLED")
    at = text.index("REACHED")
    assert text[at - 1] == after
    assert "".join(text[at + 1 : at + 2]).startswith(before)


def test_a_class_in_a_function_counts_as_part_of_the_function() -> None:
    text = probed("def f():\n    class C:\n        def m(self):\n            return 1\n    return C\n", (4,))

    assert text == (
        "def f():\n    CALLED\n\n    class C:\n\n        def m(self):\n            REACHED\n"
        "            return 1\n    return C"
    )


def test_a_scope_that_stands_for_an_enclosing_function_is_not_the_called_one() -> None:
    text = probed("def outer(free):\n    class C:\n        def m(self):\n            return free\n", (4,))

    assert text.count("CALLED") == 1
    assert text.index("def m") < text.index("CALLED")


def test_a_lambda_is_probed_inside() -> None:
    assert probed("f = lambda x: x + 1\n", (1,)) == "f = lambda x: (CALLED, (REACHED, x + 1)[1])[1]"


def test_statements_of_a_module_have_no_function_to_be_called() -> None:
    assert probed("a = 1\nb = 2\n", (2,)) == "a = 1\nREACHED\nb = 2"
    assert probed("class C:\n    a = 1\n", (2,)) == "class C:\n    REACHED\n    a = 1"


def test_a_body_that_is_only_a_docstring_is_probed_behind_it() -> None:
    assert probed('def f():\n    """Doc."""\n', (2,)).splitlines()[-1].strip() in ("CALLED", "REACHED")
