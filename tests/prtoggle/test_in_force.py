"""A toggle that is not in force is an error: when its module has run, and when it is asked for once more."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import prtoggle
from prtoggle.spec import Patch
from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_toggle, toggle_of

if TYPE_CHECKING:
    from types import ModuleType

    from prtoggle.spec import Toggle

__all__ = ["modules"]

F = 'def f():\n    r = "FIX"\n    return r\n'
EDIT = ('r = "FIX"', 'r = "REV"')


@pytest.mark.parametrize(
    "end",
    [
        'import sys, types\nsys.modules[__name__] = types.SimpleNamespace(f=lambda: "FIX")\n',
        'import sys, types\nm = types.ModuleType("x")\nm.f = lambda: "FIX"\nsys.modules[__name__] = m\n',
        'def g():\n    return "FIX"\nimport functools\n_py = f\nf = functools.lru_cache(None)(g)\n',
        'def g():\n    return "FIX"\nimport functools\n_py = f\nf = functools.partial(g)\n',
        'class Op:\n    def __call__(self):\n        return "FIX"\n_py = f\nf = Op()\n',
        'import functools\n_py = f\n@functools.wraps(_py)\ndef w():\n    return "FIX"\nf = w\n',
        'def f():\n    return "FIX"\n',
    ],
)
def test_a_function_that_is_not_in_force_in_the_end_is_refused(modules: Modules, end: str) -> None:
    name = modules.write(F + end)
    with prtoggle.reverted(make_toggle(f"{name}.f", EDIT)):
        with pytest.raises(prtoggle.TargetError, match="something else"):
            importlib.import_module(name)
        assert prtoggle.active()[-1].state == "failed"
        sys.modules.pop(name, None)
    assert importlib.import_module(name).f() == "FIX"


@pytest.mark.parametrize(
    "end",
    [
        "import sys, types\nm = types.ModuleType('x')\nm.f = f\nsys.modules[__name__] = m\n",
        "import sys, types\nsys.modules[__name__] = types.SimpleNamespace(f=f)\n",
        (
            "import sys\nclass Lazy:\n    def __init__(self, held):\n        self.held = held\n"
            "    def __getattr__(self, name):\n        return self.held[name]\nsys.modules[__name__] = Lazy(globals())\n"
        ),
        "import functools\nf = functools.lru_cache(None)(f)\n",
        "import functools\n_py = f\nf = functools.partial(_py)\n",
        (
            "class Op:\n    def __init__(self, held):\n        self.held = held\n"
            "    def __call__(self):\n        return self.held()\nf = Op(f)\n"
        ),
        "import functools\n_py = f\n@functools.wraps(_py)\ndef w():\n    return _py()\nf = w\n",
        "import functools\n_py = f\n@functools.wraps(_py)\ndef w():\n    return w.__wrapped__()\nf = w\n",
        "import functools\ntable = {'f': f}\n@functools.wraps(f)\ndef w():\n    return table['f']()\nf = w\n",
        "import functools\n@functools.wraps(f)\ndef w(*, of=f):\n    return of()\nf = w\n",
    ],
)
def test_a_function_that_is_held_by_what_stands_there_in_the_end_is_in_force(
    modules: Modules, end: str
) -> None:
    name = modules.write(F + end)
    with prtoggle.reverted(make_toggle(f"{name}.f", EDIT)):
        assert importlib.import_module(name).f() == "REV"
        assert prtoggle.active()[-1].state == "active"


VALUE: list[Any] = [
    'globals()["LIMIT"] = 5\n',
    "def set():\n    global LIMIT\n    LIMIT = 5\nset()\n",
    "import sys\nsetattr(sys.modules[__name__], 'LIMIT', 5)\n",
]


@pytest.mark.parametrize("end", VALUE)
@pytest.mark.parametrize("mode", ["value", "edits"])
def test_a_constant_that_is_not_in_force_in_the_end_is_refused(modules: Modules, end: str, mode: str) -> None:
    name = modules.write("LIMIT = 5\n" + end)
    target = f"{name}.LIMIT"
    toggle = (
        toggle_of(Patch(target, value=9))
        if mode == "value"
        else make_toggle(target, ("LIMIT = 5", "LIMIT = 9"))
    )
    with prtoggle.reverted(toggle):
        with pytest.raises(prtoggle.TargetError, match=r"line 1.*something else, 5"):
            importlib.import_module(name)
        assert prtoggle.active()[-1].state == "failed"
    assert importlib.import_module(name).LIMIT == 5


IN_FORCE: list[tuple[str, str, str, object]] = [
    ("LIMIT = 5\nif LIMIT:\n    LIMIT = 6\n", "LIMIT", "LIMIT", 9),
    ("LIMIT = 5\nCOPY = LIMIT\ndel LIMIT\n", "LIMIT", "COPY", 9),
    ("class K:\n    size = 5\n", "K.size", "K.size", 9),
    ("import enum\nclass K(enum.Enum):\n    size = 5\n", "K.size", "K.size.value", 9),
    ("import dataclasses\n@dataclasses.dataclass(slots=True)\nclass K:\n    size: int = 5\n", "K.size", "K().size", 9),
    (("class Meta(type):\n    def __new__(m, n, b, space):\n        space['size'] = space['size'] * 2\n"
     "        return super().__new__(m, n, b, space)\nclass K(metaclass=Meta):\n    size = 5\n"), "K.size", "K.size", 18),
]  # fmt: skip


def test_a_constant_that_is_in_force_or_cannot_be_told_loads(modules: Modules) -> None:
    """In a process of its own, for such a constant cannot be put back."""
    asked = [(modules.write(text), qualname, shown) for text, qualname, shown, _ in IN_FORCE]
    program = f"""
