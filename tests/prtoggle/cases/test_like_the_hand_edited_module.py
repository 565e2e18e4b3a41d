"""Any edit comes to what the module would be had somebody edited its file by hand, or it is refused.

Each case is a module with a function `probe`. Its answer with the toggle in effect is compared with that of
the hand-edited module, freshly imported, and its answer afterwards with that of the unedited one.
"""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

import prtoggle
from prtoggle.errors import RestoreError
from tests.prtoggle.cases.moments import AT_LOAD, LIVE, patch, toggle, world

if TYPE_CHECKING:
    from tests.prtoggle.cases.moments import World

__all__ = ["world"]

#: Text, target, lines of it, and what stands there by the hand of whoever takes the fix out.
CASES = {
    "docstring only": ('def f():\n    "fixed"\n    return 1\ndef probe(): return f.__doc__, f()\n', "f", '"fixed"', '"old"'),
    "docstring and body": ('def f():\n    "fixed"\n    return 1\ndef probe(): return f.__doc__, f()\n', "f", '"fixed"\n    return 1', '"old"\n    return 2'),
    "docstring removed": ('def f():\n    "fixed"\n    return 1\ndef probe(): return f.__doc__, f()\n', "f", '"fixed"\n    return 1', "return 2"),
    "docstring added": ("def f():\n    return 1\ndef probe(): return f.__doc__, f()\n", "f", "return 1", '"doc"\n    return 1'),
    "method docstring": ('class C:\n    def f(self):\n        "fixed"\n        return 1\ndef probe(): return C.f.__doc__, C().f()\n', "C.f", '"fixed"', '"old"'),
    "property docstring": ('class C:\n    @property\n    def f(self):\n        "fixed"\n        return 1\ndef probe(): return C.f.__doc__, C().f\n', "C.f", '"fixed"', '"old"'),
    "wrapped docstring": ('import functools\ndef d(fn):\n    @functools.wraps(fn)\n    def w(): return fn()\n    return w\n@d\ndef f():\n    "fixed"\n    return 1\ndef probe(): return f.__doc__, f()\n', "f", '"fixed"', '"old"'),
    "classmethod docstring": ('class C:\n    @classmethod\n    def f(cls):\n        "fixed"\n        return 1\ndef probe(): return C.f.__doc__, C.f()\n', "C.f", '"fixed"', '"old"'),
    "cached_property docstring": ('import functools\nclass C:\n    @functools.cached_property\n    def f(self):\n        "fixed"\n        return 1\ndef probe(): return C.f.__doc__, C().f\n', "C.f", '"fixed"', '"old"'),
    "property(_get, _set) fset": ("class C:\n    def _get(self): return self._v\n    def _set(self, v):\n        self._v = v + 1\n    p = property(_get, _set)\ndef probe():\n    c = C(); c.p = 1; return c.p\n", "C.p.fset", "self._v = v + 1", "self._v = v + 5"),
    "property(_get) fget": ("class C:\n    def _get(self):\n        return 1\n    p = property(_get)\ndef probe(): return C().p\n", "C.p.fget", "return 1", "return 2"),
    "property(_get) plain": ("class C:\n    def _get(self):\n        return 1\n    p = property(_get)\ndef probe(): return C().p\n", "C.p", "return 1", "return 2"),
    "property lambda fget": ("class C:\n    p = property(lambda self: 1)\ndef probe(): return C().p\n", "C.p.fget", "p = property(lambda self: 1)", "p = property(lambda self: 2)"),
    "property lambdas fset": ('class C:\n    p = property(\n        lambda self: self.v,\n        lambda self, v: setattr(self, "v", v + 1),\n    )\ndef probe():\n    c = C(); c.p = 1; return c.p\n', "C.p.fset", 'lambda self, v: setattr(self, "v", v + 1),', 'lambda self, v: setattr(self, "v", v + 5),'),
    "property keyword fset": ("class C:\n    def _get(self): return self._v\n    def _set(self, v):\n        self._v = v + 1\n    p = property(fset=_set, fget=_get)\ndef probe():\n    c = C(); c.p = 1; return c.p\n", "C.p.fset", "self._v = v + 1", "self._v = v + 5"),
    "property of outer functions": ("def _get(self): return self._v\ndef _set(self, v):\n    self._v = v + 1\nclass C:\n    p = property(_get, _set)\ndef probe():\n    c = C(); c.p = 1; return c.p\n", "C.p.fset", "self._v = v + 1", "self._v = v + 5"),
    "property .setter(fn) assigned": ("class C:\n    @property\n    def p(self): return self._v\n    def _set(self, v):\n        self._v = v + 1\n    p = p.setter(_set)\ndef probe():\n    c = C(); c.p = 1; return c.p\n", "C.p.fset", "self._v = v + 1", "self._v = v + 5"),
    "match statement": ('def f(x):\n    match x:\n        case [1, *rest] if rest:\n            return rest\n        case {"a": y}:\n            return y\n        case _:\n            return None\ndef probe(): return f([1,2]), f({"a":3}), f(0)\n', "f", 'case {"a": y}:\n            return y', 'case {"a": y, **kw}:\n            return y, kw'),
    "walrus in comprehension": ("def f(xs):\n    r = [y := x + 1 for x in xs]\n    return r, y\ndef probe(): return f([1,2])\n", "f", "r = [y := x + 1 for x in xs]", "r = [y := x + 2 for x in xs if x]"),
    "nested fstring": ('def f(x):\n    return f"{x!r:>{x + 5}} {f\'{x}\'}"\ndef probe(): return f(1)\n', "f", 'return f"{x!r:>{x + 5}} {f\'{x}\'}"', 'return f"{x!r:<{x + 7}} {f\'{x}\'}"'),
    "decorator with lambda": ("def d(k):\n    def deco(fn):\n        def w(x): return k(fn(x))\n        return w\n    return deco\n@d(lambda r: r * 2)\ndef f(x):\n    return x + 1\ndef probe(): return f(1)\n", "f", "return x + 1", "return x + 5"),
    "overloads": ('import typing\n@typing.overload\ndef f(x: int) -> int: ...\n@typing.overload\ndef f(x: str) -> str: ...\ndef f(x):\n    return x * 2\ndef probe(): return f(1), f("a"), len(typing.get_overloads(f))\n', "f", "return x * 2", "return x * 3"),
    "__init_subclass__": ("class B:\n    def __init_subclass__(cls, **kw):\n        cls.tag = 1\n        super().__init_subclass__(**kw)\ndef probe():\n    class D(B): pass\n    return D.tag\n", "B.__init_subclass__", "cls.tag = 1", "cls.tag = 2"),
    "__set_name__": ("class D:\n    def __set_name__(self, owner, name):\n        self.n = name\n    def __get__(self, i, o): return self.n\ndef probe():\n    class X: a = D()\n    return X.a\n", "D.__set_name__", "self.n = name", "self.n = name * 2"),
    "metaclass method": ("class M(type):\n    def __call__(cls, *a):\n        o = super().__call__(*a)\n        return o, 1\nclass X(metaclass=M): pass\ndef probe(): return X()[1]\n", "M.__call__", "return o, 1", "return o, 2"),
    "metaclass __new__": ('class M(type):\n    def __new__(m, n, b, ns):\n        ns["t"] = 1\n        return super().__new__(m, n, b, ns)\ndef probe():\n    class X(metaclass=M): pass\n    return X.t\n', "M.__new__", 'ns["t"] = 1', 'ns["t"] = 2'),
    "enum method": ("import enum\nclass E(enum.Enum):\n    A = 1\n    def f(self):\n        return self.value + 1\ndef probe(): return E.A.f()\n", "E.f", "return self.value + 1", "return self.value + 5"),
    "enum _generate_next_value_": ('import enum\nclass E(enum.Enum):\n    def _generate_next_value_(name, start, count, last):\n        return name\n    A = enum.auto()\ndef probe(): return E._generate_next_value_("x", 1, 1, [])\n', "E._generate_next_value_", "return name", "return name * 2"),
    "enum __init__": ("import enum\nclass E(enum.Enum):\n    A = 1\n    def __init__(self, v):\n        self.w = v + 1\ndef probe(): return E.A.w\n", "E.__init__", "self.w = v + 1", "self.w = v + 5"),
    "enum __init__ of a base": ("import enum\nclass B(enum.Enum):\n    def __init__(self, v):\n        self.w = v + 1\ndef probe():\n    class E(B): A = 1\n    return E.A.w\n", "B.__init__", "self.w = v + 1", "self.w = v + 5"),
    "enum __new__": ("import enum\nclass E(enum.Enum):\n    def __new__(cls, v):\n        o = object.__new__(cls)\n        o._value_ = v + 1\n        return o\n    A = 1\ndef probe(): return E.A.value\n", "E.__new__", "o._value_ = v + 1", "o._value_ = v + 5"),
    "enum _missing_": ("import enum\nclass E(enum.Enum):\n    A = 1\n    @classmethod\n    def _missing_(cls, v):\n        return cls.A\ndef probe():\n    try: return E(7)\n    except ValueError: return None\n", "E._missing_", "return cls.A", "return None"),
    "NamedTuple method": ("import typing\nclass N(typing.NamedTuple):\n    x: int = 1\n    def f(self):\n        return self.x + 1\ndef probe(): return N().f()\n", "N.f", "return self.x + 1", "return self.x + 5"),
    "cached_property fresh instance": ("import functools\nclass C:\n    @functools.cached_property\n    def f(self):\n        return 1\nc = C()\ndef probe(): return C().f\n", "C.f", "return 1", "return 2"),
    "staticmethod over lru_cache": ("import functools\nclass C:\n    @staticmethod\n    @functools.lru_cache\n    def f(x):\n        return x + 1\nC.f(1)\ndef probe(): return C.f(1)\n", "C.f", "return x + 1", "return x + 5"),
    "__class_getitem__": ("class C:\n    @classmethod\n    def __class_getitem__(cls, k):\n        return k\ndef probe(): return C[3]\n", "C.__class_getitem__", "return k", "return k * 2"),
    "__class_getitem__ implicit": ("class C:\n    def __class_getitem__(cls, k):\n        return k\ndef probe(): return C[3]\n", "C.__class_getitem__", "return k", "return k * 2"),
    "slots dataclass super": ("import dataclasses\nclass B:\n    def f(self): return 1\n@dataclasses.dataclass(slots=True)\nclass C(B):\n    x: int = 1\n    def f(self):\n        r = 1\n        return r\ndef probe(): return C().f()\n", "C.f", "r = 1", "r = 2"),
    "slots dataclass __class__ used": ("import dataclasses\n@dataclasses.dataclass(slots=True)\nclass C:\n    x: int = 1\n    def f(self):\n        r = 1\n        return r, __class__ is C\ndef probe(): return C().f()\n", "C.f", "r = 1", "r = 2"),
    "dataclass __post_init__": ("import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: int\n    def __post_init__(self):\n        self.y = self.x + 1\ndef probe(): return C(1).y\n", "C.__post_init__", "self.y = self.x + 1", "self.y = self.x + 5"),
    "dataclass field factory lambda": ("import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: list = dataclasses.field(default_factory=lambda: [1])\ndef probe(): return C().x\n", "C.x", "x: list = dataclasses.field(default_factory=lambda: [1])", "x: list = dataclasses.field(default_factory=lambda: [2])"),
    "dataclass default": ("import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: int = 1\n    y: int = 3\ndef probe(): return C().x\n", "C.x", "x: int = 1", "x: int = 2"),
    "dataclass body edit": ("import dataclasses\n@dataclasses.dataclass\nclass C:\n    x: int = 1\n    y: int = 3\ndef probe(): return C().x\n", "C", "x: int = 1", "x: int = 2"),
    "Protocol": ("import typing\nclass P(typing.Protocol):\n    def f(self):\n        return 1\nclass C(P): pass\ndef probe(): return C().f()\n", "P.f", "return 1", "return 2"),
    "abstract method": ("import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def f(self):\n        return 1\nclass C(A):\n    def f(self): return super().f()\ndef probe(): return C().f()\n", "A.f", "return 1", "return 2"),
    "abstract property": ("import abc\nclass A(abc.ABC):\n    @property\n    @abc.abstractmethod\n    def f(self):\n        return 1\nclass C(A):\n    f = A.f\n    @property\n    def f(self): return A.f.fget(self)\ndef probe(): return C().f\n", "A.f", "return 1", "return 2"),
    "module __getattr__": ('def __getattr__(name):\n    if name == "zz":\n        return 1\n    raise AttributeError(name)\nimport sys\ndef probe(): return __getattr__("zz"), sys.modules[__name__].zz\n', "__getattr__", "return 1", "return 2"),
    "main guard": ('def f():\n    return 1\nif __name__ == "__main__":\n    f()\ndef probe(): return f()\n', "f", "return 1", "return 2"),
    "conditional definition": ("import sys\nif sys.maxsize > 1:\n    def f():\n        return 1\nelse:\n    def f():\n        return 3\ndef probe(): return f()\n", "f", "return 1", "return 2"),
    "try import fallback": ("try:\n    import nothing_there_\n    def f():\n        return 0\nexcept ImportError:\n    def f():\n        return 1\ndef probe(): return f()\n", "f", "return 1", "return 2"),
    "with block definition": ("import contextlib\nwith contextlib.suppress(ValueError):\n    def f():\n        return 1\ndef probe(): return f()\n", "f", "return 1", "return 2"),
    "for loop definitions": ("fs = []\nfor i in range(3):\n    def f(k=i):\n        return k + 1\n    fs.append(f)\ndef probe(): return [g() for g in fs]\n", "f", "return k + 1", "return k + 5"),
    "while loop def default": ("fs = []\nfor i in range(3):\n    def f(k=i, j=1):\n        return k + j\n    fs.append(f)\ndef probe(): return [g() for g in fs]\n", "f", "def f(k=i, j=1):", "def f(k=i, j=7):"),
    "deleted name": ("def f():\n    return 1\ng = f\ndel f\ndef probe(): return g()\n", "g", "return 1", "return 2"),
    "deleted name, by f": ("def f():\n    return 1\ng = f\ndel f\ndef probe(): return g()\n", "f", "return 1", "return 2"),
    "global statement added": ("N = 1\ndef f():\n    N = 2\n    return N\ndef probe():\n    global N\n    r = f(); n = N; N = 1\n    return r, n\n", "f", "N = 2", "global N\n    N = 2"),
    "global removed": ("N = 1\ndef f():\n    global N\n    N = 2\n    return N\ndef probe():\n    global N\n    r = f(); n = N; N = 1\n    return r, n\n", "f", "global N\n    N = 2", "N = 2"),
    "nonlocal inside": ("def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n        return n\n    g()\n    return n\ndef probe(): return f()\n", "f.<locals>.g", "n += 1", "n += 5"),
    "nonlocal removed inside": ("def f():\n    n = 0\n    def g():\n        nonlocal n\n        n = 1\n        return n\n    g()\n    return n\ndef probe(): return f()\n", "f", "nonlocal n\n        n = 1", "n = 1"),
    "nonlocal added in closure": ("def mk():\n    n = 0\n    def g():\n        n = 3\n        return n\n    def h():\n        return n\n    return g, h\ng, h = mk()\ndef probe(): return g(), h()\n", "g", "n = 3", "nonlocal n\n        n = 3"),
    "nonlocal by maker": ("def mk():\n    n = 0\n    def g():\n        nonlocal n\n        n = n + 1\n        return n\n    return g\ng = mk()\ndef probe():\n    a = g(); b = g()\n    return b - a\n", "g", "n = n + 1", "n = n + 5"),
    "recursive": ("def f(n):\n    return 1 if n == 0 else f(n - 1) + 1\ndef probe(): return f(3)\n", "f", "return 1 if n == 0 else f(n - 1) + 1", "return 1 if n == 0 else f(n - 1) * 2"),
    "async gen": ("import asyncio\nasync def f():\n    for i in range(2):\n        yield i\n        await asyncio.sleep(0)\ndef probe():\n    async def go(): return [x async for x in f()]\n    return asyncio.run(go())\n", "f", "yield i", "yield i + 5"),
    "async context": ("import asyncio, contextlib\n@contextlib.asynccontextmanager\nasync def f():\n    x = 1\n    yield x\ndef probe():\n    async def go():\n        async with f() as v: return v\n    return asyncio.run(go())\n", "f", "x = 1", "x = 2"),
    "__wrapped__ loop": ("def f():\n    return 1\nf.__wrapped__ = f\ndef probe(): return f()\n", "f", "return 1", "return 2"),
    "__wrapped__ elsewhere": ("def other(): return 0\ndef f():\n    return 1\nf.__wrapped__ = other\ndef probe(): return f()\n", "f", "return 1", "return 2"),
    "star import": ('from os.path import *\ndef f(x):\n    return join("a", x)\ndef probe(): return f("b")\n', "f", 'return join("a", x)', 'return basename(join("a", x))'),
    "annotations future": ("from __future__ import annotations\ndef f(x: int = 1) -> str:\n    return x\ndef probe(): return f(), f.__annotations__\n", "f", "def f(x: int = 1) -> str:\n    return x", "def f(x: float = 2) -> bytes:\n    return x"),
    "annotations": ("def f(x: int = 1) -> str:\n    return x\ndef probe(): return f(), f.__annotations__\n", "f", "def f(x: int = 1) -> str:\n    return x", "def f(x: float = 2) -> bytes:\n    return x"),
    "class private in default": ("class C:\n    __k = 4\n    def f(self, x=__k):\n        return x\ndef probe(): return C().f()\n", "C.f", "def f(self, x=__k):", "def f(self, x=__k + 1):"),
    "lambda attr in class": ("class C:\n    key = staticmethod(lambda x: x + 1)\ndef probe(): return C.key(1)\n", "C.key", "key = staticmethod(lambda x: x + 1)", "key = staticmethod(lambda x: x + 5)"),
    "lambda default": ("def f(x, k=lambda y: y + 1):\n    return k(x)\ndef probe(): return f(1)\n", "f", "def f(x, k=lambda y: y + 1):", "def f(x, k=lambda y: y + 5):"),
    "functools.partial": ("import functools\ndef f(a, b):\n    return a + b\ng = functools.partial(f, 1)\ndef probe(): return g(2)\n", "g", "return a + b", "return a * b + 9"),
    "partialmethod": ("import functools\nclass C:\n    def f(self, a, b):\n        return a + b\n    g = functools.partialmethod(f, 1)\ndef probe(): return C().g(2)\n", "C.g", "return a + b", "return a * b + 9"),
    "singledispatch impl": ('import functools\n@functools.singledispatch\ndef f(x): return 0\n@f.register\ndef _(x: int):\n    return 1\n@f.register\ndef _(x: str):\n    return 2\ndef probe(): return f(1), f("a"), f(1.5)\n', "_", "return 2", "return 3"),
    "singledispatch impl hidden": ('import functools\n@functools.singledispatch\ndef f(x): return 0\n@f.register\ndef _(x: int):\n    return 1\n@f.register\ndef _(x: str):\n    return 2\ndef probe(): return f(1), f("a"), f(1.5)\n', "_", "return 1", "return 3"),
    "singledispatchmethod impl hidden": ('import functools\nclass C:\n    @functools.singledispatchmethod\n    def f(self, x):\n        return 0\n    @f.register(int)\n    def _(self, x):\n        return 1\n    @f.register(str)\n    @classmethod\n    def _(cls, x):\n        return 2\ndef probe(): return C().f(1), C().f("a"), C().f(1.5)\n', "C._", "return 1", "return 3"),
    "singledispatchmethod": ('import functools\nclass C:\n    @functools.singledispatchmethod\n    def f(self, x):\n        return 0\n    @f.register\n    def _(self, x: int):\n        return 1\ndef probe(): return C().f(1), C().f("a")\n', "C.f", "return 0", "return 5"),
    "singledispatchmethod impl": ('import functools\nclass C:\n    @functools.singledispatchmethod\n    def f(self, x):\n        return 0\n    @f.register\n    def _(self, x: int):\n        return 1\ndef probe(): return C().f(1), C().f("a")\n', "C._", "return 1", "return 5"),
    "A.f of made class": ("def mk(n):\n    class K:\n        def f(self):\n            return n\n    return K\nA, B = mk(1), mk(2)\ndef probe(): return A().f(), B().f(), mk(3)().f()\n", "A.f", "return n", "return n + 5"),
    "del of local": ("def f():\n    x = 1\n    y = x\n    del x\n    return y\ndef probe(): return f()\n", "f", "y = x", "y = x + 1"),
    "try finally return": ("def f():\n    try:\n        return 1\n    finally:\n        pass\ndef probe(): return f()\n", "f", "pass", "return 2"),
    "except*": ('def f():\n    try:\n        raise ExceptionGroup("a", [ValueError(1)])\n    except* ValueError as e:\n        r = 1\n    return r\ndef probe(): return f()\n', "f", "r = 1", "r = 2"),
    "__del__": ("log = []\nclass C:\n    def __del__(self):\n        log.append(1)\ndef probe():\n    log.clear(); C(); return log\n", "C.__del__", "log.append(1)", "log.append(2)"),
    "__slots__ + property": ('class C:\n    __slots__ = ("v",)\n    @property\n    def f(self):\n        return 1\ndef probe(): return C().f\n', "C.f", "return 1", "return 2"),
    "__hash__ none": ("class C:\n    def __eq__(self, o):\n        return True\ndef probe(): return C() == 1, C.__hash__\n", "C.__eq__", "return True", "return False"),
    "alias of method": ("class C:\n    def f(self):\n        return 1\n    __call__ = f\ndef probe(): return C()(), C().f()\n", "C.__call__", "return 1", "return 2"),
    "conditional expr alias": ("def a():\n    return 1\ndef b():\n    return 3\nf = a if True else b\ndef probe(): return f(), b()\n", "f", "return 1", "return 2"),
    "tuple assign lambda": ("f, g = (lambda: 1), (lambda: 3)\ndef probe(): return f(), g()\n", "f", "f, g = (lambda: 1), (lambda: 3)", "f, g = (lambda: 2), (lambda: 3)"),
    "tuple assign lambda g": ("f, g = (\n    lambda: 1,\n    lambda: 3,\n)\ndef probe(): return f(), g()\n", "g", "lambda: 3,", "lambda: 4,"),
    "dict of lambdas": ('D = {\n    "a": lambda x: x + 1,\n    "b": lambda x: x + 2,\n}\ndef probe(): return D["a"](1), D["b"](1)\n', "D", '"a": lambda x: x + 1,', '"a": lambda x: x + 5,'),
    "walrus def": ("print_ = (f := lambda x: x + 1)\ndef probe(): return f(1)\n", "print_", "print_ = (f := lambda x: x + 1)", "print_ = (f := lambda x: x + 5)"),
    "new lambda in body": ("def f(xs):\n    return sorted(xs)\ndef probe(): return f([1,2])\n", "f", "return sorted(xs)", "return sorted(xs, key=lambda v: -v)"),
    "new nested function closure": ("def f(x):\n    return x\ndef probe(): return f(2)\n", "f", "return x", "def g():\n        return x * 3\n    return g()"),
    "param becomes cell": ("def f(x, y=1):\n    return x + y\ndef probe(): return f(2)\n", "f", "return x + y", "return [(lambda: x + y + i)() for i in range(2)]"),
    "comprehension in class body method": ("class C:\n    xs = [1, 2]\n    def f(self):\n        return [x for x in self.xs]\ndef probe(): return C().f()\n", "C.f", "return [x for x in self.xs]", "return {x: [y for y in self.xs] for x in self.xs}"),
    "super in nested function": ("class B:\n    def g(self): return 1\nclass C(B):\n    def f(self):\n        def h():\n            return super(C, self).g()\n        return h() + 1\ndef probe(): return C().f()\n", "C.f", "return h() + 1", "return h() + 5"),
    "__class__ assigned": ('class C:\n    def f(self):\n        return __class__.__name__\nC.__name__ = "D"\ndef probe(): return C().f()\n', "C.f", "return __class__.__name__", 'return __class__.__name__ + "!"'),
    "renamed class private": ('class C:\n    def __p(self):\n        return 1\n    def f(self): return self.__p()\nC.__name__ = "D"\ndef probe(): return C().f()\n', "C.__p", "return 1", "return 2"),
    "class rebinding same name": ("class C:\n    def f(self): return 0\nclass C(C):\n    def f(self):\n        return super().f() + 1\ndef probe(): return C().f()\n", "C.f", "return super().f() + 1", "return super().f() + 5"),
    "class rebinding edit of base": ("class C:\n    def f(self):\n        return 1\nclass C(C):\n    def g(self): return 0\ndef probe(): return C().f()\n", "C.f", "return 1", "return 2"),
    "function attribute": ("def f():\n    return f.n\nf.n = 1\ndef probe(): return f()\n", "f", "return f.n", "return f.n + 1"),
    "method added later": ("class C: pass\ndef m(self):\n    return 1\nC.m = m\ndef probe(): return C().m()\n", "C.m", "return 1", "return 2"),
    "monkeypatched at import": ("import types\ndef f(): return 0\ndef g():\n    return 1\nf = g\ndef probe(): return f()\n", "f", "return 1", "return 2"),
    "FunctionType copy": ('import types\ndef f():\n    return 1\ng = types.FunctionType(f.__code__, globals(), "g")\ndef probe(): return f(), g()\n', "f", "return 1", "return 2"),
    "code.replace copy": ('import types\ndef f():\n    return 1\nf = types.FunctionType(f.__code__.replace(co_name="q"), globals(), "f")\ndef probe(): return f()\n', "f", "return 1", "return 2"),
    "contextvars": ('import contextvars\nV = contextvars.ContextVar("V", default=1)\ndef f():\n    return V.get()\ndef probe(): return f()\n', "f", "return V.get()", "return V.get() + 1"),
    "conditional import in function": ("def f():\n    import os\n    return os.sep\ndef probe(): return f()\n", "f", "import os", 'import posixpath as os\n    os = type("X", (), {"sep": "!"})'),
    "import new in function": ("def f():\n    return 1\ndef probe(): return f()\n", "f", "return 1", "import math\n    return math.floor(2.5)"),
    "yield added": ("def f():\n    return [1]\ndef probe(): return list(f())\n", "f", "return [1]", "yield 2"),
    "yield removed": ("def f():\n    yield 1\ndef probe(): return list(f())\n", "f", "yield 1", "return [2]"),
    "async added": ("import asyncio, inspect\ndef f():\n    return 1\ndef probe():\n    r = f()\n    return asyncio.run(r) if inspect.iscoroutine(r) else r\n", "f", "def f():\n    return 1", "async def f():\n    return 2"),
    "semicolons": ("def f(): x = 1; y = 2; return x + y\ndef probe(): return f()\n", "f", "def f(): x = 1; y = 2; return x + y", "def f(): x = 1; y = 3; return x + y"),
    "one line class": ("class C: f = lambda self: 1\ndef probe(): return C().f()\n", "C.f", "class C: f = lambda self: 1", "class C: f = lambda self: 2"),
    "line continuation def": ("def f(a, \\\n      b=1):\n    return a + b\ndef probe(): return f(1)\n", "f", "b=1):", "b=5):"),
    "form feed": ("x = 1\n\f\ndef f():\n    return 1\ndef probe(): return f()\n", "f", "return 1", "return 2"),
    "nfkc name": ("def ﬁ():\n    return 1\ndef probe(): return ﬁ()\n", "fi", "return 1", "return 2"),
    "global name nfkc": ("def f():\n    return 1\nfi = 3\ndef probe(): return f()\n", "f", "return 1", "return ﬁ"),
    "type params": ("def f[T](x: T) -> T:\n    return x\ndef probe(): return f(1), f.__type_params__[0].__name__\n", "f", "def f[T](x: T) -> T:\n    return x", "def f[U](x: U) -> U:\n    return x"),
    "type params body": ("def f[T](x: T) -> T:\n    return x\ndef probe(): return f(1)\n", "f", "return x", "return x + 1"),
    "type params in class super": ("class B:\n    def f(self): return 1\nclass C[T](B):\n    def f(self):\n        return super().f() + 1\ndef probe(): return C().f()\n", "C.f", "return super().f() + 1", "return super().f() + 5"),
    "type param used in body": ("def f[T](x: T):\n    return T.__name__\ndef probe(): return f(1)\n", "f", "return T.__name__", 'return T.__name__ + "!"'),
    "type param newly used": ("def f[T](x: T):\n    return 1\ndef probe(): return f(1)\n", "f", "return 1", "return T.__name__"),
    "type param added": ("def f(x):\n    return 1\ndef probe(): return f(1), len(f.__type_params__)\n", "f", "def f(x):", "def f[T](x):"),
    "same quotes fstring": ('def f(d):\n    return f"{d["a"]}"\ndef probe(): return f({"a": 1})\n', "f", 'return f"{d["a"]}"', 'return f"{d["a"]!r:>4}"'),
    "fstring multiline nested": ('def f(d):\n    return f"{d[\n        "a"\n    ]}"\ndef probe(): return f({"a": 1, "b": 2})\n', "f", '"a"\n', '"b"\n'),
    "comprehension inlined": ("def f(xs):\n    x = 0\n    r = [x for x in xs]\n    return r, x\ndef probe(): return f([1,2])\n", "f", "r = [x for x in xs]", "r = [x + 1 for x in xs if [x for x in xs]]"),
    "type alias lazily": ("type A = list[int]\ndef f():\n    return A.__value__\ndef probe(): return f()\n", "f", "return A.__value__", "return A.__name__"),
    "default type param": ("def f[T = int](x: T):\n    return 1\ndef probe(): return f(1)\n", "f", "return 1", "return 2"),
    "static attributes": ("class C:\n    def f(self):\n        self.a = 1\n        return 1\ndef probe(): return C().f()\n", "C.f", "return 1", "self.b = 1\n        return 2"),
    "other lambda of statement": ("f, g = (\n    lambda: (1 +\n      1),\n    lambda: 3,\n)\ndef probe(): return f(), g()\n", "f", "lambda: 3,", "lambda: 4,"),
    "lambda body multi": ("f = (\n    lambda x: (x +\n      1)\n)\ndef probe(): return f(1)\n", "f", "1)", "7)"),
    "lambda in call": ("def d(fn, k): return lambda x: fn(x) + k\nf = d(\n    lambda x: x + 1,\n    10,\n)\ndef probe(): return f(1)\n", "f", "lambda x: x + 1,", "lambda x: x + 5,"),
    "lambda in call arg changed": ("def d(fn, k): return lambda x: fn(x) + k\nf = d(\n    lambda x: x + 1,\n    10,\n)\ndef probe(): return f(1)\n", "f", "10,", "20,"),
    "wraps none docstring": ("import functools\ndef d(fn):\n    @functools.wraps(fn)\n    def w(): return fn()\n    return w\n@d\ndef f():\n    return 1\ndef probe(): return f.__doc__, f()\n", "f", "return 1", '"new"\n    return 1'),
    "no wraps docstring": ("def d(fn):\n    def w(): return fn()\n    return w\n@d\ndef f():\n    return 1\ndef probe(): return f.__doc__, f()\n", "f", "return 1", '"new"\n    return 2'),
    "doc overridden": ('def f():\n    "a"\n    return 1\nf.__doc__ = "mine"\ndef probe(): return f.__doc__, f()\n', "f", '"a"\n    return 1', '"b"\n    return 2'),
    "lru doc": ('import functools\n@functools.lru_cache\ndef f():\n    "a"\n    return 1\ndef probe(): return f.__doc__, f()\n', "f", '"a"', '"b"'),
    "wrapt doc": ('import wrapt\n@wrapt.decorator\ndef d(w, i, a, k): return w(*a, **k)\n@d\ndef f():\n    "a"\n    return 1\ndef probe(): return f.__doc__, f()\n', "f", '"a"', '"b"'),
    "doc used in body": ('def f():\n    "a"\n    return f.__doc__\ndef probe(): return f()\n', "f", '"a"', '"b"'),
    "nested doc": ('def f():\n    def g():\n        "a"\n    return g.__doc__\ndef probe(): return f()\n', "f", '"a"', '"b"'),
    "contextmanager doc": ('import contextlib\n@contextlib.contextmanager\ndef f():\n    "a"\n    yield 1\ndef probe():\n    with f() as v: return v, f.__doc__\n', "f", '"a"', '"b"'),
    "multiline doc": ('def f():\n    """a\n\n    b\n    """\n    return 1\ndef probe(): return f.__doc__, f()\n', "f", '"""a', '"""c'),
    "fstring not doc": ('def f():\n    "a"\n    return 1\ndef probe(): return f.__doc__, f()\n', "f", '"a"', 'f"b"'),
    "property explicit doc": ('class C:\n    def g(self):\n        "a"\n        return 1\n    p = property(g, doc="mine")\ndef probe(): return C.p.__doc__, C().p, C.g.__doc__\n', "C.p", '"a"', '"b"'),
    "fdel": ("class C:\n    def _d(self):\n        self.x = 1\n    p = property(None, None, _d)\ndef probe():\n    c = C(); del c.p; return c.x\n", "C.p.fdel", "self.x = 1", "self.x = 2"),
    "fget matched only in setter": ("class C:\n    def _g(self): return self.v\n    def _s(self, v):\n        self.v = v\n    p = property(_g, _s)\ndef probe():\n    c = C(); c.p = 1; return c.p\n", "C.p", "self.v = v", "self.v = v + 5"),
    "type param bound": ("def f[T: int](x: T):\n    return 1\ndef probe(): return f(1), f.__type_params__[0].__bound__\n", "f", "def f[T: int](x: T):", "def f[T: str](x: T):"),
    "flag method": ('import enum\nclass E(enum.Flag):\n    A = 1\n    B = 2\n    def __str__(self):\n        return "x"\ndef probe(): return str(E.A | E.B)\n', "E.__str__", 'return "x"', 'return "y"'),
    "namedtuple __new__ subclass": ("import typing\nclass N(typing.NamedTuple):\n    x: int\nclass M(N):\n    def __new__(cls, x):\n        return super().__new__(cls, x + 1)\ndef probe(): return M(1).x\n", "M.__new__", "return super().__new__(cls, x + 1)", "return super().__new__(cls, x + 5)"),
    "total_ordering": ("import functools\n@functools.total_ordering\nclass C:\n    def __init__(self, v): self.v = v\n    def __eq__(self, o): return self.v == o.v\n    def __lt__(self, o):\n        return self.v < o.v\ndef probe(): return C(1) < C(2), C(1) >= C(2)\n", "C.__lt__", "return self.v < o.v", "return self.v > o.v"),
    "total_ordering generated": ("import functools\n@functools.total_ordering\nclass C:\n    def __init__(self, v): self.v = v\n    def __eq__(self, o): return self.v == o.v\n    def __lt__(self, o):\n        return self.v < o.v\ndef probe(): return C(1) < C(2), C(1) >= C(2)\n", "C.__gt__", "return self.v < o.v", "return self.v > o.v"),
    "descriptor class in class": ("class C:\n    class D:\n        def __get__(self, i, o):\n            return 1\n    d = D()\ndef probe(): return C.d\n", "C.D.__get__", "return 1", "return 2"),
    "coroutine types": ("import types, asyncio\n@types.coroutine\ndef f():\n    yield\n    return 1\ndef probe():\n    async def g(): return await f()\n    return asyncio.run(g())\n", "f", "return 1", "return 2"),
    "lambda with default walrus": ("f = lambda x, k=(y := 3): x + k\ndef probe(): return f(1)\n", "f", "f = lambda x, k=(y := 3): x + k", "f = lambda x, k=(y := 3): x * k"),
    "generator expression arg": ("def f(xs):\n    return sum(x for x in xs)\ndef probe(): return f([1,2])\n", "f", "return sum(x for x in xs)", "return sum(x * x for x in xs if x > 1)"),
    "star args to kw": ("def f(*a, **k):\n    return a, k\ndef probe(): return f(1, b=2)\n", "f", "def f(*a, **k):\n    return a, k", "def f(a, *, b=9):\n    return a, b"),
    "posonly": ("def f(a, /, b=1):\n    return a, b\ndef probe():\n    try: return f(a=1)\n    except TypeError as e: return 0\n", "f", "def f(a, /, b=1):", "def f(a, b=1):"),
    "kwonly default removed": ('def f(*, a=1):\n    return a\ndef probe():\n    try: return f()\n    except TypeError: return "missing"\n', "f", "def f(*, a=1):", "def f(*, a):"),
    "mutable default kept": ("L = []\ndef f(x, acc=L):\n    acc.append(x)\n    return len(acc)\ndef probe():\n    L.clear(); f(1); return f(2), L\n", "f", "acc.append(x)", "acc.append(x * 2)"),
    "deep nesting": ("class A:\n    class B:\n        class C:\n            def f(self):\n                def g():\n                    return [lambda: __class__.__name__]\n                return g()[0]()\ndef probe(): return A.B.C().f()\n", "A.B.C.f", "return g()[0]()", "return g()[0]() * 2"),
    "exec string": ('ns = {}\nexec("def f():\\n    return 1\\n", ns)\nf = ns["f"]\ndef probe(): return f()\n', "f", "return 1", "return 2"),
    "backslash string continuation": ('def f():\n    s = "a\\\n    b"\n    return s\ndef probe(): return f()\n', "f", "return s", "return s * 2"),
    "if TYPE_CHECKING else": ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    def f(): ...\nelse:\n    def f():\n        return 1\ndef probe(): return f()\n", "f", "return 1", "return 2"),
    "decorator expression": ("ds = [lambda fn: (lambda x: fn(x) * 2)]\n@ds[0]\ndef f(x):\n    return x + 1\ndef probe(): return f(1)\n", "f", "return x + 1", "return x + 5"),
    "decorator replaced by class": ("class W:\n    def __init__(self, fn): self.fn = fn\n    def __call__(self, x): return self.fn(x) * 2\n@W\ndef f(x):\n    return x + 1\ndef probe(): return f(1)\n", "f", "return x + 1", "return x + 5"),
    "decorator returns None registry": ('R = {}\ndef reg(fn): R[fn.__name__] = fn\n@reg\ndef f(x):\n    return x + 1\ndef probe(): return R["f"](1)\n', "f", "return x + 1", "return x + 5"),
    "decorator calls immediately": ("@lambda fn: fn()\ndef f():\n    return 1\ndef probe(): return f\n", "f", "return 1", "return 2"),
    "class decorator adds method": ("def d(c):\n    def extra(self):\n        return 1\n    c.extra = extra\n    return c\n@d\nclass C: pass\ndef probe(): return C().extra()\n", "C.extra", "return 1", "return 2"),
    "__call__ of metaclass-made": ('T = type("T", (), {"f": lambda self: 1})\ndef probe(): return T().f()\n', "T.f", 'T = type("T", (), {"f": lambda self: 1})', 'T = type("T", (), {"f": lambda self: 2})'),
    "mro instance dict shadow": ("class C:\n    def f(self):\n        return 1\nc = C()\nc.f = c.f\ndef probe(): return c.f()\n", "C.f", "return 1", "return 2"),
    "vectorcall list.sort key": ("def key(x):\n    return x\ndef probe(): return sorted([1, 3, 2], key=key)\n", "key", "return x", "return -x"),
    "__reduce__ pickled": ("import pickle\nclass C:\n    def __reduce__(self):\n        return int, (1,)\ndef probe(): return pickle.loads(pickle.dumps(C()))\n", "C.__reduce__", "return int, (1,)", "return int, (2,)"),
    "conditional lambda": ("f = (lambda: 1) if True else (lambda: 2)\ndef probe(): return f()\n", "f", "f = (lambda: 1) if True else (lambda: 2)", "f = (lambda: 5) if True else (lambda: 2)"),
    "name mangled global": ("__g = 1\n_C__g = 5\nclass C:\n    def f(self):\n        return 0\ndef probe(): return C().f()\n", "C.f", "return 0", "return __g"),
    "mangled undefined": ("__g = 1\nclass C:\n    def f(self):\n        return 0\ndef probe(): return C().f()\n", "C.f", "return 0", "return __g"),
    "cells order": ("def mk(a, b, c):\n    def f():\n        return a, b, c\n    return f\nf = mk(1, 2, 3)\ndef probe(): return f()\n", "f", "return a, b, c", "return c, b, a"),
    "cells fewer": ("def mk(a, b, c):\n    def f():\n        return a, b, c\n    return f\nf = mk(1, 2, 3)\ndef probe(): return f()\n", "f", "return a, b, c", "return c"),
    "cells fewer generator": ("def mk(a, b):\n    def f():\n        yield a\n        yield b\n    return f\nf = mk(1, 2)\ndef probe(): return list(f())\n", "f", "yield a", "yield 7"),
    "class cell dropped generator": ("class B:\n    def g(self): return 1\nclass C(B):\n    def f(self):\n        yield super().g()\ndef probe(): return list(C().f())\n", "C.f", "yield super().g()", "yield 7"),
    "class cell dropped async": ("import asyncio\nclass B:\n    def g(self): return 1\nclass C(B):\n    async def f(self):\n        return super().g()\ndef probe(): return asyncio.run(C().f())\n", "C.f", "return super().g()", "return 7"),
    "wraps annotations": ("import functools\ndef d(fn):\n    @functools.wraps(fn)\n    def w(x): return fn(x)\n    return w\n@d\ndef f(x: int) -> int:\n    return x\ndef probe(): return f.__annotations__, f(1)\n", "f", "def f(x: int) -> int:", "def f(x: str) -> int:"),
    "wraps signature default": ("import functools, inspect\ndef d(fn):\n    @functools.wraps(fn)\n    def w(*a): return fn(*a)\n    return w\n@d\ndef f(x=1):\n    return x\ndef probe(): return str(inspect.signature(f)), f()\n", "f", "def f(x=1):", "def f(x=2):"),
    "lru annotations": ("import functools\n@functools.lru_cache\ndef f(x: int) -> int:\n    return x\ndef probe(): return f.__annotations__, f(1)\n", "f", "def f(x: int) -> int:", "def f(x: str) -> int:"),
    "get_type_hints": ("import functools, typing\nclass C:\n    @classmethod\n    def f(cls, x: int) -> int:\n        return x\ndef probe(): return typing.get_type_hints(C.f), C.f(1)\n", "C.f", "def f(cls, x: int) -> int:", "def f(cls, x: str) -> int:"),
    "classmethod annotations": ('class C:\n    @classmethod\n    def f(cls, x: int) -> int:\n        return x\ndef probe(): return vars(C)["f"].__annotations__, C.f(1)\n', "C.f", "def f(cls, x: int) -> int:", "def f(cls, x: str) -> int:"),
    "property reads": ("class C:\n    @property\n    def p(self) -> int:\n        return 1\ndef probe(): return C.p.fget.__annotations__, C().p\n", "C.p", "def p(self) -> int:", "def p(self) -> str:"),
}  # fmt: skip
#: Cases whose syntax is newer than Python 3.11.
NEWER = {
    (3, 12): {
        "type params",
        "type params body",
        "type params in class super",
        "type param used in body",
        "type param newly used",
        "type param added",
        "same quotes fstring",
        "fstring multiline nested",
        "comprehension inlined",
        "type alias lazily",
        "type param bound",
    },
    (3, 13): {"default type param", "static attributes"},
}
#: What is refused, with words of the message.
REFUSED = {
    LIVE: {
        "other lambda of statement": "the edit changes more than the lambda",
        "lambda in call arg changed": "the edit changes more than the lambda",
        "enum __new__": "__new__ of an enumeration makes its members when the class is created",
        "enum __init__": "__init__ of an enumeration makes its members when the class is created",
        "enum _generate_next_value_": "_generate_next_value_ of an enumeration makes its members when the class",
        "dataclass field factory lambda": "is a field of the dataclass C",
        "dataclass default": "it is the default of a field",
        "dataclass body edit": "stands in no function",
        "deleted name, by f": "has no f",
        "nonlocal added in closure": "newly uses n of the enclosing scope",
        "A.f of made class": "f runs what is defined as mk.<locals>.K.f (line 3)",
        "tuple assign lambda": "several lambdas stand in one line",
        "conditional lambda": "several lambdas stand in one line",
        "dict of lambdas": "is no plain literal",
        "renamed class private": "class C has no __p",
        "class rebinding edit of base": "only inherits f from another class of its own name",
        "method added later": "m runs what is defined as m (line 2)",
        "code.replace copy": "does not come from the text",
        "type param added": "the edit changes the type parameters",
        "type param bound": "the edit changes the type parameters",
        "type params": "the edit changes the type parameters",
        "type param newly used": "newly uses T of the enclosing scope",
        "fget matched only in setter": "does not match",
        "total_ordering generated": "or use wrap: here",
        "exec string": "has no source: it was generated",
        "decorator calls immediately": "f is a int, not a function",
        "class decorator adds method": "runs what is defined as d.<locals>.extra",
        "__call__ of metaclass-made": "is the lambda of line 1, which has no name",
        "mangled undefined": "uses _C__g",
    },
    AT_LOAD: {
        "nonlocal added in closure": "does not match",
        "A.f of made class": "does not define f",
        "conditional expr alias": "does not match",
        "method added later": "does not define m",
        "fget matched only in setter": "does not match",
        "total_ordering generated": "generated by @functools.total_ordering",
        "exec string": "does not match",
        "class decorator adds method": "does not define extra",
        "__call__ of metaclass-made": "does not define f",
        "mangled undefined": "uses _C__g",
    },
}
#: Where the edit is of a statement that runs while the module loads: `restore` says that it cannot undo it.
NOT_RESTORED = {
    "enum __new__",
    "enum __init__",
    "enum _generate_next_value_",
    "property lambda fget",
    "property lambdas fset",
    "dataclass field factory lambda",
    "dataclass default",
    "dataclass body edit",
    "lambda attr in class",
    "tuple assign lambda",
    "tuple assign lambda g",
    "dict of lambdas",
    "walrus def",
    "lambda with default walrus",
    "conditional lambda",
    "one line class",
    "cells fewer",
    "cells fewer generator",
    "decorator calls immediately",
    "type params",
    "type param added",
    "type param bound",
    "code.replace copy",
    "lambda body multi",
    "lambda in call",
    "lambda in call arg changed",
    "other lambda of statement",
}
#: Python 3.13 no longer lets a function become one of another kind.
OTHER_KIND = {"yield added", "yield removed", "async added"}
if sys.version_info >= (3, 13):
    NOT_RESTORED |= OTHER_KIND
    REFUSED[LIVE] |= dict.fromkeys(OTHER_KIND, "which this version of Python does not allow")


