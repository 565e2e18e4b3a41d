"""Every kind of target takes an edit at load and live, and gives the fixed behaviour back."""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import prtoggle
from prtoggle import engine, reach
from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_toggle

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["modules"]


class Kind(NamedTuple):
    """A module, a target in it, one edit, and what `call` (an expression in the module) then gives."""

    text: str
    target: str
    match: str
    replacement: str
    call: str
    fixed: object
    reverted: object


KINDS = {
    "function": Kind("def f(x):\n    y = x + 1\n    return y\n", "f", "y = x + 1", "y = x + 9", "f(1)", 2, 10),
    "one line": Kind("def f(): return 'fixed'\n", "f", "def f(): return 'fixed'", "def f(): return 'old'", "f()",
                     "fixed", "old"),
    "method": Kind("class C:\n    def m(self):\n        return 1\n", "C.m", "return 1", "return 2", "C().m()", 1, 2),
    "nested class": Kind(
        "class A:\n  class B:\n    def m(self):\n      return 1\n", "A.B.m", "return 1", "return 2", "A.B().m()", 1, 2
    ),
    "static method": Kind(
        "class C:\n    @staticmethod\n    def m(x):\n        return x\n", "C.m", "return x", "return -x", "C.m(3)", 3, -3
    ),
    "class method": Kind(
        "class C:\n    @classmethod\n    def m(cls):\n        return cls.__name__\n",
        "C.m", "return cls.__name__", "return cls.__name__ * 2", "C.m()", "C", "CC",
    ),
    "property": Kind(
        "class C:\n    @property\n    def p(self):\n        return 1\n", "C.p", "return 1", "return 2", "C().p", 1, 2
    ),
    "property setter": Kind(
        "class C:\n    @property\n    def p(self):\n        return self.v\n    @p.setter\n    def p(self, v):\n"
        "        self.v = v\ndef call():\n    c = C(); c.p = 3\n    return c.p\n",
        "C.p.fset", "self.v = v", "self.v = v * 2", "call()", 3, 6,
    ),
    "property deleter": Kind(
        "class C:\n    @property\n    def p(self):\n        return self.v\n    @p.deleter\n    def p(self):\n"
        "        self.v = 0\ndef call():\n    c = C(); c.v = 1; del c.p\n    return c.p\n",
        "C.p.fdel", "self.v = 0", "self.v = 7", "call()", 0, 7,
    ),
    "cached property": Kind(
        "import functools\nclass C:\n    @functools.cached_property\n    def p(self):\n        return 1\n",
        "C.p", "return 1", "return 2", "C().p", 1, 2,
    ),
    "wraps": Kind(
        "import functools\ndef deco(fn):\n    @functools.wraps(fn)\n    def inner(*a):\n        return ['deco', fn(*a)]\n"
        "    return inner\n@deco\ndef f(x):\n    return x\n",
        "f", "return x", "return -x", "f(1)", ["deco", 1], ["deco", -1],
    ),
    "three decorators": Kind(
        "import functools\ndef a(fn):\n    @functools.wraps(fn)\n    def inner(*p):\n        return fn(*p) + 1\n"
        "    return inner\ndef b(k):\n    def deco(fn):\n        def inner(*p):\n            return fn(*p) * k\n"
        "        return inner\n    return deco\n@a\n@functools.lru_cache\n@b(10)\ndef f(x):\n    return x\n",
        "f", "return x", "return -x", "f(1)", 11, -9,
    ),
    "decorator class": Kind(
        "class Memo:\n    def __init__(self, fn):\n        self._fn = fn\n    def __call__(self, x):\n"
        "        return self._fn(x)\n@Memo\ndef f(x):\n    return x\n",
        "f", "return x", "return -x", "f(1)", 1, -1,
    ),
    "wrapt decorator": Kind(
        "import wrapt\n@wrapt.decorator\ndef twice(wrapped, instance, args, kwargs):\n"
        "    return 2 * wrapped(*args, **kwargs)\nclass C:\n    @twice\n    def m(self, x):\n        return x\n",
        "C.m", "return x", "return -x", "C().m(1)", 2, -2,
    ),
    "context manager": Kind(
        "import contextlib\nLOG = []\n@contextlib.contextmanager\ndef f():\n    yield 1\n"
        "def call():\n    with f() as v:\n        return v\n",
        "f", "yield 1", "yield 2", "call()", 1, 2,
    ),
    "singledispatch": Kind(
        "import functools\n@functools.singledispatch\ndef f(x):\n    return 'any'\n@f.register\ndef _(x: int):\n"
        "    return 'int'\n",
        "f", "return 'any'", "return 'old'", "[f('s'), f(1)]", ["any", "int"], ["old", "int"],
    ),
    "one of several implementations": Kind(
        "import functools\n@functools.singledispatch\ndef f(x):\n    return 'any'\n@f.register\ndef _(x: int):\n"
        "    return 'int'\n@f.register\ndef _(x: str):\n    return 'str'\n",
        "_", "return 'int'", "return 'old'", "[f('s'), f(1)]", ["str", "int"], ["str", "old"],
    ),
    "singledispatchmethod": Kind(
        "import functools\nclass C:\n    @functools.singledispatchmethod\n    def f(self, x):\n        return 'any'\n",
        "C.f", "return 'any'", "return 'old'", "C().f(1)", "any", "old",
    ),
    "partialmethod": Kind(
        "import functools\nclass C:\n    def _m(self, k):\n        return k\n    m = functools.partialmethod(_m, 3)\n",
        "C._m", "return k", "return -k", "C().m()", 3, -3,
    ),
    "async": Kind(
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 1\n"
        "def call():\n    return asyncio.run(f())\n",
        "f", "return 1", "return 2", "call()", 1, 2,
    ),
    "generator": Kind("def f():\n    yield 1\n", "f", "yield 1", "yield 2", "list(f())", [1], [2]),
    "super kept": Kind(
        "class P:\n    def m(self):\n        return 'P'\nclass Q(P):\n    def m(self):\n        out = super().m()\n"
        "        return out + 'Q'\n",
        "Q.m", "return out + 'Q'", "return out + 'old'", "Q().m()", "PQ", "Pold",
    ),
    "super removed": Kind(
        "class P:\n    def m(self):\n        return 'P'\nclass Q(P):\n    def m(self):\n        out = super().m()\n"
        "        return out + 'Q'\n",
        "Q.m", "out = super().m()", "out = 'no'", "Q().m()", "PQ", "noQ",
    ),
    "class cell kept": Kind(
        "class C:\n    def m(self):\n        return [__class__.__name__, 1]\n",
        "C.m", "return [__class__.__name__, 1]", "return [__class__.__name__, 2]", "C().m()", ["C", 1], ["C", 2],
    ),
    "private names": Kind(
        "class _C:\n    def __init__(self):\n        self.__v = 1\n    def m(self):\n        return self.__h(self.__v)\n"
        "    def __h(self, v):\n        return v\n",
        "_C.__h", "return v", "return v + self.__v", "_C().m()", 1, 2,
    ),
    "mangled target": Kind(
        "class V:\n    def m(self):\n        return self.__h()\n    def __h(self):\n        return 1\n",
        "V._V__h", "return 1", "return 2", "V().m()", 1, 2,
    ),
    "default": Kind("def f(a=8):\n    return a\n", "f", "def f(a=8):", "def f(a=4):", "f()", 8, 4),
    "keyword default": Kind(
        "def f(*, a=True):\n    return a\n", "f", "def f(*, a=True):", "def f(*, a=False):", "f()", True, False
    ),
    "default of a class body": Kind(
        "class C:\n    ANY = object()\n    def m(self, v=ANY, k=1):\n        return v is C.ANY, k\n",
        "C.m", "def m(self, v=ANY, k=1):", "def m(self, v=ANY, k=2):", "C().m()", (True, 1), (True, 2),
    ),
    "new default of a class body": Kind(
        "class C:\n    A, B = 1, 2\n    def m(self, v=A):\n        return v\n",
        "C.m", "def m(self, v=A):", "def m(self, v=B):", "C().m()", 1, 2,
    ),
    "parameter taken away": Kind(
        "def f(a, b=2, *, c=3):\n    return (a, b, c)\ndef call():\n    return f(1)\n",
        "f", "def f(a, b=2, *, c=3):\n    return (a, b, c)", "def f(a, *, c=3):\n    return (a, c)",
        "call()", (1, 2, 3), (1, 3),
    ),
    "nested function": Kind(
        "def make(n):\n    def inner(x):\n        return x + n\n    return inner\n",
        "make", "return x + n", "return x - n", "make(1)(5)", 6, 4,
    ),
    "nested function by name": Kind(
        "def make(n):\n    def inner(x):\n        return x + n\n    return inner\n",
        "make.<locals>.inner", "return x + n", "return x - n", "make(1)(5)", 6, 4,
    ),
    "comprehension and lambda inside": Kind(
        "def f(k):\n    g = lambda v: v + k\n    return [g(i) for i in range(2)]\n",
        "f", "g = lambda v: v + k", "g = lambda v: v - k", "f(1)", [1, 2], [-1, 0],
    ),
    "dataclass method": Kind(
        "from dataclasses import dataclass\n@dataclass\nclass D:\n    x: int\n    def __post_init__(self):\n"
        "        self.y = self.x\n",
        "D.__post_init__", "self.y = self.x", "self.y = -self.x", "D(1).y", 1, -1,
    ),
    "slots dataclass": Kind(
        "from dataclasses import dataclass\n@dataclass(slots=True)\nclass D:\n    x: int\n    def m(self):\n"
        "        return self.x\n",
        "D.m", "return self.x", "return -self.x", "D(1).m()", 1, -1,
    ),
    "operator": Kind(
        "class V:\n    def __init__(self, x):\n        self.x = x\n    def __add__(self, o):\n        return self.x + o.x\n",
        "V.__add__", "return self.x + o.x", "return self.x - o.x", "V(3) + V(1)", 4, 2,
    ),
    "__new__": Kind(
        "class V:\n    def __new__(cls):\n        self = super().__new__(cls)\n        self.x = 1\n        return self\n",
        "V.__new__", "self.x = 1", "self.x = 2", "V().x", 1, 2,
    ),
    "__init_subclass__": Kind(
        "class V:\n    def __init_subclass__(cls):\n        cls.x = 1\ndef call():\n    class W(V):\n        pass\n"
        "    return W.x\n",
        "V.__init_subclass__", "cls.x = 1", "cls.x = 2", "call()", 1, 2,
    ),
    "metaclass": Kind(
        "class M(type):\n    def who(cls):\n        return 1\nclass V(metaclass=M):\n    pass\n",
        "M.who", "return 1", "return 2", "V.who()", 1, 2,
    ),
    "class as target": Kind(
        "class C:\n    def m(self):\n        return 1\n", "C", "return 1", "return 2", "C().m()", 1, 2
    ),
    "branch that runs": Kind(
        "FAST = True\nif FAST:\n    def f():\n        y = 1\n        return y\nelse:\n    def f():\n        y = 1\n"
        "        return -y\n",
        "f", "y = 1", "y = 5", "f()", 1, 5,
    ),
    "try": Kind(
        "try:\n    import no_such_module_here\nexcept ImportError:\n    def f():\n        return 1\n",
        "f", "return 1", "return 2", "f()", 1, 2,
    ),
    "string at column 0": Kind(
        'def f():\n    s = """\ncol0\n  indented\n"""\n    return s, 1\n',
        "f", "return s, 1", "return s, 2", "f()", ("\ncol0\n  indented\n", 1), ("\ncol0\n  indented\n", 2),
    ),
    "tabs": Kind("class T:\n\tdef f(self):\n\t\tif 1:\n\t\t\ty = 1\n\t\treturn y\n", "T.f", "y = 1", "y = 2\ny += 1",
                 "T().f()", 1, 3),
    "non-ascii": Kind("def f():\n    größe = 'ä€𝄞'\n    return größe\n", "f", "größe = 'ä€𝄞'", "größe = 'ß'", "f()",
                      "ä€𝄞", "ß"),
    "future annotations": Kind(
        "from __future__ import annotations\ndef f():\n    def g(a: Nowhere):\n        pass\n    y = 1\n"
        "    return g.__annotations__['a'], y\n",
        "f", "y = 1", "y = 2", "f()", ("Nowhere", 1), ("Nowhere", 2),
    ),
    "imported name called": Kind(
        "import os.path\nimport logging\nlogger = logging.getLogger('x')\ndef f():\n    logger.debug('%s', 1)\n"
        "    return os.path.join('a', 'b')\n",
        "f", "return os.path.join('a', 'b')", "return os.path.join('a', 'c')", "f()", "a/b", "a/c",
    ),
    "flagged code": Kind(
        "import types\n@types.coroutine\ndef f():\n    yield 1\nasync def g():\n    await f()\ndef call():\n"
        "    c = g()\n    try:\n        return c.send(None)\n    finally:\n        c.close()\n",
        "f", "yield 1", "yield 2", "call()", 1, 2,
    ),
    "put away by a decorator": Kind(
        "R = {}\ndef put(fn):\n    R['f'] = fn\n    return None\n@put\ndef f():\n    return 1\n",
        "f", "return 1", "return 2", "R['f']()", 1, 2,
    ),
    "named tuple method": Kind(
        "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    def m(self):\n        return self.x\n",
        "P.m", "return self.x", "return -self.x", "P(3).m()", 3, -3,
    ),
    "enum method": Kind(
        "import enum\nclass E(enum.Enum):\n    A = 1\n    def m(self):\n        return self.value\n",
        "E.m", "return self.value", "return -self.value", "E.A.m()", 1, -1,
    ),
    "product of a factory": Kind(
        "def make(k, b):\n    def g(x):\n        return x * k + b\n    return g\ntriple = make(3, 1)\n",
        "triple", "return x * k + b", "return x * k - b", "triple(2)", 7, 5,
    ),
    "static product of a factory": Kind(
        "def make(k):\n    @staticmethod\n    def g(x):\n        return x * k\n    return g\nclass C:\n    m = make(3)\n",
        "C.m", "return x * k", "return x + k", "C.m(2)", 6, 5,
    ),
    "decorated by assignment": Kind(
        "def deco(fn):\n    def inner(*a):\n        return fn(*a) + 1\n    return inner\ndef g(x):\n    return x\n"
        "h = deco(g)\n",
        "h", "return x", "return -x", "h(2)", 3, -1,
    ),
    "separators inside a line": Kind(
        "# -*- coding: utf-8 -*-\ndef f():\n    s = 'a\x0cb\u2028c'\n    y = 1\n    return s, y\n",
        "f", "y = 1", "y = 2", "f()", ("a\x0cb\u2028c", 1), ("a\x0cb\u2028c", 2),
    ),
    "annotation": Kind(
        "def f(x: int = 3) -> int:\n    return x\n", "f", "def f(x: int = 3) -> int:", "def f(x: str = 'a') -> int:",
        "(f(), f.__annotations__)", (3, {"x": int, "return": int}), ("a", {"x": str, "return": int}),
    ),
    "default on the line of the body, below a decorator": Kind(
        "def deco(fn):\n    return fn\n@deco\ndef f(x, k=1): return x + k\n",
        "f", "def f(x, k=1): return x + k", "def f(x, k=5): return x + k", "f(1)", 2, 6,
    ),
    "default of a class method in one line": Kind(
        "class C:\n    @classmethod\n    def m(cls, *, k=1): return k\n",
        "C.m", "def m(cls, *, k=1): return k", "def m(cls, *, k=2): return k", "C.m()", 1, 2,
    ),
    "annotation on the line of the body": Kind(
        "def deco(fn):\n    return fn\n@deco\ndef f(x: int): return x\n", "f", "def f(x: int): return x",
        "def f(x: str): return x", "f.__annotations__", {"x": int}, {"x": str},
    ),
    "a header whose last line begins the body": Kind(
        "def f(\n    x,\n    k=1,\n    *, z=3): return (x,\n    k, z)\n",
        "f", "*, z=3): return (x,", "*, z=4): return (x,", "f(0)", (0, 1, 3), (0, 1, 4),
    ),
    "a cell that is no longer used": Kind(
        "def make(k, n):\n    def g(x):\n        x += k\n        return x * n\n    return g\n",
        "make.<locals>.g", "x += k", "", "make(1, 2)(3)", 8, 6,
    ),
    "default of a private parameter": Kind(
        "class C:\n    def __m(self, __x=5, *, __y=1):\n        return __x + __y\n    def call(self):\n"
        "        return self.__m()\n",
        "C.__m", "def __m(self, __x=5, *, __y=1):", "def __m(self, __x=6, *, __y=1):", "C().call()", 6, 7,
    ),
    "keyword default of a private parameter, in a method's function": Kind(
        "class _C:\n    def m(self):\n        def g(*, __y=1):\n            return __y\n        return g\n"
        "",
        "_C.m.<locals>.g", "def g(*, __y=1):", "def g(*, __y=2):", "_C().m()()", 1, 2,
    ),
    "annotation of a private parameter": Kind(
        "class C:\n    def m(self, __x: int):\n        return __x\n", "C.m", "def m(self, __x: int):",
        "def m(self, __x: str):", "C.m.__annotations__", {"_C__x": int}, {"_C__x": str},
    ),
    "global statement": Kind(
        "N = 0\ndef f():\n    global N\n    N += 1\n    return N\ndef call():\n    global N\n    N = 0\n    return f()\n",
        "f", "N += 1", "N += 2", "call()", 1, 2,
    ),
    "star arguments": Kind(
        "def f(a, /, *args, k=1, **kw):\n    return (a, args, k, kw)\n", "f", "return (a, args, k, kw)",
        "return (a, args, -k, kw)", "f(1, 2, z=3)", (1, (2,), 1, {"z": 3}), (1, (2,), -1, {"z": 3}),
    ),
    "walrus and match": Kind(
        "def f(x):\n    match x:\n        case {'k': v} if (w := v + 1):\n            return w\n    return None\n",
        "f", "return w", "return -w", "f({'k': 1})", 2, -2,
    ),
}  # fmt: skip