import importlib, sys, prtoggle
from prtoggle.spec import Patch, Toggle
sys.path.insert(0, {str(modules.folder)!r})
for name, qualname, shown in {asked!r}:
    prtoggle.revert(Toggle(id=name, patches=(Patch(name + "." + qualname, value=9),)))
    print(eval(shown, vars(importlib.import_module(name))), prtoggle.active()[-1].state)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.splitlines(), done.stderr) == ([f"{held} active" for *_, held in IN_FORCE], "")


def other_code(module: ModuleType) -> None:
    module.f.__code__ = (lambda: "OTHER").__code__


def other_function(module: ModuleType) -> None:
    vars(module)["f"] = lambda: "OTHER"


def no_function(module: ModuleType) -> None:
    del vars(module)["f"]


@pytest.mark.parametrize("undone", [other_code, other_function, no_function])
@pytest.mark.parametrize("born", [False, True])
def test_a_second_revert_of_what_somebody_undid_is_refused(
    modules: Modules, undone: Any, *, born: bool
) -> None:
    name = modules.write(F)
    toggle = make_toggle(f"{name}.f", EDIT)
    module = None if born else importlib.import_module(name)
    with prtoggle.reverted(toggle):
        module = module or importlib.import_module(name)
        function, code = module.f, module.f.__code__
        with prtoggle.reverted(toggle):
            assert module.f() == "REV"
        undone(module)
        now = dict(vars(module))

        with pytest.raises(
            prtoggle.RestoreError, match=r"f: (somebody else changed|toggle .* is reverted already)"
        ):
            prtoggle.revert(toggle)

        assert (dict(vars(module)), prtoggle.active()[-1].handles) == (now, 1)
        function.__code__ = code
        vars(module)["f"] = function
        with prtoggle.reverted(toggle):
            assert module.f() == "REV"
    assert module.f() == "FIX"


