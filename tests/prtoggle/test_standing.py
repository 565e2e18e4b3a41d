"""What a fix added stays only where nothing finds it without needing it, and where it does nothing."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from prtoggle.edits import apply_splices, merge, plan_patch
from prtoggle.forge.draft import make_draft
from prtoggle.forge.fix import Fix, FixedFile, fix_of_commit
from prtoggle.forge.git_history import Repository
from prtoggle.source.source_text import read_source
from tests.prtoggle.fix_history import History

F = "def f(x):\n    return x\n"
FIXED = "def f(x):\n    return x + 1\n"


@pytest.fixture
def drafted(tmp_path):
    """The draft of a fix of pk/m.py in a repository, and the module's text without the fix."""

    def drafted(before: str, after: str, others: dict[str, str] | None = None):
        history = History(tmp_path)
        for name, text in {"pk/__init__.py": "", "pk/m.py": after, **(others or {})}.items():
            history.write(name, dedent(text))
        history.commit("As it is today")
        made = make_draft(Fix((FixedFile("pk/m.py", "pk/m.py", before, after),), (), ()), tmp_path, {})
        source = read_source(tmp_path / "pk/m.py")
        tree = ast.parse(source.text)
        splices = [
            part for item in made.patches for part in plan_patch(source, tree, item.target, item.patch, "x")
        ]
        assert source.text == after
        return made, apply_splices(after, merge(splices))

    return drafted


def same_program(one: str, other: str) -> bool:
    return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))


FUNCTION = "def fast():\n    return 1\n"
FOUND = {
    "imported where that may fail": "try:\n    from pk.m import fast\nexcept ImportError:\n    fast = None\n",
    "imported where anything may fail": "try:\n    from .m import fast\nexcept:\n    fast = None\n",
    "imported where failure is suppressed": "from contextlib import suppress\nfast = None\nwith suppress(ImportError):\n    from pk.m import fast\n",
    "read where that may fail": "from pk import m\ntry:\n    g = m.fast\nexcept (KeyError, AttributeError):\n    g = None\n",
    "from a module by its name": "import importlib\ndef g(n):\n    return getattr(importlib.import_module('pk.m'), n, None)\n",
    "from a module by another's name": "import importlib\ndef g(mod, n):\n    return getattr(importlib.import_module(mod), n, None)\n",
    "through a star": "def fast():\n    return 0\nfrom .m import *\n",
    "through a star in brackets": "from pk.m import (\n    *\n)\n",
    "by a dotted path": "FAST = 'pk.m:fast'\n",
    "by a list of all names": "from pk import m\nALL = dir(m)\n",
    "in a text that is run": "def g(text):\n    from pk import m\n    return eval(text)\n",
    "by a module that is handed on": "from pk import m\nfrom pk.other import scan\nscan(m)\n",
}


@pytest.mark.parametrize("lookup", FOUND)
@pytest.mark.parametrize("place", ["pk/o.py", "app/o.py", "run.py"])
def test_what_the_repository_finds_without_needing_it_goes_out(drafted, lookup, place):
    others = {place: FOUND[lookup]}
    if "other" in FOUND[lookup]:
        others["pk/other.py"] = "def scan(module):\n    return list(vars(module))\n"
    made, text = drafted(F, FUNCTION + FIXED, others)
    assert made.possible, made.left_out
    assert (made.stays, made.leaves, made.at_load_only) == ([], (), True)
    assert same_program(text, F)


UNFOUND = {
    "nothing": "",
    "another package's star": "from pk.n import *\n",
    "a look-up by spelling elsewhere": "def g(x, n):\n    return getattr(x, n)\n",
    "a use that needs it": "from pk.m import fast\nfast()\n",
    "a try that catches something else": "from pk import m\ntry:\n    m.f(1)\nexcept KeyError:\n    pass\n",
    "another name in a try": "try:\n    from pk.m import f\nexcept ImportError:\n    f = None\n",
    "a test": "",
}