def value(module: ModuleType, expression: str) -> Any:
    return eval(expression, vars(module))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
class TestKind:
    def test_live(self, modules: Modules, kind: Kind) -> None:
        module = modules.load(kind.text)
        assert value(module, kind.call) == kind.fixed
        handle = prtoggle.revert(
            make_toggle(f"{module.__name__}.{kind.target}", (kind.match, kind.replacement))
        )

        assert value(module, kind.call) == kind.reverted
        handle.restore()
        assert value(module, kind.call) == kind.fixed

    def test_observed_live(self, modules: Modules, kind: Kind) -> None:
        """As the pytest plugin and `prtoggle run` do it, which listen for the edited statement."""
        module = modules.load(kind.text)
        toggle = make_toggle(f"{module.__name__}.{kind.target}", (kind.match, kind.replacement))
        reach.restart()
        handle = engine.revert([toggle], observe=True)

        assert value(module, kind.call) == kind.reverted
        handle.restore()
        assert value(module, kind.call) == kind.fixed
        with prtoggle.reverted(toggle):
            assert value(module, kind.call) == kind.reverted

    def test_observed_at_load(self, modules: Modules, kind: Kind) -> None:
        name = modules.write(kind.text)
        toggle = make_toggle(f"{name}.{kind.target}", (kind.match, kind.replacement))
        reach.restart()
        handle = engine.revert([toggle], observe=True)
        module = importlib.import_module(name)

        assert value(module, kind.call) == kind.reverted
        handle.restore()
        assert value(module, kind.call) == kind.fixed

    def test_at_load(self, modules: Modules, kind: Kind) -> None:
        name = modules.write(kind.text)
        handle = prtoggle.revert(make_toggle(f"{name}.{kind.target}", (kind.match, kind.replacement)))
        module = importlib.import_module(name)

        assert value(module, kind.call) == kind.reverted
        handle.restore()
        assert value(module, kind.call) == kind.fixed

    def test_flips_of_a_function_born_reverted(self, modules: Modules, kind: Kind) -> None:
        name = modules.write(kind.text)
        toggle = make_toggle(f"{name}.{kind.target}", (kind.match, kind.replacement))
        prtoggle.revert(toggle).restore()
        handle = prtoggle.revert(toggle)
        module = importlib.import_module(name)
        handle.restore()
        seen = []
        for _ in range(3):
            with prtoggle.reverted(toggle):
                seen.append(value(module, kind.call))
            seen.append(value(module, kind.call))

        assert seen == [kind.reverted, kind.fixed] * 3

    def test_line_numbers_are_those_of_the_file(self, modules: Modules, kind: Kind) -> None:
        module = modules.load(kind.text)
        before = {name: inspect.getsource(thing) for name, thing in _functions(module)}
        handle = prtoggle.revert(
            make_toggle(f"{module.__name__}.{kind.target}", (kind.match, kind.replacement))
        )
        during = {name: inspect.getsource(thing) for name, thing in _functions(module)}
        handle.restore()

        assert {name: inspect.getsource(thing) for name, thing in _functions(module)} == before
        assert during.keys() == before.keys()


