"""Code that was written since and needs what a fix brought: then the fix cannot go out alone."""

from __future__ import annotations

import pytest

from prtoggle.forge.draft import make_draft
from prtoggle.forge.fix import Fix, FixedFile, fix_of_commit
from prtoggle.forge.git_history import Repository
from tests.prtoggle.fix_history import History

PLAIN = "def f(x):\n    return x\n"
MORE = "def f(x, y=0):\n    return x + y\n"
METHOD = "class A:\n    def f(self, x):\n        return x\n"
MORE_METHOD = "class A:\n    def f(self, x, y=0):\n        return x + y\n"
RECORD = "@dataclass\nclass P:\n    a: int = 1\n"
ATTRIBUTE = "class A:\n    def __init__(self):\n        self.a = 1\n"
MORE_ATTRIBUTE = ATTRIBUTE + "        self.b = 2\n"
UNRELATED = "\n\nclass Z:\n    b = 0\n"


@pytest.fixture
def drafted(tmp_path):
    """The draft of a fix of pk/m.py beside a module that was written later."""

    def drafted(before: str, after: str, user: str):
        package = tmp_path / "pk"
        package.mkdir()
        for name, text in (("__init__", ""), ("m", after), ("u", user)):
            (package / f"{name}.py").write_text(text)
        made = make_draft(Fix((FixedFile("pk/m.py", "pk/m.py", before, after),), (), ()), tmp_path, {})
        assert (package / "m.py").read_text() == after
        return made

    return drafted


@pytest.mark.parametrize(
    ("before", "after", "user"),
    [
        (PLAIN, MORE, "from pk.m import f\nf(1, 2)\n"),
        (PLAIN, MORE, "from pk import m\nm.f(1, 2)\n"),
        (PLAIN, MORE, "from pk.m import f as g\ng(1, 2)\n"),
        (PLAIN, MORE, "from pk.m import f\nf(1, y=2)\n"),
        (PLAIN, MORE, "from pk.m import f\nK = {}\nf(1, **K)\n"),
        (PLAIN, MORE, "from pk.m import f\nL = [1]\nf(*L)\n"),
        (PLAIN, MORE, "from functools import partial\nfrom pk.m import f\ng = partial(f, y=2)\n"),
        ("def f(x, y):\n    return x\n", "def f(x):\n    return x\n", "from pk.m import f\nf(1)\n"),
        ("def f(x, *, z):\n    return x\n", PLAIN, "from pk.m import f\nf(1)\n"),
        (METHOD, MORE_METHOD, "def u(a):\n    return a.f(1, 2)\n"),
        (METHOD, MORE_METHOD, "from pk.m import A\nA.f(A(), 1, 2)\n"),
        (RECORD, RECORD + "    b: int = 2\n", "from pk.m import P\nP(1, 2)\n"),
    ],
)
def test_a_call_that_does_not_fit_any_more_is_in_the_way(drafted, before, after, user):
    made = drafted(before, after, user)
    assert not made.possible
    assert "u.py" in made.reason


@pytest.mark.parametrize(
    ("before", "after", "user"),
    [
        (PLAIN, MORE, "from pk.m import f\nf(1)\nf(x=2)\n"),
        (PLAIN, MORE, "def f(a, b):\n    return a\n\n\nf(1, 2)\n"),
        (PLAIN, MORE, "def u(net):\n    return net.f(1, 2, 3)\n"),
        (PLAIN, "def f(x):\n    return x + 1\n", "from pk.m import f\nK = {}\nf(**K)\n"),
        (METHOD, MORE_METHOD, "def u(a):\n    return a.f(1)\n"),
        (METHOD, MORE_METHOD, "from pk.m import A\nA.f(A(), 1)\n"),
    ],
)
def test_a_call_that_fits_both_ways_is_not(drafted, before, after, user):
    made = drafted(before, after, user)
    assert made.possible, made.reason


