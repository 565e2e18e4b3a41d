"""What a fix changed outside of plain functions is undone at load, or stays where that does no harm."""

from __future__ import annotations

import ast

import pytest

from prtoggle.edits import apply_splices, merge, plan_patch
from prtoggle.forge.draft import make_draft
from prtoggle.forge.fix import Fix, FixedFile
from prtoggle.source.source_text import read_source

NAME = "fxu_module.py"


def draft(root, before: str, after: str, today: str | None = None):
    """The draft of a fix of one file, and today's text with it taken out."""
    text = after if today is None else today
    (root / NAME).write_text(text)
    made = make_draft(Fix((FixedFile(NAME, NAME, before, after),), (), ()), root, {})
    source, tree = read_source(root / NAME), ast.parse(text)
    splices = [
        splice for item in made.patches for splice in plan_patch(source, tree, item.target, item.patch, "x")
    ]
    return made, apply_splices(text, merge(splices))


CASES = {
    "a function in a branch": (
        "if X:\n    def f():\n        return 1\nelse:\n    def f():\n        return 2\nX = 1\n",
        "if X:\n    def f():\n        return 1\nelse:\n    def f():\n        return 3\nX = 1\n",
        None,
        False,
    ),
    "a branch": ("try:\n    import a\nexcept OSError:\n    a = 1\n", "try:\n    import a\nexcept ImportError:\n    a = 1\n", None, True),
    "the head of a class": ("class A:\n    x = 1\n", "class A(dict, metaclass=type):\n    x = 1\n", None, True),
    "a field": ("class A:\n    x: int = 1\n", "class A:\n    x: int = 1\n    y: int = 2\n", None, True),
    "a replaced import": ("from a import x\nprint(x)\n", "from b import x\nprint(x)\n", None, True),
    "a property's setter": (
        "class A:\n    @property\n    def x(self):\n        return 1\n\n    @x.setter\n    def x(self, value):\n        self.y = value\n",
        "class A:\n    @property\n    def x(self):\n        return 1\n\n    @x.setter\n    def x(self, value):\n        self.y = value + 1\n",
        None,
        False,
    ),
    "a statement": ("import a\na.start()\n", "import a\na.start(1)\n", None, True),
    "a registered function": (
        "import a\n",
        "import a\n\n\n@a.register\ndef f():\n    return 1\n",
        None,
        True,
    ),
    "a nested function": (
        "def f():\n    def g():\n        return 1\n    return g\n",
        "def f():\n    def g():\n        return 2\n    return g\n",
        None,
        False,
    ),
    "an async function": ("async def f():\n    return 1\n", "async def f():\n    await f()\n    return 1\n", None, False),
    "a later neighbour": (
        "A = 1\nB = 1\n",
        "A = 2\nB = 1\n",
        "Z = 0\nA = 2\nB = 5\n",
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_goes_out(tmp_path, name):
    before, after, today, at_load_only = CASES[name]
    made, text = draft(tmp_path, before, after, today)
    wanted = before if today is None else today.replace("A = 2", "A = 1")
    assert made.possible, made.left_out
    assert ast.unparse(ast.parse(text)) == ast.unparse(ast.parse(wanted))
    assert made.at_load_only is at_load_only


STAYS = {
    "a new name of an import": ("from a import x\ndef f():\n    return x\n", "from a import x, y\ndef f():\n    return y(x)\n", "from a import x, y"),
    "a new import": ("def f():\n    return 1\n", "import os\ndef f():\n    return os.getpid()\n", "import os"),
    "a new constant": ("def f():\n    return 1\n", "ONE = 2\ndef f():\n    return ONE\n", "ONE"),
    "a new class": ("def f():\n    return 1\n", "class A:\n    pass\ndef f():\n    return A()\n", "A"),
    "a new method": ("class A:\n    def f(self):\n        return 1\n", "class A:\n    def g(self):\n        return 1\n    def f(self):\n        return self.g()\n", "A.g"),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_it_stays_without_harm(tmp_path, name):
    before, after, stays = STAYS[name]
    made, text = draft(tmp_path, before, after)
    assert made.possible, made.left_out
    assert made.stays == [f"fxu_module.{stays}"]
    assert not made.used_still
    assert not made.at_load_only
    functions = [
        {
            node.name: ast.dump(node)
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef)
        }
        for source in (before, text)
    ]
    assert functions[0].items() <= functions[1].items()


# With a change of f beside each: the revert has to be what the module was before, statement by statement.
EFFECTS = {
    "fields in another order": ("@d\nclass P:\n    a: int = 1\n    b: int = 2\n", "@d\nclass P:\n    b: int = 2\n    a: int = 1\n"),
    "a call in another place": ("L = []\nX = 1\nL.append(X)\nX = 2\n", "L = []\nX = 1\nX = 2\nL.append(X)\n"),
    "assignments in another order": ("A = g(1)\nB = g(2)\n", "B = g(2)\nA = g(1)\n"),
    "an assignment repeated": ("N = 1\nN = N + 1\n", "N = 1\nN = N + 1\nN = N + 10\n"),
    "an assignment repeated before": ("N = 1\nN = N + 1\n", "N = 1\nN = N + 10\nN = N + 1\n"),
    "a constant over an import": ("from a import LIM\n", "from a import LIM\nLIM = 5\n"),
    "a function over an import": ("from a import g\n", "from a import g\ndef g():\n    return 5\n"),
    "an import over a function": ("def g():\n    return 5\n", "def g():\n    return 5\nfrom math import floor as g\n"),
    "a function over a builtin": ("", "def len(x):\n    return 9\n"),
    "an import of a module": ("import a\n", "import a\nimport a.plug\n"),
    "everything of a module": ("from math import pi\n", "from math import pi\nfrom math import *\n"),
    "a value that a call makes": ("from a import add\n", "from a import add\nH = add(1)\n"),
    "a default that a call makes": ("from a import add\n", "from a import add\ndef h(x=add(1)):\n    return x\n"),
    "a future": ("import a\n", "from __future__ import annotations\nimport a\n"),
    "a module's __getattr__": ("import a\n", "import a\ndef __getattr__(name):\n    return 7\n"),
    "__all__": ("import a\n", "import a\n__all__ = ['f']\n"),
    "a subclass": ("import a\n", "import a\nclass Q(a.P):\n    pass\n"),
    "a method of a mixin": ("class Mix:\n    pass\nclass C(Mix, Base):\n    pass\n", "class Mix:\n    def m(self):\n        return 2\nclass C(Mix, Base):\n    pass\n"),
    "a method found by its name": (
        "class V:\n    def visit(self, name):\n        return getattr(self, 'visit_' + name)\n",
        "class V:\n    def visit(self, name):\n        return getattr(self, 'visit_' + name)\n    def visit_a(self):\n        return 1\n",
    ),
    "a method that its class asks for": (
        "class V:\n    def end(self):\n        return hasattr(self, 'close')\n",
        "class V:\n    def end(self):\n        return hasattr(self, 'close')\n    def close(self):\n        return 1\n",
    ),
    "a name in quotes": ("def has(m):\n    return hasattr(m, 'FAST')\n", "def has(m):\n    return hasattr(m, 'FAST')\nFAST = 1\n"),
    "a function found by its name": ("def get(n):\n    return globals()[n]\n", "def get(n):\n    return globals()[n]\ndef a():\n    return 1\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", EFFECTS)
def test_what_may_have_an_effect_goes_out(tmp_path, name):
    before, after = (
        f"{text}def f(x):\n    return x{change}\n"
        for text, change in zip(EFFECTS[name], ("", " + 1"), strict=True)
    )
    made, text = draft(tmp_path, before, after)
    assert made.possible, made.left_out
    assert (made.stays, made.leaves, made.at_load_only) == ([], (), True)
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(before))


LOOKUPS = {
    "asked for": "import fxu_module as m\ndef has():\n    return hasattr(m, 'Fast')\n",
    "with a default": 'import fxu_module as m\nFAST = getattr(m, "Fast", None)\n',
    "all members": "import inspect, fxu_module\nALL = inspect.getmembers(fxu_module, inspect.isclass)\n",
    "the namespace": "import fxu_module\nALL = [name for name in vars(fxu_module)]\n",
}


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_what_another_module_finds_by_its_spelling_goes_out(tmp_path, lookup):
    """A registry of models asks each module for its `EntryClass`; nothing spells the name as code."""
    (tmp_path / "other.py").write_text(LOOKUPS[lookup])
    before, after = "def f(x):\n    return x\n", "class Fast:\n    x = 1\ndef f(x):\n    return x + 1\n"
    made, text = draft(tmp_path, before, after)

    assert made.possible, made.left_out
    assert (made.stays, made.leaves, made.at_load_only) == ([], (), True)
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(before))


def test_an_order_that_cannot_matter_leaves_the_rest_as_it_is(tmp_path):
    before = "import os\nimport sys\ndef g():\n    return 1\ndef f():\n    return 1\n"
    made, _ = draft(
        tmp_path, before, "import sys\nimport os\ndef f():\n    return 2\ndef g():\n    return 1\n"
    )
    assert [(item.target.qualname, item.at_load_only) for item in made.patches] == [("f", False)]
    assert not made.leaves


def test_an_import_that_later_code_needs_is_left_in_force_and_named(tmp_path):
    before, after = "def f():\n    return 1\n", "import other\ndef f():\n    return other.x\n"
    made, text = draft(tmp_path, before, after, after + "def later():\n    return other.y\n")
    assert made.possible
    assert made.leaves == ("fxu_module.import other, which may run a module",)
    assert not made.stays
    assert "import other" in text
    assert "return other.x" not in text


REFUSED = {
    "a keyword that others pass": (
        "def f(a):\n    return a\n", "def f(a, *, b=1):\n    return a + b\n",
        "def f(a, *, b=1):\n    return a + b\ndef g():\n    return f(1, b=2)\n", "parameter b of f is used",
    ),
    "a name that is gone": (
        "def f(a):\n    return old(a)\ndef old(a):\n    return a\n", "def f(a):\n    return new(a)\ndef old(a):\n    return a\ndef new(a):\n    return a\n",
        "def f(a):\n    return new(a)\ndef new(a):\n    return a\n", "uses old, which neither it nor the builtins define",
    ),
    "a fix that was reworked": (
        "def f(a):\n    a = 1\n    b = 2\n    c = 3\n    return a\n", "def f(a):\n    a = 10\n    b = 2\n    c = 30\n    return a\n",
        "def f(a):\n    a = 1\n    b = 2\n    c = 30\n    return a\n", "part of the fix is not in today's code any more",
    ),
    "a fix that was indented anew": (
        "def f(x):\n\ta = x\n\treturn a\n", "def f(x):\n\tif x:\n\t\ta = x + 1\n\telse:\n\t\ta = 0\n\treturn a\n",
        "def f(x):\n  if x:\n    a = x + 1\n  else:\n    a = 0\n  b = 2\n  return a + b\n", "was changed later on the fix's own lines",
    ),
    "a fix that is out": ("def f():\n    return 1\n", "def f():\n    return 2\n", "def f():\n    return 1\n", "is without the fix already"),
    "a function that is gone": ("def f():\n    return 1\n", "def f():\n    return 2\n", "X = 1\n", "nothing in the package has its body or its name"),
    "a function that is another in the end": (
        "def f():\n    return 1\n", "def f():\n    return 2\n", "def f():\n    return 2\ndef f():\n    return 3\n", "is not in force",
    ),
    "nothing but a new function": (
        "def f():\n    return 1\n", "def f():\n    return 1\ndef g():\n    return 1\n", None, "the fix only adds what stays: fxu_module.g",
    ),
    "a comment": ("def f():\n    return 1\n", "def f():\n    # one\n    return 1\n", None, "the fix changes no code"),
    "no Python": ("def f():\n    return 1\n", "def f():\n    return 2\n", "def f(:\n", "cannot be parsed"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_the_reason(tmp_path, name):
    before, after, today, reason = REFUSED[name]
    text = after if today is None else today
    (tmp_path / NAME).write_text(text)
    made = make_draft(Fix((FixedFile(NAME, NAME, before, after),), (), ()), tmp_path, {})
    assert not made.possible
    assert reason in made.reason
    assert "''" not in made.reason
    assert (tmp_path / NAME).read_text() == text


MOVED = "def f():\n    return 1\n"


@pytest.mark.parametrize(
    ("left", "new", "moves"),
    [
        ("from fxu_new import *\n", f"import os\n\n\n{MOVED}", True),
        ("from fxu_new import f\n", MOVED.replace("1", "2"), False),
        ("from fxu_new import f\nX = 1\n", MOVED, False),
    ],
)
def test_a_commit_that_only_moves_code_is_no_fix(tmp_path, left, new, moves):
    (tmp_path / NAME).write_text(left)
    (tmp_path / "fxu_new.py").write_text(new)
    files = FixedFile(NAME, NAME, MOVED, left), FixedFile("", "fxu_new.py", None, new)
    made = make_draft(Fix(files, (), ()), tmp_path, {})
    assert made.possible is not moves
    assert ("only moves code" in made.reason) is moves
    assert (tmp_path / NAME).read_text() == left