def test_a_second_revert_under_a_wrapper_that_calls_it_is_none_of_its_business(modules: Modules) -> None:
    modules.load("def around(wrapped, instance, args, kwargs):\n    return wrapped(*args, **kwargs) + '!'\n")
    module = modules.load(F)
    toggle = make_toggle(f"{module.__name__}.f", EDIT)
    wrap = toggle_of(Patch(f"{module.__name__}.f", wrap=f"{modules.names[0]}:around"))
    with prtoggle.reverted(toggle), prtoggle.reverted(wrap):
        with prtoggle.reverted(toggle), prtoggle.reverted(wrap):
            assert module.f() == "REV!"
        vars(module)["f"] = functools.wraps(module.f)(lambda held=module.f: held() + "?")
        with prtoggle.reverted(toggle):
            assert module.f() == "REV!?"
        vars(module)["f"] = module.f.__wrapped__
    assert module.f() == "FIX"


@pytest.mark.parametrize("mode", ["value", "wrap"])
def test_a_second_revert_of_an_object_that_somebody_replaced_is_refused(modules: Modules, mode: str) -> None:
    modules.load("def around(wrapped, instance, args, kwargs):\n    return 0\n")
    module = modules.load(F + "LIMIT = 5\n")
    attribute = "LIMIT" if mode == "value" else "f"
    given: dict[str, Any] = {"value": 9} if mode == "value" else {"wrap": f"{modules.names[0]}:around"}
    toggle: Toggle = toggle_of(Patch(f"{module.__name__}.{attribute}", **given))
    with prtoggle.reverted(toggle):
        held = vars(module)[attribute]
        vars(module)[attribute] = 7
        with pytest.raises(prtoggle.RestoreError, match="reverted already, and not in force"):
            prtoggle.revert(toggle)
        assert vars(module)[attribute] == 7
        vars(module)[attribute] = held


def test_a_second_revert_of_a_toggle_that_failed_is_refused(modules: Modules) -> None:
    name = modules.write(F + "def f():\n    return 'FIX'\n")
    toggle = make_toggle(f"{name}.f", EDIT)
    with prtoggle.reverted(toggle):
        with pytest.raises(prtoggle.TargetError):
            importlib.import_module(name)
        with pytest.raises(prtoggle.TargetError, match="something else"):
            prtoggle.revert(toggle)
        assert prtoggle.active()[-1].handles == 1


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("X = 1\nimport {0}\nX = 2\n", "value"),
        ("def X():\n    return 1\nimport {0}\ndef X():\n    return 1\n", "edits"),
        ("import {0}\ndef X():\n    return 1\n", "edits"),
    ],
)
def test_a_revert_while_the_module_is_executed_is_refused(modules: Modules, text: str, mode: str) -> None:
    edit = "value=9" if mode == "value" else "edits=(Edit('return 1', 'return 2'),)"
    modules.write(
        "import prtoggle\nfrom prtoggle.spec import Edit, Patch, Toggle\ntry:\n"
        f"    prtoggle.revert(Toggle(id='made', patches=(Patch('made_target.X', {edit}),)))\n"
        "except prtoggle.TargetModuleError as error:\n    found = str(error)\n"
    )
    (modules.folder / "made_target.py").write_text(text.replace("{0}", modules.names[0]))
    modules.names.append("made_target")
    importlib.invalidate_caches()
    importlib.import_module("made_target")
    assert "made_target is being imported at this moment (line" in sys.modules[modules.names[0]].found
    assert prtoggle.active() == []


@pytest.mark.parametrize("new", [float("nan"), float("inf"), float("-inf"), [1.5, float("nan")], -1])
def test_a_number_that_is_none_goes_and_comes_back(modules: Modules, new: object) -> None:
    name = modules.write("LIMIT = 5\n")
    toggle = toggle_of(Patch(f"{name}.LIMIT", value=new))
    with prtoggle.reverted(toggle):
        module: Any = importlib.import_module(name)
        assert repr(module.LIMIT) == repr(new)
    assert module.LIMIT == 5
    with prtoggle.reverted(toggle):
        assert repr(module.LIMIT) == repr(new)
    assert module.LIMIT == 5