@pytest.mark.parametrize(
    "use",
    [
        'from pk.m import A\ngetattr(A(), "b")\n',
        "from pk.m import A\nA().b\n",
        "from pk.m import A\na = A()\na.b\n",
        "from pk.m import A\ndef u(a: A):\n    return a.b\n",
    ],
)
def test_an_attribute_is_missed_although_another_class_has_one_of_its_name(drafted, use):
    made = drafted(ATTRIBUTE + UNRELATED, MORE_ATTRIBUTE + UNRELATED, use)
    assert not made.possible
    assert "attribute b of A is used at u.py" in made.reason


def test_an_attribute_of_what_may_be_the_other_class_is_not(drafted):
    made = drafted(ATTRIBUTE + UNRELATED, MORE_ATTRIBUTE + UNRELATED, "def u(z):\n    return z.b\n")
    assert made.possible, made.reason


SUB = "from pk.m import A\nclass D(A):\n    def __init__(self):\n        super().__init__(1, 3)\n"
INIT = "class A:\n    def __init__(self, x):\n        self.x = x\n"
MORE_INIT = "class A:\n    def __init__(self, x, y=0):\n        self.x = x + y\n"
ENUM = "import enum\nclass E(enum.Enum):\n    A = 1\n"
COROUTINE = "async def f(x):\n    return x\n"
GENERATOR = "def f(x):\n    yield x\n"
MANAGER = "import contextlib\n@contextlib.contextmanager\ndef f(x):\n    yield x\n"
PROPERTY = "class A:\n    @property\n    def f(self):\n        return 1\n"
STATIC = "class A:\n    @staticmethod\n    def f(x):\n        return x\n"


@pytest.mark.parametrize(
    ("before", "after", "user", "said"),
    [
        (PLAIN, MORE, "from pk import m\nT = {'f': m.f}\nT['f'](1, 2)\n", "f is passed on at u.py:2"),
        (PLAIN, MORE, "from pk import m\ng = m.f\ng(1, 2)\n", "f is passed on at u.py:2"),
        (PLAIN, MORE, "from pk.m import f as h\ng = h\ng(1, 2)\n", "f is passed on at u.py:2"),
        (PLAIN, MORE, "import pk.m as n\nlist(map(n.f, [1], [2]))\n", "f is passed on at u.py:2"),
        (PLAIN, MORE, "from pk import m\ndef g(pool):\n    return pool.submit(m.f, 1, 2)\n", "f is passed on at u.py:3"),
        (PLAIN, MORE, "from pk import m\nimport threading\nthreading.Thread(target=m.f, args=(1, 2)).start()\n", "f is passed on"),
        (PLAIN, MORE, "from pk import m\ngetattr(m, 'f')(1, 2)\n", "f is passed on"),
        (METHOD, MORE_METHOD, "def g(a, pool):\n    pool.submit(a.f, 1, 2)\n", "A.f is passed on at u.py:2"),
        (RECORD, RECORD + "    b: int = 2\n", "import dataclasses\nfrom pk.m import P\ndataclasses.replace(P(), b=3)\n", "the call of P.__init__ at u.py:3"),
        (INIT, MORE_INIT, SUB, "the call of A.__init__ at u.py:4"),
        (INIT, MORE_INIT, "from pk.m import A\nclass D(A):\n    pass\nD(1, 3)\n", "the call of A.__init__ at u.py:4"),
        (INIT, MORE_INIT, "from pk.m import A\nclass D(A):\n    pass\nclass G(D):\n    def __init__(self):\n        super().__init__(1, 3)\n", "u.py:6"),
        (INIT, MORE_INIT, "from pk.m import A\nclass D(A):\n    def __init__(self):\n        A.__init__(self, 1, 3)\n", "u.py:4"),
        (INIT, MORE_INIT, "from pk.m import A\nclass D(A):\n    @classmethod\n    def of(cls):\n        return cls(1, 3)\n", "u.py:5"),
        (ENUM, ENUM + "    B = 2\n", "from pk.m import E\nE['B']\n", "attribute B of E is used at u.py:2"),
        (PLAIN, COROUTINE, "from pk.m import f\nasync def g():\n    return await f(1)\n", "f is used at u.py:3: it is a coroutine"),
        (PLAIN, GENERATOR, "from pk.m import f\nnext(f(1))\n", "f is used at u.py:2: it is a generator"),
        (PLAIN, MANAGER, "from pk.m import f\nwith f(1):\n    pass\n", "f is used at u.py:2: it is a context manager and a generator"),
        (PROPERTY.replace("    @property\n", ""), PROPERTY, "from pk.m import A\nA().f + 1\n", "A.f is used at u.py:2: it is a property"),
        (STATIC.replace("    @staticmethod\n", "").replace("(x)", "(self, x)"), STATIC, "from pk.m import A\nA.f(1)\n", "A.f"),
    ],
)  # fmt: skip
def test_a_use_that_is_no_call_at_its_place_is_in_the_way(drafted, before, after, user, said):
    made = drafted(before, after, user)
    assert not made.possible
    assert any(said in item.why for item in made.left_out), made.left_out


