"""Names are found in a module's syntax tree wherever Python would bind them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from prtoggle.definitions import locate, made_from, region_end
from prtoggle.missing import missing_target
from prtoggle.source.source_text import split_lines
from prtoggle.target import ResolvedTarget

SOURCE = '''\
"""Doc."""
import functools
from .other import helper as aid, Thing
from elsewhere.deep import tool

LIMIT: int = 3
A, (B, *C) = 1, (2, 3)
key = lambda r: r[0]

@functools.lru_cache
@functools.wraps(key)
def plain(x):
    def inner(y):
        return y
    return inner

async def wait(): pass

if LIMIT:
    def branch(): return 1
elif A:
    def branch(): return 2
else:
    branch = plain

try:
    import fast
except ImportError:
    def fallback(): return 1
finally:
    with open("x") as handle:
        def closing(): return 1

match LIMIT:
    case 3:
        def matched(): return 1

class Base:
    page = 16
    __slots__ = ()
    def __secret(self): return 1
    def go(self): return 1
    @property
    def value(self): return self._v
    @value.setter
    def value(self, v): self._v = v
    @value.deleter
    def value(self): del self._v
    class Inner:
        def deep(self): return 1

@functools.total_ordering
class Left(Base):
    pass

class Far(tool.Base): pass
made = plain(1)
alias = plain
wrapped = functools.lru_cache(plain)
'''
TREE = ast.parse(SOURCE)
LINES = SOURCE.splitlines()


@pytest.mark.parametrize(
    ("qualname", "kind", "first_lines"),
    [
        ("plain", "function", [10]),
        ("plain.<locals>.inner", "function", [13]),
        ("wait", "function", [17]),
        ("fallback", "function", [29]),
        ("closing", "function", [32]),
        ("matched", "function", [36]),
        ("Base", "class", [38]),
        ("Left", "class", [52]),
        ("Base.go", "function", [42]),
        ("Base.Inner.deep", "function", [50]),
        ("Base._Base__secret", "function", [41]),
        ("Base.__secret", "function", [41]),
        ("Base.page", "assignment", [39]),
        ("Base.__slots__", "assignment", [40]),
        ("Base.value", "function", [43]),
        ("Base.value.fget", "function", [43]),
        ("Base.value.fset", "function", [45]),
        ("Base.value.fdel", "function", [47]),
        ("LIMIT", "assignment", [6]),
        ("A", "assignment", [7]),
        ("C", "assignment", [7]),
        ("key", "assignment", [8]),
    ],
)
def test_every_way_to_define_a_name(qualname, kind, first_lines):
    found = locate(TREE, qualname)
    assert [(node.kind, node.first_line) for node in found] == [(kind, line) for line in first_lines]


def test_all_branches_in_source_order():
    found = locate(TREE, "branch")
    assert [(node.kind, node.first_line) for node in found] == [
        ("function", 20),
        ("function", 22),
        ("assignment", 24),
    ]


def test_the_empty_name_is_the_module():
    (module,) = locate(TREE, "")
    assert (module.kind, module.first_line) == ("module", 1)
    assert region_end(module, split_lines(SOURCE)) == len(LINES)


def test_enclosing_scopes_outermost_first():
    (node,) = locate(TREE, "Base.Inner.deep")
    assert [scope.name for scope in node.scopes] == ["Base", "Inner"]


@pytest.mark.parametrize(
    "qualname", ["nothing", "Base.nothing", "plain.value.fget", "plain.x", "os", "Base.go.fset"]
)
def test_a_name_that_is_not_there(qualname):
    assert locate(TREE, qualname) == []


@pytest.mark.parametrize(
    ("qualname", "origins"),
    [
        ("alias", ["plain"]),
        ("made", ["plain.<locals>.inner"]),
        ("wrapped", ["plain"]),
        ("LIMIT", []),
        ("key", []),
    ],
)
def test_what_an_assigned_name_may_stand_for(qualname, origins):
    (node,) = locate(TREE, qualname)
    assert [origin.qualname for origin in made_from(TREE, node)] == origins


def test_comments_that_end_a_body_belong_to_it():
    text = "def f():\n    return 1\n\n    # inside\n# outside\nX = 1\n"
    (node,) = locate(ast.parse(text), "f")
    assert region_end(node, split_lines(text)) == 4


@pytest.mark.parametrize(
    ("qualname", "facts"),
    [
        ("plian", ["pkg.mod.plian", "did you mean plain"]),
        ("Base.og", ["pkg.mod.Base in", "does not define og"]),
        ("Bsae.go", ["does not define Bsae", "Base"]),
        ("Left.go", ["only inherits go", "name pkg.mod.Base.go instead"]),
        ("Far.go", ["tool.Base", "name the class that defines it"]),
        ("Left.__lt__", ["has no source", "@functools.total_ordering"]),
        ("aid", ["only imports aid", "name pkg.other.helper instead"]),
        ("Thing.go", ["name pkg.other.Thing.go instead"]),
        ("tool", ["name elsewhere.deep.tool instead"]),
    ],
)
def test_the_error_for_a_missing_name_says_what_to_name_instead(qualname, facts):
    error = missing_target(TREE, ResolvedTarget("pkg.mod", qualname, Path("pkg/mod.py")))
    for fact in facts:
        assert fact in str(error)
    assert error.target == f"pkg.mod.{qualname}"
