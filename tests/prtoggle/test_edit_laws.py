"""Laws of editing on generated functions: every other byte stays, and the edit is what a hand would have made."""

from __future__ import annotations

import ast
import itertools

from hypothesis import given
from hypothesis import strategies as st

from prtoggle.definitions import locate, region_end
from prtoggle.edits import apply_splices, edit_module, edited_line_map, merge
from prtoggle.errors import EditError, MatchError
from prtoggle.line_edits import plan_lines
from prtoggle.source.indentation import common_indent, string_lines
from prtoggle.source.source_text import split_lines
from prtoggle.source.splices import moved_splice
from prtoggle.spec import Edit, Patch
from tests.prtoggle.planned_edits import make_source, plan

UNITS = st.sampled_from(["    ", "  ", "\t"])
NEWLINES = st.sampled_from(["\n", "\r\n"])
SIMPLE = st.sampled_from(
    [
        "a = 1",
        "b = x + 1",
        "print(x, end='')",
        "s = 'é\\n'  # a comment",
        "t = f'{x!r:>4}'",
        "return x",
        "y = (x,\n     1)",
        'u = """one\n  two\n"""',
        "v = '''y = 2'''",
        "del x",
        'assert x, "it\'s"',
        "w = [i for i in x if i]",
    ]
)


@st.composite
def blocks(draw: st.DrawFn, depth: int = 2) -> list[str]:
    """The lines of a block, indented by four spaces a level."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["simple", "simple", "if", "for", "comment"])) if depth else "simple"
        if kind == "simple":
            lines += draw(SIMPLE).split("\n")
        elif kind == "comment":
            lines += ["# note", ""]
        else:
            lines.append("if x:" if kind == "if" else "for i in x:")
            lines += _indent(draw(blocks(depth - 1)))
            if kind == "if" and draw(st.booleans()):
                lines += ["else:", *_indent(draw(blocks(depth - 1)))]
    return lines if any(line and not line.startswith("#") for line in lines) else [*lines, "pass"]


def _indent(lines: list[str], unit: str = "    ") -> list[str]:
    """The lines one level deeper; lines inside strings stay."""
    inside = string_lines("\n".join(lines))
    return [unit + line if line and number not in inside else line for number, line in enumerate(lines)]


@st.composite
def modules(draw: st.DrawFn) -> tuple[str, str]:
    """A module and the qualified name of a function in it, which stands among others."""
    body = draw(blocks())
    header = draw(
        st.sampled_from(["def f(x):", "@staticmethod\ndef f(\n    x,\n):", "async def f(x):"])
    ).split("\n")
    function = [*header, *_indent(body)]
    before = ["import os", "", *draw(st.sampled_from([[], ["def g(x):", *_indent(body)]]))]
    if draw(st.booleans()):
        function = ["class A:", "    '''Doc.'''", *_indent(function)]
        qualname = "A.f"
    else:
        qualname = "f"
    lines = [*before, *function, "", "def h(x):", *_indent(body)]
    text = draw(NEWLINES).join(lines) + draw(st.sampled_from(["", "\n"]))
    return _with_unit(text, draw(UNITS)), qualname


def _with_unit(text: str, unit: str) -> str:
    inside = string_lines(text)
    lines = []
    for number, line in enumerate(split_lines(text)):
        depth, rest = divmod(len(line) - len(line.lstrip(" ")), 4)
        lines.append(line if number in inside else unit * depth + " " * rest + line.lstrip(" "))
    return "".join(lines)


def _function_lines(text: str, qualname: str) -> tuple[int, int]:
    node: ast.AST = ast.parse(text)
    for name in qualname.split("."):
        node = next(inner for inner in node.body if getattr(inner, "name", "") == name)  # type: ignore[attr-defined]
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])  # type: ignore[attr-defined]
    return first, node.end_lineno  # type: ignore[attr-defined]


@st.composite
def edits_of(draw: st.DrawFn, text: str, qualname: str) -> Edit:
    """An edit whose match is a run of the function's own lines."""
    lines = [line.rstrip("\r\n") for line in split_lines(text)]
    first, last = _function_lines(text, qualname)
    start = draw(st.integers(first, last))
    end = draw(st.integers(start, min(last, start + 3)))
    match = "\n".join(lines[start - 1 : end])
    mode = draw(st.sampled_from(["replacement", "prepend", "append"]))
    new = draw(st.sampled_from(["z = 5", "if x:\n    z = 6\nelse:\n    z = 7", "z = '''\n  a\n'''", ""]))
    if not match.strip():
        match = "a = 1"
    return Edit(
        match, new or ("z = 1" if mode != "replacement" else ""), mode, draw(st.sampled_from([None, 1]))
    )