@pytest.mark.parametrize(
    ("before", "after", "user"),
    [
        (PLAIN, "def f(x):\n    return x + 1\n", "from pk import m\nT = {'f': m.f}\n"),
        (MORE, PLAIN, "from pk import m\nT = {'f': m.f}\nT['f'](1)\n"),
        (PLAIN, MORE, "def f(a, b):\n    return a\ng = f\ng(1, 2)\n"),
        (PLAIN, MORE, "from pk import n\nT = {'f': n.f}\n"),
        (METHOD, MORE_METHOD, "class Z:\n    def f(self, x, y):\n        return x\ndef g(z, pool):\n    pool.submit(z.f, 1, 2)\n"),
        (INIT, MORE_INIT, "from pk.m import A\nclass D(A):\n    def __init__(self, a, b):\n        super().__init__(a)\nD(1, 3)\n"),
        (INIT, MORE_INIT, "class A:\n    pass\nclass D(Other):\n    def __init__(self):\n        super().__init__(1, 3)\n"),
        (RECORD, RECORD + "    b: int = 2\n", "'x'.replace('a', 'b')\n"),
        (ENUM, ENUM + "    B = 2\n", "D = {}\nD['B']\n"),
        (ATTRIBUTE, MORE_ATTRIBUTE, "def u(a):\n    try:\n        return a.b\n    except AttributeError:\n        return 0\n"),
        (PLAIN, GENERATOR, "def g(x):\n    return x\n"),
    ],
)  # fmt: skip
def test_a_use_that_fits_both_ways_or_is_of_something_else_is_not(drafted, before, after, user):
    made = drafted(before, after, user)
    assert made.possible, made.left_out


@pytest.mark.parametrize("place", ["pk/u.py", "app/u.py"])
def test_a_use_that_is_older_than_the_fix_fits_the_code_without_it(tmp_path, place):
    history = History(tmp_path)
    history.write("pk/__init__.py", "")
    history.write("pk/m.py", PLAIN)
    history.write(place, "from pk import m\nT = {'f': m.f}\n")
    history.commit("Start")
    history.write("pk/m.py", MORE)
    history.commit("Take another")
    repository = Repository(tmp_path)
    fix = fix_of_commit(repository, repository.commit("HEAD"))
    assert make_draft(fix, tmp_path, {}).possible
    history.write(place, "from pk import m\nT = {'f': m.f}\nU = [\n    m.f,\n]\n")
    history.commit("Use it")
    made = make_draft(fix, tmp_path, {})
    assert not made.possible
    assert made.left_out[-1].why.startswith("f is passed on at u.py:4: it takes what it did not")


def test_an_older_line_that_means_another_function_since_is_no_older_use(tmp_path):
    history = History(tmp_path)
    for name, text in (("__init__", ""), ("m", PLAIN), ("n", MORE), ("u", "from pk.n import f\nf(1, 2)\n")):
        history.write(f"pk/{name}.py", text)
    history.commit("Start")
    history.write("pk/m.py", MORE)
    history.commit("Take another")
    repository = Repository(tmp_path)
    fix = fix_of_commit(repository, repository.commit("HEAD"))
    assert make_draft(fix, tmp_path, {}).possible
    history.write("pk/u.py", "from pk.m import f\nf(1, 2)\n")
    history.commit("Use the other")
    made = make_draft(fix, tmp_path, {})
    assert not made.possible
    assert "the call of f at u.py:2" in made.reason
