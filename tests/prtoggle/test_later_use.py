"""Code that was written since and needs what a fix brought: then the fix cannot go out alone."""

from __future__ import annotations

import pytest

from prtoggle.forge.draft import make_draft
from prtoggle.forge.fix import Fix, FixedFile

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