@pytest.mark.parametrize("link", ["hardlink_to", "symlink_to"])
def test_a_file_under_another_name_is_the_same_file(modules: Modules, link: str) -> None:
    name = modules.write(F)
    other = f"other_{name}"
    getattr(modules.folder / f"{other}.py", link)(modules.folder / f"{name}.py")
    modules.names.append(other)
    importlib.invalidate_caches()
    with prtoggle.reverted(make_toggle(f"{name}.f", EDIT)):
        found = [importlib.import_module(module).f for module in (name, other)]
        assert [f() for f in found] == ["REV", "REV"]
    assert [f() for f in found] == ["FIX", "FIX"]


IMPLEMENTATIONS = (
    "import functools\n@functools.singledispatch\ndef f(x):\n    return 'any'\n"
    "@f.register\ndef _(x: int):\n    y = 'one'\n    return y\n"
    "@f.register\ndef _(x: str):\n    y = 'one'\n    return y\n"
    "@f.register\ndef _(x: list):\n    return 'list'\n"
)
KEPT = ("y = 'one'", "y = 'old'")


@pytest.mark.parametrize("target", ["._", ""])
def test_functions_that_a_decorator_keeps_under_no_name_are_edited_each(
    modules: Modules, target: str
) -> None:
    """`_` is the name of all of them; as for any name, an edit goes into every definition that it fits."""
    text = IMPLEMENTATIONS if target else IMPLEMENTATIONS.replace("y = 'one'", "y = 'two'", 1)
    live, name = modules.load(text), modules.write(text)

    def answers(module: ModuleType) -> list[str]:
        return [module.f(x) for x in (1, "", [], None)]

    fixed = answers(live)
    reverted = ["old" if answer == "one" else answer for answer in fixed]
    for _ in range(2):
        with prtoggle.reverted(make_toggle(f"{live.__name__}{target}", KEPT)):
            assert answers(live) == reverted
        assert answers(live) == fixed
    with prtoggle.reverted(make_toggle(f"{name}{target}", KEPT)):
        born = importlib.import_module(name)
        assert answers(born) == reverted
    assert answers(born) == fixed


@pytest.mark.parametrize(("decorator", "error"), [("", "something else"), ("@drop\n", "something else")])
def test_a_function_that_nobody_keeps_is_not_in_force(modules: Modules, decorator: str, error: str) -> None:
    text = (
        "def drop(fn):\n    return None\n"
        f"{decorator}def _(x):\n    y = 'one'\n    return y\ndef _(x):\n    return 'two'\n"
    )
    live, name = modules.load(text), modules.write(text)
    with pytest.raises(
        prtoggle.UnsupportedTargetError, match="nobody holds the function that is defined as _ at line"
    ):
        prtoggle.revert(make_toggle(f"{live.__name__}._", KEPT))
    with prtoggle.reverted(make_toggle(f"{name}._", KEPT)):
        with pytest.raises(prtoggle.TargetError, match=error):
            importlib.import_module(name)
        sys.modules.pop(name, None)

    assert live._(0) == importlib.import_module(name)._(0) == "two"
    assert prtoggle.active() == []


@pytest.mark.parametrize(
    ("end", "in_force"),
    [
        ("del f\n", False),
        ("X = f()\ndel f\n", True),
        ("g = f\ndel f\n", True),
        ("def h():\n    f()\ndel f\n", False),
    ],
)
def test_a_function_whose_name_is_deleted_is_in_force_if_it_was_of_use(
    modules: Modules, end: str, in_force: bool
) -> None:
    name = modules.write(F + end)
    toggle = make_toggle(f"{name}.f", EDIT)
    if not in_force:
        with prtoggle.reverted(toggle), pytest.raises(prtoggle.TargetError, match="something else"):
            importlib.import_module(name)
        sys.modules.pop(name, None)
        assert not hasattr(importlib.import_module(name), "f")
        return
    handle = prtoggle.revert(toggle)
    module = importlib.import_module(name)

    assert getattr(module, "X", None) == "REV" or module.g() == "REV"
    handle.restore()
    assert getattr(module, "X", None) == "REV" or module.g() == "FIX"
