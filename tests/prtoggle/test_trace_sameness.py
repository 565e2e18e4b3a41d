"""Two outcomes are the same when a program could not tell them apart, and only then."""

from __future__ import annotations

import collections
import contextlib
from typing import Any

import pytest

from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.traced_modules import traced

__all__ = ["modules"]

#: Classes and names for the expressions below.
CLASSES = """
import abc, collections, dataclasses, datetime, functools, io, itertools, pathlib, random, types

try:
    import numpy as np
except ImportError:
    np = None


class Token(str):
    pass


EMPTY, END = object(), object()


class Mark:
    NONE, ALL = object(), object()


class Number(int):
    pass


class Share(float):
    pass


class Raw(bytes):
    pass


class Day(datetime.datetime):
    pass


class Buffer(io.StringIO):
    pass


class Home(pathlib.PurePosixPath):
    pass


class Held(Exception):
    def __init__(self, code):
        self.code = code

    def __str__(self):
        return "held"


class Told(Exception):
    def __str__(self):
        return TEXT


TEXT = "told"


def marked(value):
    value.mark = 3
    return value


def drawn(count):
    source = random.Random(1)
    for _ in range(count):
        source.random()
    return source


def local(base=0, method=1):
    class Made:
        limit = base

        def get(self):
            return method

    return Made()


def pair(name, value):
    return collections.namedtuple(name, "a")(value)


def data(default):
    @dataclasses.dataclass
    class Made(abc.ABC):
        a: int = default

    return Made()


def frozen_array(flag):
    made = np.zeros(2)
    made.flags.writeable = flag
    return made


def record(number):
    return np.array([(number, 1)], dtype=[("a", "f8"), ("b", "i4")])


def raises(error, cause=None):
    raise error from cause


def raises_within(first, hidden=False):
    try:
        raise first
    except KeyError:
        if hidden:
            raise ValueError(1) from None
        raise ValueError(1)


def named(name):
    def inner():
        pass

    inner.__name__ = name
    return inner


def moved(iterator, steps):
    for _ in range(steps):
        next(iterator)
    return iterator


def looked_up(path):
    p = pathlib.PurePosixPath(path)
    hash(p)
    str(p)
    return p
"""