@pytest.mark.parametrize("text", UNFOUND)
def test_what_nothing_finds_stays(drafted, text):
    others = {"pk/o.py": UNFOUND[text]}
    if text == "a test":
        others = {"tests/test_m.py": FOUND["read where that may fail"]}
    made, without = drafted(F, FUNCTION + FIXED, others)
    assert made.possible, made.left_out
    assert (made.stays, made.at_load_only) == (["pk.m.fast"], False)
    assert same_program(without, FUNCTION + F)


@pytest.mark.parametrize("star", ["from . import *\n", "from .. import *\n", "from pk import *\n"])
def test_a_package_has_its_names_taken_by_dots_too(tmp_path, star):
    history = History(tmp_path)
    place = "pk/sub/o.py" if ".." in star else "pk/o.py"
    history.write("pk/__init__.py", FUNCTION + FIXED)
    history.write("pk/sub/__init__.py", "")
    history.write(place, star)
    history.commit("As it is today")
    file = FixedFile("pk/__init__.py", "pk/__init__.py", F, FUNCTION + FIXED)
    made = make_draft(Fix((file,), (), ()), tmp_path, {})
    assert (made.possible, made.stays, made.at_load_only) == (True, [], True)


CLASS = "class A:\n    a = 1\n"
METHOD = CLASS + "    def size(self):\n        return 1\n"
MEMBERS = {
    "a protocol": "from typing import Protocol, runtime_checkable\n@runtime_checkable\nclass P(Protocol):\n    def size(self): ...\n",
    "a generic protocol": "from typing import Protocol, TypeVar\nT = TypeVar('T')\nclass P(Protocol[T]):\n    size: int\n",
    "a try": "def fire(a):\n    try:\n        return a.size()\n    except AttributeError:\n        return 0\n",
    "a literal without a space": "def fire(a):\n    return getattr(a,'size',None)\n",
    "a literal behind a call": "def fire(a):\n    return hasattr(a(1), 'size')\n",
    "a name that is made": "def fire(a, n):\n    return getattr(a.b(1, 2), 'si' + n)\n",
    "a getter": "import operator\ndef fire(a, n):\n    return operator.attrgetter(n)(a)\n",
    "a base by another name": "from pk import m\nBase = m.A\nclass D(Base):\n    pass\n",
    "a base that was renamed": "from pk.m import A as Base\nclass D(Base):\n    pass\n",
    "a base that a call makes one of": "from pk import m\nD = type('D', (m.A,), {})\n",
    "a base": "import pk.m\nclass D(pk.m.A):\n    pass\n",
    "a base by a function": "from pk.m import A\ndef mix(base):\n    class D(base):\n        pass\n    return D\nmix(A)\n",
}


@pytest.mark.parametrize("use", MEMBERS)
@pytest.mark.parametrize("place", ["pk/o.py", "app/o.py"])
def test_a_method_that_something_finds_goes_out(drafted, use, place):
    made, text = drafted(CLASS + F, METHOD + FIXED, {place: MEMBERS[use]})
    assert made.possible, made.left_out
    assert (made.stays, made.leaves, made.at_load_only) == ([], (), True)
    assert same_program(text, CLASS + F)


PLAIN_USES = {
    "made": "from pk.m import A\na = A()\n",
    "asked for": "from pk.m import A\ndef g(x: A | None) -> A:\n    return isinstance(x, A)\n",
    "read from": "from pk.m import A\nprint(A.a)\n",
    "caught": "from pk import m\ntry:\n    print()\nexcept m.A:\n    pass\n",
    "another protocol": "from typing import Protocol\nclass P(Protocol):\n    def length(self): ...\n",
}


@pytest.mark.parametrize("use", PLAIN_USES)
def test_a_method_that_nothing_finds_stays(drafted, use):
    made, _ = drafted(CLASS + F, METHOD + FIXED, {"pk/o.py": PLAIN_USES[use]})
    assert made.possible, made.left_out
    assert (made.stays, made.at_load_only) == (["pk.m.A.size"], False)