def _answer(module: ModuleType) -> str:
    """The probe's answer, or its exception, without what differs from one import to the next."""
    try:
        answer = repr(module.probe())
    except Exception as error:  # noqa: BLE001  # compared
        answer = repr(error)
    return re.sub(r"0x[0-9a-f]+", "0x", answer)


def _by_hand(text: str) -> str:
    """The answer of a module `case` of that text, as if it had just been imported."""
    module = ModuleType("case")
    sys.modules["case"] = module
    try:
        exec(compile(text, "case.py", "exec", dont_inherit=True), vars(module))
        return _answer(module)
    finally:
        del sys.modules["case"]


@pytest.mark.parametrize("name", CASES)
def test_an_edit(world: World, name: str) -> None:
    if name in {case for version, cases in NEWER.items() if sys.version_info < version for case in cases}:
        pytest.skip("the syntax is of a newer Python")
    text, target, old, new = CASES[name]
    begin = text.index(old)
    before = text[text.rfind("\n", 0, begin) + 1 : begin]
    indent = "" if before.strip() else before
    fixed, edited = _by_hand(text), _by_hand(text[:begin] + new + text[begin + len(old) :])
    world.write({"case.py": text.encode()})
    assert fixed != edited
    made = toggle(patch(f"case.{target}", indent + old, indent + new))
    if name in REFUSED[world.moment]:
        with pytest.raises(prtoggle.PrToggleError, match=re.escape(REFUSED[world.moment][name])):
            world.revert(made)
        # An edit that turns out while the module is loaded not to be in force stays armed.
        assert prtoggle.active() or _answer(world.load()) == fixed
        return

    module, handle = world.revert(made)
    during = _answer(module)
    if world.moment == AT_LOAD and name in NOT_RESTORED:
        with pytest.raises(RestoreError):
            handle.restore()
        after = edited
    else:
        handle.restore()
        after = fixed

    assert (during, _answer(module)) == (edited, after)