DIFFERENT = [
    ("marked(Token('a'))", "marked(Token('b'))"),
    ("marked(Number(4))", "marked(Number(8))"),
    ("marked(Share(4))", "marked(Share(8))"),
    ("marked(Raw(b'4'))", "marked(Raw(b'8'))"),
    ("marked(Day(2001, 1, 1))", "marked(Day(2002, 1, 1))"),
    ("marked(Buffer('a'))", "marked(Buffer('b'))"),
    ("marked(functools.partial(max, 3))", "marked(functools.partial(max, 4))"),
    ("drawn(1)", "drawn(2)"),
    ("{1: 'a'}", "{True: 'a'}"),
    ("{1.0: 'a'}", "{1: 'a'}"),
    ("{(1, 2): 'a'}", "{(True, 2): 'a'}"),
    ("{1}", "{True}"),
    ("{(1,)}", "{(1.0,)}"),
    ("frozenset({frozenset({1})})", "frozenset({frozenset({True})})"),
    ("open('/nonexistent/a')", "open('/nonexistent/b')"),
    ("raises(ImportError('x', name='a'))", "raises(ImportError('x', name='b'))"),
    ("raises(KeyError(1), ValueError('a'))", "raises(KeyError(1), TypeError('b'))"),
    ("raises(KeyError(1), ValueError('a'))", "raises(KeyError(1))"),
    ("raises(Held(1))", "raises(Held(2))"),
    ("raises(SystemExit(3))", "raises(SystemExit(4))"),
    ("raises(ExceptionGroup('g', [KeyError(1)]))", "raises(ExceptionGroup('g', [KeyError(2)]))"),
    ("collections.deque([1], maxlen=3)", "collections.deque([1], maxlen=4)"),
    ("collections.defaultdict(int)", "collections.defaultdict(list)"),
    ("complex(1, float('nan'))", "complex(2, float('nan'))"),
    ("range(0, 4, 2)", "range(0, 3, 2)"),
    ("[range(0, 4, 2)]", "[range(0, 3, 2)]"),
    ("[slice(1)]", "[slice(True)]"),
    ("np.array([1], dtype=object)", "np.array([True], dtype=object)"),
    ("frozen_array(True)", "frozen_array(False)"),
    ("record(1.0)", "record(2.0)"),
    ("EMPTY", "END"),
    ("EMPTY", "object()"),
    ("[Mark.NONE]", "[Mark.ALL]"),
    ("lambda a: a", "lambda *, a: a"),
    ("lambda a: a", "lambda a, /: a"),
    ("named('a')", "named('b')"),
    ("{'a': 1, 'b': 2}.keys()", "{'b': 2, 'a': 1}.keys()"),
    ("{'a': 1, 'b': 2}.items()", "{'b': 2, 'a': 1}.items()"),
    ("{'a': 1}.items()", "{'a': 1.0}.items()"),
    ("{'a': [1]}.values()", "{'a': [True]}.values()"),
    ("collections.OrderedDict(a=1, b=2).keys()", "collections.OrderedDict(b=2, a=1).keys()"),
    ("types.MappingProxyType({'a': 1})", "types.MappingProxyType({'a': True})"),
    ("types.MappingProxyType({'a': 1, 'b': 2})", "types.MappingProxyType({'b': 2, 'a': 1})"),
    ("raises_within(KeyError('a'))", "raises_within(KeyError('b'))"),
    ("raises_within(KeyError('a'))", "raises(ValueError(1))"),
    ("raises_within(KeyError('a'), True)", "raises_within(KeyError('a'), False)"),
    ("np.ones((2, 3))", "np.ones((2, 3), order='F')"),
    ("np.ones((2, 3))", "np.ones((3, 2)).T"),
    ("itertools.count(1)", "itertools.count(2)"),
    ("itertools.cycle([1, 2])", "itertools.cycle([2, 1])"),
    ("x[:1]", "x[:1].copy()"),
    ("x[:1].copy()", "x[:1]"),
    ("random.random() * 0", "random.random() * random.random() * 0"),
    ("pair('P', 1)", "pair('P', 2)"),
    ("pair('P', 1)", "pair('Q', 1)"),
    ("local(1)", "local(2)"),
    ("local(1, 2)", "local(1, 3)"),
    ("data(1)", "data(2)"),
    ("property(len)", "property(max)"),
    ("looked_up('/a')", "looked_up('/b')"),
    ("marked(Home('/a'))", "marked(Home('/b'))"),
]

SAME = [
    ("marked(Token('a'))", "marked(Token('aa'[:1]))"),
    ("marked(Day(2001, 1, 1))", "marked(Day(2001, 1, 1, 0))"),
    ("marked(functools.partial(max, 3))", "marked(functools.partial(max, 2 + 1))"),
    ("drawn(2)", "drawn(1 + 1)"),
    ("{1: 'a', (2, True): 'b'}", "{1: 'a', (1 + 1, True): 'b'}"),
    ("open('/nonexistent/a')", "open('/nonexistent' + '/a')"),
    ("raises(KeyError(1), ValueError('a'))", "raises(KeyError(1), ValueError('' + 'a'))"),
    ("raises(Held([1]))", "raises(Held([1]))"),
    ("object().missing", "object() .missing"),
    ("complex(1, float('nan'))", "complex(1, -float('nan'))"),
    ("np.array([1, None], dtype=object)", "np.array([1, None, 2], dtype=object)[:2].copy()"),
    ("record(float('nan'))", "record(-float('nan'))"),
    ("x[:1]", "x[0:1]"),
    ("{'a': 1}.keys()", "{'a': 2}.keys()"),
    ("types.MappingProxyType({'a': 1})", "types.MappingProxyType({'a': 2 - 1})"),
    ("raises_within(KeyError('a'))", "raises_within(KeyError('' + 'a'))"),
    ("np.ones((2, 3)).T", "np.ones((2, 3)).transpose()"),
    ("np.ones((1, 3))", "np.ones((1, 3), order='F')"),
    ("x[::2]", "x[0::2]"),
    ("np.broadcast_to(x, (3, 3))", "np.broadcast_to(x, (3, 3))[:]"),
    ("itertools.cycle([1, 2])", "moved(itertools.cycle([1, 2]), 2)"),
    ("x[1:][1:]", "x[2:]"),
    ("object()", "object ()"),
    ("EMPTY", "(EMPTY)"),
    ("lambda a: a", "lambda a : a"),
    ("x[1:].copy()[:1]", "x[1:2].copy()"),
    ("pair('P', 1)", "pair('P', 2 - 1)"),
    ("local(1)", "local(2 - 1)"),
    ("data(1)", "data(2 - 1)"),
    ("property(len)", "property((len))"),
    ("looked_up('/a')", "pathlib.PurePosixPath('/a')"),
    ("marked(Home('/a'))", "marked(Home('/') / 'a') if 1 else 0"),
]