@pytest.mark.parametrize("name", ["close", "keys", "test_it", "_repr_html_", "__len__"])
def test_a_method_that_libraries_look_for_goes_out(drafted, name):
    made, _ = drafted(CLASS + F, METHOD.replace("size", name) + FIXED)
    assert (made.possible, made.stays, made.at_load_only) == (True, [], True)


DEFAULTS = "from collections import defaultdict\nREG = defaultdict(list)\n"
OPERATORS = "class P:\n    def __rshift__(self, other):\n        LOG.append(1)\na = P()\nb = P()\n"
EFFECTS = {
    "a look-up in what may add it": (DEFAULTS, "SLOT = REG['fast']\n"),
    "an operator of a class": (OPERATORS, "chain = a >> b\n"),
    "a sign of a class": (OPERATORS, "chain = -a\n"),
    "a comparison": (OPERATORS, "same = a == b\n"),
    "a text of an object": (OPERATORS, "text = f'{a}'\n"),
    "a truth of an object": (OPERATORS, "c = 1 if a else 2\n"),
    "an attribute of an object": (OPERATORS, "c = a.next\n"),
    "an attribute of what a module has": ("from pk.n import state\n", "c = state.next\n"),
    "a list of what may run": ("GEN = iter([1])\n", "TAKEN = list(GEN)\n"),
    "what a star runs": ("GEN = iter([1])\n", "TAKEN = [*GEN]\n"),
    "a default of a lambda": (DEFAULTS, "g = lambda x=REG['fast']: x\n"),
    "a logger": ("import logging\n", "logger = logging.getLogger('pk')\n"),
    "a part of a library": ("import xml\n", "import xml.dom\n"),
    "a decorator of its own": ("def cache(g):\n    LOG.append(g)\n    return g\n", "@cache\ndef g():\n    return 1\n"),
    "a base of its own": ("class Enum:\n    def __init_subclass__(cls):\n        LOG.append(cls)\n", "class E(Enum):\n    x = 1\n"),
    "a maker of its own": ("def tuple(x=()):\n    LOG.append(x)\n", "T = tuple()\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", EFFECTS)
def test_an_expression_with_an_effect_goes_out(drafted, name):
    before, new = EFFECTS[name]
    others = {"pk/o.py": "import xml\ndef g():\n    return hasattr(xml, 'dom')\n"} if "xml" in before else {}
    made, text = drafted(before + F, before + new + FIXED, others)
    assert made.possible, made.left_out
    assert (made.stays, made.leaves, made.at_load_only) == ([], (), True)
    assert same_program(text, before + F)


INERT = {
    "a number": ("", "MB = 1 << 20\n"),
    "of numbers": ("KB = 1024\n", "MB = KB * 1024 - 1\n"),
    "a text": ("N = 3\n", "TEXT = f'{N} pages' 'x'\n"),
    "a choice": ("N = 3\n", "M = 1 if N > 2 else 0\n"),
    "a constant of a module": ("import math\n", "TAU = 2 * math.pi\n"),
    "a name of a module": ("import numpy as np\n", "KIND = np.float32\n"),
    "a member of a class": ("from pk.n import Mode\n", "MODE = Mode.FAST\n"),
    "a table": ("", "T = {'a': [1, 2], 'b': (3,)}\n"),
    "a set": ("", "S = frozenset({'a', 'b'})\n"),
    "a pattern": ("import re\n", "P = re.compile(r'x+')\n"),
    "a type": ("from typing import Optional\n", "T = Optional[int]\n"),
    "an annotated function": ("import numpy as np\n", "def g(x: np.ndarray | None = None, *rest: list[int]) -> 'A':\n    return x\n"),
    "a cached function": ("import functools\n", "@functools.lru_cache(maxsize=4)\ndef g(n):\n    return n\n"),
    "an error": ("", "class Odd(ValueError):\n    pass\n"),
    "a library": ("import os\n", "import json\n"),
    "a library's function": ("import os\n", "from os.path import join\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", INERT)
def test_an_expression_without_one_stays(drafted, name):
    before, new = INERT[name]
    made, text = drafted(before + F, before + new + FIXED)
    assert made.possible, made.left_out
    assert (len(made.stays), made.leaves, made.at_load_only) == (1, (), False)
    assert same_program(text, before + new + F)


def test_a_logger_that_later_code_needs_is_left_in_force_and_named(tmp_path):
    before, after = "import logging\n" + F, "import logging\nlogger = logging.getLogger('pk')\n" + FIXED
    today = after + "def later():\n    logger.info(1)\n"
    (tmp_path / "m.py").write_text(today)
    made = make_draft(Fix((FixedFile("m.py", "m.py", before, after),), (), ()), tmp_path, {})
    assert made.possible, made.left_out
    assert made.leaves == ("m.logger, which may have an effect",)
    assert not made.at_load_only


@pytest.fixture
def committed(tmp_path):
    """The draft of a fix of pk/m.py that is a commit, behind one with the other files."""

    def committed(before: str, after: str, others: dict[str, str], name: str = "pk/m.py"):
        history = History(tmp_path)
        for path, text in {"pk/__init__.py": "", **others, name: before}.items():
            history.write(path, text)
        history.commit("Start")
        history.write(name, after)
        history.commit("Fix it")
        repository = Repository(tmp_path)
        return make_draft(fix_of_commit(repository, repository.commit("HEAD")), tmp_path, {})

    return committed


CATCHING = "def g():\n    try:\n        return h()\n    except Exception:\n        return 0\n"


@pytest.mark.parametrize(
    ("use", "stays"),
    [
        ("from pk import m\ndef h():\n    return m.fast\n" + CATCHING, False),
        ("def h():\n    from pk.m import fast\n    return fast\n" + CATCHING, False),
        ("def h(fast):\n    return fast.fast\n" + CATCHING, True),
        ("from pk import m\ndef h():\n    return m.f\n" + CATCHING, True),
    ],
)
def test_what_older_code_got_by_without_goes_out(committed, use, stays):
    """It fails at a distance from where that is caught."""
    made = committed(F, FUNCTION + FIXED, {"pk/o.py": use})
    assert made.possible, made.left_out
    assert (made.stays, made.at_load_only) == ((["pk.m.fast"], False) if stays else ([], True))


@pytest.mark.parametrize(
    ("use", "stays"),
    [
        ("def h(a):\n    return a.size\n" + CATCHING, False),
        ("class Z:\n    size = 3\ndef h(z):\n    return z.size\n", True),
        ("def size(a):\n    return a\n", True),
    ],
)
def test_a_method_that_older_code_missed_goes_out(committed, use, stays):
    made = committed(CLASS + F, METHOD + FIXED, {"pk/o.py": use})
    assert made.possible, made.left_out
    assert (made.stays, made.at_load_only) == ((["pk.m.A.size"], False) if stays else ([], True))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def __getattr__(name):\n    return 7\n" + F, "def __getattr__(name):\n    return 7\n" + FUNCTION + FIXED),
        (
            CLASS + "    def __getattr__(self, name):\n        return 7\n" + F,
            CLASS + "    def __getattr__(self, name):\n        return 7\n    def size(self):\n        return 1\n" + FIXED,
        ),
    ],
)  # fmt: skip
def test_a_name_that_a_function_made_up_goes_out(committed, before, after):
    made = committed(before, after, {})
    assert (made.possible, made.stays, made.at_load_only) == (True, [], True)


def test_a_name_of_a_package_that_is_a_module_of_it_goes_out(committed):
    made = committed(F, FUNCTION + FIXED, {"pk/fast.py": "V = 1\n"}, "pk/__init__.py")
    assert (made.possible, made.stays, made.at_load_only) == (True, [], True)