@given(st.data())
def test_an_edit_changes_its_own_lines_only(data):
    text, qualname = data.draw(modules())
    edit = data.draw(edits_of(text, qualname))
    source = make_source(text)
    try:
        splices = plan(text, qualname, Patch("hc.f", (edit,)))
    except (MatchError, EditError):
        return
    result = apply_splices(text, splices)
    (splice,) = splices
    assert result == text[: splice.start] + splice.text + text[splice.end :]
    matched = text[slice(*splice.anchor)]
    wanted = [line.strip() for line in edit.match.strip("\r\n").splitlines() if line.strip()]
    assert [line.strip() for line in matched.splitlines() if line.strip()] == wanted
    if edit.mode != "replacement":
        assert matched in result
    first, last = _function_lines(text, qualname)
    assert first <= source.line_of(splice.anchor[0]) <= last
    for where in edited_line_map(text, splices):
        assert 1 <= where.first <= where.last <= max(1, len(split_lines(result)))


@given(st.data())
def test_a_replacement_by_the_match_and_a_line_adds_the_line_only(data):
    text, qualname = data.draw(modules())
    match = data.draw(edits_of(text, qualname)).match.rstrip()
    line = common_indent(match.split("\n"), string_lines(match)) + "added = 0"
    try:
        splices = plan(text, qualname, Patch("hc.f", (Edit(match, f"{match}\n{line}", "replacement", 1),)))
    except (MatchError, EditError):
        return
    before = [line.rstrip() for line in split_lines(text)]
    after = [line.rstrip() for line in split_lines(apply_splices(text, splices))]
    position = next(number for number, line in enumerate(after) if line.strip() == "added = 0")
    # Blank lines at the ends of a match are not part of it; nor are blanks at the end of a line.
    assert after[:position] + after[position + 1 :] == before


@given(st.data())
def test_a_comment_alone_is_no_revert(data):
    text, qualname = data.draw(modules())
    match = data.draw(edits_of(text, qualname)).match.rstrip()
    comment = common_indent(match.split("\n"), string_lines(match)) + "# added"
    patch = Patch("hc.f", (Edit(match, f"{match}\n{comment}", "replacement", 1),))
    (node,) = locate(ast.parse(text), qualname)
    lines = make_source(text).lines

    try:
        splices = plan(text, qualname, patch)
    except (MatchError, EditError):
        last = region_end(node, split_lines(text))
        assert plan_lines(lines, node.first_line, last, f"hc.{qualname}", patch, "1") is None
    else:
        # The match ended inside a string.
        assert ast.dump(ast.parse(apply_splices(text, splices))) != ast.dump(ast.parse(text))


@given(st.data())
def test_the_quick_way_gives_what_the_full_one_gives_or_nothing(data):
    text, qualname = data.draw(modules())
    patch = Patch("hc.f", (data.draw(edits_of(text, qualname)),))
    (node,) = locate(ast.parse(text), qualname)
    last = region_end(node, split_lines(text))
    source = make_source(text)
    quick = plan_lines(source.lines, node.first_line, last, f"hc.{qualname}", patch, "1")
    if quick is not None:
        begin = source.starts[node.first_line - 1]
        assert tuple(moved_splice(splice, begin) for splice in quick) == plan(text, qualname, patch)


@given(st.data())
def test_toggles_combine_in_any_order_or_not_at_all(data):
    text, qualname = data.draw(modules())
    planned = []
    for number in range(3):
        try:
            planned.append(
                plan(
                    text,
                    qualname,
                    Patch("hc.f", (data.draw(edits_of(text, qualname)),)),
                    toggle_id=str(number),
                )
            )
        except (MatchError, EditError):
            continue
    results = set()
    for order in itertools.permutations(planned):
        try:
            results.add(apply_splices(text, merge(itertools.chain.from_iterable(order))))
        except ValueError as error:
            results.add(type(error).__name__)
    assert len(results) <= 1 or not planned


@given(st.data())
def test_an_accepted_edit_leaves_every_other_function_the_same(data):
    text, qualname = data.draw(modules())
    edit = data.draw(edits_of(text, qualname))
    tree = ast.parse(text)
    try:
        edited = edit_module(make_source(text), tree, plan(text, qualname, Patch("hc.f", (edit,))))
    except ValueError:
        return
    for name in ("g", "h"):
        before, after = (
            [ast.dump(node) for node in body.body if getattr(node, "name", "") == name]
            for body in (tree, edited.tree)
        )
        assert before == after
