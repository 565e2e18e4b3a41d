"""A function compiled alone gives the code that the compiler made of it in its module, or is not used."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from prtoggle.code.region import find_region
from prtoggle.code.virtual_file import VirtualFile, ensure_readable, lookup, new_name, publish
from prtoggle.errors import StaleSourceError, UnsupportedTargetError
from prtoggle.installers.base import Variant
from prtoggle.plans.module_code import ModuleEdits, Offsets, compile_edited
from prtoggle.plans.slots import Slot
from prtoggle.recompile import block_end, codes_at, codes_named, last_line, moved, nested_codes, same_code
from prtoggle.source.source_text import ModuleSource
from prtoggle.source.splices import Rank, Splice, merge
from tests.prtoggle.toggle_making import make_toggle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FunctionType

SAMPLE = [textwrap, ast, inspect, linecache]


def _functions(module: Any) -> Iterator[FunctionType]:
    owners = [module, *(value for value in vars(module).values() if inspect.isclass(value))]
    for owner in owners:
        for value in vars(owner).values():
            function = inspect.unwrap(getattr(value, "__func__", getattr(value, "fget", value)) or len)
            if inspect.isfunction(function) and function.__code__.co_filename == module.__file__:
                yield function


@pytest.mark.parametrize("module", SAMPLE, ids=lambda module: module.__name__)
def test_functions_of_the_library_are_verified_alone(module: Any) -> None:
    lines = linecache.getlines(module.__file__)
    functions = list(_functions(module))
    alone = 0
    for function in functions:
        code = function.__code__
        region = find_region(code, vars(module), lines, module.__file__, function.__qualname__)
        rebuilt = region.compile(region.framed(region.text), code.co_filename)
        assert rebuilt is not None
        assert same_code(rebuilt, code)
        alone += region.frame.shift != 0 or not region.frame.suffix

    assert len(functions) > 5
    assert alone / len(functions) > 0.9


def test_a_text_that_is_not_the_running_one_is_refused() -> None:
    lines = linecache.getlines(textwrap.__file__)
    changed = [line.replace("expand", "expound") for line in lines]
    with pytest.raises(StaleSourceError, match="dedent"):
        find_region(
            textwrap.dedent.__code__, vars(textwrap), changed[40:], textwrap.__file__, "textwrap.dedent"
        )
    with pytest.raises(StaleSourceError, match="wrap"):
        find_region(
            textwrap.TextWrapper._munge_whitespace.__code__,
            vars(textwrap),
            changed,
            textwrap.__file__,
            "wrap",
        )
    with pytest.raises(UnsupportedTargetError, match=r"source of .* is not there"):
        find_region(textwrap.dedent.__code__, vars(textwrap), [], textwrap.__file__, "textwrap.dedent")


def _code(text: str, name: str = "f") -> CodeType:
    return codes_named(compile(text, "text", "exec", dont_inherit=True), name)[0]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("def f(): return 1", "def f(): return 1.0"),
        ("def f(): return 1", "def f(): return True"),
        ("def f(): return 0.0", "def f(): return -0.0"),
        ("def f(): return 1", "def f(): return  1"),
        ("def f(): return 1", "\ndef f(): return 1"),
        ("def f(a): return 1", "def f(b): return 1"),
        ("def f(a): return 1", "def f(*, a): return 1"),
        ("def f(): return a.b", "def f(): return a.c"),
        ("def f(): return lambda: 1", "def f(): return lambda: 2"),
        ("def f(): return lambda: 1", "def f(): return lambda: True"),
        ("def f(): return (1, 2)", "def f(): return (1, 2.0)"),
        ("def f():\n try: g()\n except A: h()", "def f():\n try: g()\n except A: pass\n h()"),
    ],
)
def test_different_programs_have_different_code(one: str, two: str) -> None:
    assert same_code(_code(one), _code(one))
    assert not same_code(_code(one), _code(two))


def test_moving_code_moves_what_is_nested_in_it_and_nothing_else() -> None:
    code = _code("def f():\n    def g():\n        return [lambda: 1]\n    return g\n")
    down = moved(code, 10, "elsewhere")

    assert (down.co_firstlineno, down.co_filename) == (11, "elsewhere")
    inner = nested_codes(nested_codes(down)[0])[0]
    assert (inner.co_firstlineno, inner.co_filename) == (13, "elsewhere")
    assert same_code(moved(down, -10), code)
    assert moved(code, 0) is code
    assert last_line(code) == 4


def test_codes_are_found_by_name_and_line() -> None:
    text = (
        "class C:\n    @property\n    def p(self): return 1\n    @p.setter\n    def p(self, v): pass\n"
        "f = lambda: 1, lambda: 2\n"
    )
    root = compile(text, "text", "exec", dont_inherit=True)

    assert [code.co_firstlineno for code in codes_named(root, "C.p")] == [2, 4]
    assert [code.co_argcount for code in codes_at(root, "C.p", 4)] == [2]
    assert len(codes_at(root, "<lambda>", 6)) == 2
    assert codes_named(root, "p") == []


@pytest.mark.parametrize(
    ("text", "inside", "end"),
    [
        ("def f():\n    x\nnext\n", 2, 2),
        ("def f():\n    x\n\n\n# comment\nnext\n", 2, 2),
        ("def f():\n    x\n\n    # own\n    y\nnext\n", 2, 5),
        ("def f():\n    x\n    dead()\n", 2, 3),
        ("  def f():\n    x\n  def g(): pass\n", 2, 2),
    ],
)
def test_a_block_ends_where_the_indentation_does(text: str, inside: int, end: int) -> None:
    assert block_end(text.splitlines(keepends=True), 0, inside) == end


def test_offsets_translate_back() -> None:
    #       0123456789
    text = "aaBBccDDee"
    one = Splice(2, 4, "xyz", "1", "t", 0, Rank.REPLACEMENT, (2, 4))
    two = Splice(6, 8, "", "1", "t", 1, Rank.REPLACEMENT, (6, 8))
    three = Splice(10, 10, "!", "1", "t", 2, Rank.APPEND, (8, 10))
    # edited: aaxyzccee!
    offsets = Offsets(merge([one, two, three]))

    assert [offsets.original(at) for at in range(11)] == [0, 1, 2, 2, 2, 4, 5, 8, 9, 10, 10]
    assert len(text) == 10


def _edited(text: str, *splices: Splice) -> tuple[CodeType, Any]:
    slot = Slot(make_toggle("m.f", ("a", "b"), toggle_id="1"))
    edits = ModuleEdits("m", ModuleSource("m.py", text), merge(splices), {"1": slot})
    return compile_edited(edits, lambda tree: compile(tree, "m.py", "exec", dont_inherit=True))


def test_a_module_keeps_its_lines_around_an_edited_function() -> None:
    text = "x = 1\ndef f():\n    a = 1\n    return a\ndef g():\n    return 2\ny = g\n"
    start = text.index("    a = 1\n")
    text_in = "    a = (\n        7\n    )\n"
    splice = Splice(start, start + 10, text_in, "1", "m.f", 0, Rank.REPLACEMENT, (start, start + 10))
    code, birth = _edited(text, splice)
    f, g = codes_named(code, "f")[0], codes_named(code, "g")[0]

    assert (f.co_firstlineno, g.co_firstlineno, g.co_filename) == (2, 5, "m.py")
    assert f.co_filename.startswith("<prtoggle 1: m.f #")
    assert max(line for _, _, line in code.co_lines() if line) == 7
    (unit,) = birth.units
    assert (unit.qualname, unit.start, unit.end, unit.code) == ("f", 1, 4, f)
    assert linecache.getlines(f.co_filename)[2:6] == [
        "    a = (\n",
        "        7\n",
        "    )\n",
        "    return a\n",
    ]


def test_statements_outside_of_functions_get_the_lines_of_what_they_replace() -> None:
    text = "x = 1\ny = 2\ndef g():\n    return 2\n"
    splice = Splice(0, 6, "x = (\n 1 +\n 2)\nz = 5\n", "1", "m", 0, Rank.REPLACEMENT, (0, 6))
    code, birth = _edited(text, splice)

    assert {line for _, _, line in code.co_lines() if line} == {1, 2, 3}
    assert birth.units == []
    assert birth.outside == [splice]


def test_a_virtual_file_goes_with_its_code() -> None:
    name = new_name("m.f", ["1"])
    code = compile("def f(): pass\n", name, "exec")
    publish(VirtualFile(name, "m.py", ("1",), ["def f(): 1\n"], 0, 1, ["def f(): pass\n"]), code)
    assert linecache.getline(name, 1) == "def f(): pass\n"
    assert lookup(code) is not None
    linecache.checkcache()
    assert linecache.getline(name, 1) == "def f(): pass\n"
    linecache.clearcache()
    ensure_readable(name)
    assert linecache.getline(name, 1) == "def f(): pass\n"
    del code
    assert name not in linecache.cache


def test_a_variant_is_compared_by_identity() -> None:
    code = _code("def f(): pass\n")
    one, two = (Variant("m.f", code, None, None, None, None, (), ()) for _ in range(2))
    assert one != two