def _functions(module: ModuleType) -> list[tuple[str, Any]]:
    return [
        (name, thing)
        for name, thing in vars(module).items()
        if inspect.isfunction(thing) and thing.__module__ == module.__name__
    ]


def test_the_kinds_differ_fixed_and_reverted() -> None:
    assert [name for name, kind in KINDS.items() if kind.fixed == kind.reverted] == []


def test_a_live_function_becomes_a_generator_where_python_allows_it(modules: Modules) -> None:
    module = modules.load("def f():\n    return [1]\n")
    toggle = make_toggle(f"{module.__name__}.f", ("return [1]", "yield 1"))
    if sys.version_info >= (3, 13):
        with pytest.raises(prtoggle.UnsupportedTargetError, match="makes a generator of a plain function"):
            prtoggle.revert(toggle)
    else:
        with prtoggle.reverted(toggle):
            assert next(module.f()) == 1

    assert module.f() == [1]


@pytest.mark.parametrize("observe", [False, True])
@pytest.mark.parametrize(
    ("made", "match", "replacement", "fixed", "reverted"),
    [
        ("    @functools.cache\n    def g(x, k=1): return x + k + n\n", "def g(x, k=1): return x + k + n",
         "def g(x, k=5): return x + k + n", 5, 9),
        ("    def g(x):\n        x += n\n        return x * len(str(make))\n", "x += n", "x += 9", 4, 10),
        ("    def g(x):\n        x += n\n        return x\n", "x += n", "", 4, 1),
    ],
    ids=["default in one line", "cell no longer used", "no cell used"],
)  # fmt: skip
def test_a_closure_that_exists_is_exchanged_live(
    modules: Modules, made: str, match: str, replacement: str, fixed: int, reverted: int, observe: bool
) -> None:
    module = modules.load(
        f"import functools\ndef len(x): return 1\ndef make(n):\n{made}    return g\nheld = make(3)\n"
    )
    toggle = make_toggle(f"{module.__name__}.held", (match, replacement))

    reach.restart()
    handle = engine.revert([toggle], observe=observe)
    assert module.held(1) == reverted
    handle.restore()

    assert module.held(1) == fixed
    with prtoggle.reverted(toggle):
        assert module.held(1) == reverted