#: What of the expressions needs numpy.
NUMPY = ("np.", "x[", "frozen_array", "record")


def outcome(modules: Modules, fixed: str, reverted: str) -> tuple[Any, Any]:
    """The account of one call with an array, and its counts."""
    text = f"{CLASSES}\n\ndef f(x):\n    seen = 0\n    return {fixed}\n"
    module, account = traced(modules, text, (f"seen = 0\nreturn {fixed}", f"seen = 1\nreturn {reverted}"))
    if module.np is None and any(word in fixed for word in NUMPY):
        pytest.skip("numpy is not installed")
    with contextlib.suppress(Exception, SystemExit):
        module.f(module.np and module.np.arange(3))
    return account.outcome(), account


@pytest.mark.parametrize(("fixed", "reverted"), DIFFERENT, ids=[" | ".join(pair) for pair in DIFFERENT])
def test_what_a_program_could_tell_apart_differs(modules: Modules, fixed: str, reverted: str) -> None:
    found, account = outcome(modules, fixed, reverted)

    assert found == (0, 1, 0), account.counts()
    (place,) = account.places
    assert place[1] != place[2]


@pytest.mark.parametrize(("fixed", "reverted"), SAME, ids=[" | ".join(pair) for pair in SAME])
def test_what_no_program_could_tell_apart_is_the_same(modules: Modules, fixed: str, reverted: str) -> None:
    found, account = outcome(modules, fixed, reverted)

    assert found == (1, 0, 0), (account.places, account.counts())


def test_the_order_of_keys_is_told_with_their_types(modules: Modules) -> None:
    _, account = outcome(modules, "{1: 'a'}", "{True: 'a'}")

    assert account.places == [("list(result)", "[1]", "[True]")]


def test_a_path_that_one_variant_alone_made_a_text_of_is_the_same(modules: Modules) -> None:
    import pathlib

    module, account = traced(modules, "def f(p):\n    str(p)\n    return 1\n", ("str(p)", "hash(p)"))

    module.f(pathlib.PurePosixPath("/a") / "b")

    assert account.outcome() == (1, 0, 0), account.places


def test_views_of_one_array_that_are_handed_in_are_no_difference(modules: Modules) -> None:
    np = pytest.importorskip("numpy")
    text = "def f(a, b):\n    a[0] = 1\n    return b[:1]\n"
    module, account = traced(modules, text, ("a[0] = 1", "a[0] = 1.0"))
    whole = np.zeros(4)

    module.f(whole, whole[1:])

    assert account.outcome() == (1, 0, 0), account.places


def test_containers_with_members_are_compared_by_both(modules: Modules) -> None:
    text = "import collections\n\nclass Q(collections.deque):\n    pass\n\n\ndef f(q):\n    q.append(1)\n"
    module, account = traced(modules, text, ("q.append(1)", "q.append(2)"))
    queue: Any = module.Q()
    queue.mark = 1

    module.f(queue)

    assert list(queue) == [1]
    assert isinstance(queue, collections.deque)
    assert account.places == [("q[0]", "1", "2")]


def test_a_class_that_the_function_itself_makes_is_one_with_that_of_the_other_run(modules: Modules) -> None:
    text = (
        "import collections\n\nSEEN = []\n\n\ndef f():\n    n = 1\n    SEEN.append(n)\n"
        "    return collections.namedtuple('P', 'a')(n)\n"
    )
    module, account = traced(modules, text, ("n = 1", "n = 2 - 1"))

    assert module.f() == (1,)

    assert account.outcome() == (1, 0, 0), account.places


@pytest.mark.parametrize("hidden", [True, False])
def test_an_exception_that_is_handed_in_keeps_what_it_came_from(modules: Modules, hidden: bool) -> None:
    text = "def f(error):\n    x = 1\n    raise error\n"
    module, account = traced(modules, text, ("x = 1", "x = 2"))
    error = ValueError("outer")
    error.__context__ = KeyError("context")
    error.__cause__ = KeyError("cause")
    error.__suppress_context__ = hidden

    with pytest.raises(ValueError, match="outer"):
        module.f(error)

    assert account.outcome() == (1, 0, 0), account.places
