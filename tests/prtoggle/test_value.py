"""`value:` patches: every name that holds the constant changes with it, or the toggle is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prtoggle.errors import AlreadyRevertedError, RestoreError, TargetError, UnsupportedTargetError
from prtoggle.installers import value
from prtoggle.installers.base import LivePatch
from prtoggle.spec import Patch
from tests.prtoggle.made_modules import Modules, modules

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["modules"]

TARGET = """
import dataclasses
import enum
import typing

LIMIT = 128
TABLE = {"a": 1}
UNIQUE = object()


class Pool:
    page = 16
    slots: int = 4

    def pages(self, n):
        return n // self.page


class Sub(Pool):
    pass


@dataclasses.dataclass
class Config:
    size: int = 3


class Color(enum.Enum):
    RED = 1


class Pair(typing.NamedTuple):
    left: int = 0


def cap(n):
    return min(n, LIMIT)
"""


@pytest.fixture
def target(modules: Modules) -> ModuleType:
    return modules.load(TARGET)


def plan(module: ModuleType, qualname: str, new: object) -> value.ValueStep:
    patch = Patch(target=f"{module.__name__}.{qualname}", value=new)
    return value.plan(LivePatch("t", patch, module, qualname))


def everything(*owners: Any) -> list[dict[str, object]]:
    return [dict(vars(owner)) for owner in owners]


def test_module_constant_has_the_value_until_it_is_restored(target: ModuleType) -> None:
    before = everything(target)
    step = plan(target, "LIMIT", 64)
    assert target.cap(999) == 128

    step.install()
    assert (target.LIMIT, target.cap(999)) == (64, 64)

    step.restore()
    assert target.cap(999) == 128
    assert everything(target) == before


def test_class_attribute_has_the_value_for_subclasses_and_instances_too(target: ModuleType) -> None:
    before = everything(target.Pool, target.Sub)
    one = target.Sub()
    step = plan(target, "Pool.page", 1)

    step.install()
    assert (one.pages(32), target.Pool.page, target.Sub.page) == (32, 1, 1)

    step.restore()
    assert one.pages(32) == 2
    assert everything(target.Pool, target.Sub) == before


@pytest.mark.parametrize(
    "line",
    [
        "from {0} import LIMIT",
        "from {0} import LIMIT as MOST",
        "from {0} import *",
        "import {0}\nMOST = {0}.LIMIT",
        "import {0} as other\nMOST: int = other.LIMIT",
        "if True:\n    from {0} import LIMIT as MOST",
        "from {0} import LIMIT\nMOST = LIMIT",
        "class Holder:\n    import {0} as other\nfrom {0} import LIMIT as FIRST\nclass K:\n    most = FIRST",
    ],
)
def test_names_bound_early_change_with_it(target: ModuleType, modules: Modules, line: str) -> None:
    user = modules.load(line + "\nUNRELATED = 128\n")
    chained = modules.load("from {1} import *\nUNRELATED = 128\n")
    owners = [user, chained, *(vars(user)[name] for name in ("K",) if name in vars(user))]
    before = everything(*owners)
    holding = [(owner, name) for owner in owners for name in vars(owner) if vars(owner)[name] == 128]
    step = plan(target, "LIMIT", 64)

    step.install()
    now = {(owner.__name__, name): vars(owner)[name] for owner, name in holding}
    assert now.pop((user.__name__, "UNRELATED")) == 128
    assert now.pop((chained.__name__, "UNRELATED")) == 128
    assert set(now.values()) == {64}

    step.restore()
    assert everything(*owners) == before


def test_a_module_that_goes_by_another_name_is_known_for_what_it_is(
    target: ModuleType, modules: Modules
) -> None:
    modules.load("import {0} as settings\n")
    user = modules.load("from {1} import settings\nDOUBLE = settings.LIMIT * 2\n")

    with pytest.raises(UnsupportedTargetError, match=rf"{user.__name__}, line 2"):
        plan(target, "LIMIT", 64)

    assert target.LIMIT == 128


def test_a_number_of_its_own_stays_in_other_modules(target: ModuleType, modules: Modules) -> None:
    user = modules.load("import {0}\nLIMIT = 128\n\n\nclass Pool:\n    page = 16\n")
    steps = [plan(target, "LIMIT", 64), plan(target, "Pool.page", 1)]
    for step in steps:
        step.install()

    assert (user.LIMIT, user.Pool.page) == (128, 16)
    for step in steps:
        step.restore()


@pytest.mark.parametrize(
    "line",
    [
        "from {0} import LIMIT\nDOUBLE = LIMIT * 2",
        "import {0}\nDOUBLE = {0}.LIMIT * 2",
        "import {0}\n\n\ndef f(n={0}.LIMIT):\n    return n",
        "import {0}\n\n\nclass K:\n    def f(self, *, n={0}.LIMIT):\n        return n",
        "from {0} import LIMIT\nif LIMIT > 100:\n    LARGE = True",
        "from {0} import LIMIT as MOST\nROWS = [MOST]",
        "from {0} import LIMIT\nHALF = LIMIT // 2\ndel LIMIT",
        "from {0} import LIMIT\nLIMIT = LIMIT + 1",
        "class K:\n    from {0} import LIMIT",
        "import {0}\npair = (lambda n={0}.LIMIT: n, 1)",
        # By a module's name that is gone, or holds another module now.
        "import {0} as _other\nDOUBLE = _other.LIMIT * 2\ndel _other",
        "import sys\nimport {0} as _other\nDOUBLE = _other.LIMIT * 2\n_other = sys",
        "import {0}\n_other = {0}\nDOUBLE = _other.LIMIT * 2\ndel _other",
        "import importlib\n_other = importlib.import_module('{0}')\nDOUBLE = _other.LIMIT * 2\ndel _other",
        "import sys\nimport {0}\nDOUBLE = sys.modules['{0}'].LIMIT * 2",
        "DOUBLE = __import__('{0}').LIMIT * 2",
        # By its own name as a string.
        "import {0}\nCOPY = getattr({0}, 'LIMIT')",
        "import {0}\nCOPY = vars({0})['LIMIT']",
        "import {0}\nCOPY = {0}.__dict__['LIMIT'] * 2",
        "import {0}\nCOPY = {0}.__dict__.get('LIMIT')",
        "from {0} import LIMIT\nCOPY = globals()['LIMIT'] * 2",
        "import operator\nimport {0}\nCOPY = operator.attrgetter('LIMIT')({0})",
        "import {0}\nCOPY = eval('{0}.LIMIT * 2')",
        # In an annotation, which a class decorator or base class may evaluate.
        "import {0}\nfrom typing import Annotated\n\n\nclass K:\n    x: Annotated[int, {0}.LIMIT]",
        # In a class whose making takes it.
        "import dataclasses\nimport {0}\n\n\n@dataclasses.dataclass\nclass K:\n    mosts: int = {0}.LIMIT",
        (
            "import {0}\n\n\nclass Base:\n    def __init_subclass__(cls):\n        cls.double = cls.mosts * 2\n"
            "\n\nclass K(Base):\n    mosts = {0}.LIMIT"
        ),
        (
            "import {0}\n\n\nclass Meta(type):\n    def __new__(meta, name, bases, space):\n"
            "        space['double'] = space.get('mosts', 0) * 2\n"
            "        return super().__new__(meta, name, bases, space)\n"
            "\n\nclass K(metaclass=Meta):\n    mosts = {0}.LIMIT"
        ),
        (
            "import {0}\n\n\ndef doubled(kind):\n    return helped(kind)\n\n\ndef helped(kind):\n"
            "    kind.double = kind.mosts * 2\n    return kind\n\n\n@doubled\nclass K:\n    mosts = {0}.LIMIT"
        ),
    ],
)
def test_a_use_at_import_time_is_a_refusal_that_says_where(
    target: ModuleType, modules: Modules, line: str
) -> None:
    user = modules.load(line + "\n")
    before = everything(target, user)

    with pytest.raises(UnsupportedTargetError, match=rf"LIMIT was used .*{user.__name__}, line \d+: "):
        plan(target, "LIMIT", 64)

    assert everything(target, user) == before


@pytest.mark.parametrize(
    "line",
    [
        "import os\nimport {0}\nOWN = os.environ.get('LIMIT', {0}.TABLE)\n__all__ = ['LIMIT']\n",
        "import {0}\nif hasattr({0}, 'LIMIT'):\n    FOUND = True\n",
        "import {0}\nOWN = dict(LIMIT=1)['LIMIT']\n",
        # Classes whose making takes nothing of it.
        "import dataclasses\nimport {0}\n\n\n@dataclasses.dataclass\nclass K:\n    b: int = 1\n    mosts = {0}.LIMIT\n",
        "import abc\nimport {0}\n\n\nclass K(abc.ABC):\n    mosts = {0}.LIMIT\n",
        "import typing\nimport {0}\n\n\nclass K(typing.Generic[typing.TypeVar('T')]):\n    mosts = {0}.LIMIT\n",
        (
            "import {0}\nknown = {}\n\n\nclass Base:\n    def __init_subclass__(cls):\n"
            "        known[cls.__name__] = cls\n\n\nclass K(Base):\n    mosts = {0}.LIMIT\n"
        ),
        (
            "import {0}\n\n\nclass Meta(type):\n    def __new__(meta, name, bases, space):\n"
            "        return super().__new__(meta, name, bases, space)\n"
            "\n\nclass K(metaclass=Meta):\n    mosts = {0}.LIMIT\n"
        ),
        "import {0}\n\n\ndef kept(kind):\n    return kind\n\n\n@kept\nclass K:\n    mosts = {0}.LIMIT\n",
    ],
)
def test_what_only_looks_like_a_use_is_no_refusal(target: ModuleType, modules: Modules, line: str) -> None:
    user = modules.load(line)
    step = plan(target, "LIMIT", 64)

    step.install()
    assert vars(target)["LIMIT"] == 64
    assert not hasattr(user, "Held") or user.Held.mosts == 64

    step.restore()
    assert vars(target)["LIMIT"] == 128
    assert not hasattr(user, "Held") or user.Held.mosts == 128


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class Held:\n    breadth = 5\n\n    def __init_subclass__(cls):\n        cls.double = cls.breadth * 2\n\n\nclass S(Held):\n    pass\n",
         r"Held.__init_subclass__ may have read it when the class was made"),
        ("class Meta(type):\n    def __init__(cls, *given):\n        cls.double = cls.breadth * 2\n\n\nclass Held(metaclass=Meta):\n    breadth = 5\n",
         r"Meta.__init__ may have read it when the class was made"),
        (("class Meta(type):\n    def __new__(meta, name, bases, space):\n        made = {k: v for k, v in space.items()}\n"
         "        return super().__new__(meta, name, bases, made | {'twice': made})\n\n\nclass Held(metaclass=Meta):\n    breadth = 5\n"),
         r"Meta.__new__ may have read it when the class was made"),
        ("def doubled(kind):\n    kind.double = kind.breadth * 2\n    return kind\n\n\n@doubled\nclass Held:\n    breadth = 5\n", r"line 6: @doubled"),
        ("class Held:\n    __slots__ = breadth = ('a',)\n", r"Held.breadth was used|laid out"),
    ],
)  # fmt: skip
def test_a_class_attribute_that_the_making_of_the_class_has_read_is_a_refusal(
    modules: Modules, text: str, words: str
) -> None:
    module = modules.load(text)
    qualname = "Held.__slots__" if "__slots__" in text else "Held.breadth"
    before = everything(module, module.Held)

    with pytest.raises(UnsupportedTargetError, match=words):
        plan(module, qualname, 9 if qualname == "Held.breadth" else ["b"])

    assert everything(module, module.Held) == before


def test_a_metaclass_that_makes_something_else_of_what_is_set_does_not_come_between(modules: Modules) -> None:
    module = modules.load(
        "class Meta(type):\n    def __setattr__(cls, name, value):\n        super().__setattr__(name, value * 2)\n"
        "\n\nclass K(metaclass=Meta):\n    size = 5\n"
    )
    step = plan(module, "K.size", 9)
    step.install()
    assert module.K.size == 9
    step.restore()
    assert module.K.size == 5


@pytest.mark.parametrize(
    "line",
    [
        "from {0} import Pool\nDOUBLE = Pool.page * 2",
        "from {0} import Sub\n\n\ndef f(n=Sub.page):\n    return n",
        "import {0}\nROWS = [{0}.Pool.page]",
    ],
)
def test_a_use_of_a_class_attribute_at_import_time_is_a_refusal(
    target: ModuleType, modules: Modules, line: str
) -> None:
    user = modules.load(line + "\n")
    before = everything(target.Pool, user)

    with pytest.raises(UnsupportedTargetError, match=rf"Pool\.page was used .*{user.__name__}, line \d+: "):
        plan(target, "Pool.page", 1)

    assert everything(target.Pool, user) == before


@pytest.mark.parametrize(
    "text",
    [
        "LIMIT = 128\nDOUBLE = LIMIT * 2\n",
        "LIMIT = 128\n\n\ndef f(n=LIMIT):\n    return n\n",
        "LIMIT = 128\nLIMIT += 1\nLARGE = LIMIT > 100\n",
    ],
)
def test_a_use_in_its_own_module_is_a_refusal(modules: Modules, text: str) -> None:
    module = modules.load(text)
    before = everything(module)

    with pytest.raises(UnsupportedTargetError, match="LIMIT was used"):
        plan(module, "LIMIT", 64)

    assert everything(module) == before


def test_a_use_inside_a_function_follows_and_is_no_refusal(target: ModuleType, modules: Modules) -> None:
    user = modules.load(
        "import {0}\n\n\ndef f():\n    from {0} import LIMIT\n    return LIMIT, {0}.LIMIT, (lambda: {0}.LIMIT)()\n"
    )
    step = plan(target, "LIMIT", 64)

    step.install()
    assert user.f() == (64, 64, 64)

    step.restore()
    assert user.f() == (128, 128, 128)


def test_holders_of_a_mutable_constant_are_rebound_wherever_they_are(
    target: ModuleType, modules: Modules
) -> None:
    user = modules.load(
        "from {0} import TABLE as table\n\n\nclass K:\n    pass\n\n\none = K()\none.t = table\n"
    )
    original = target.TABLE
    step = plan(target, "TABLE", {"a": 2})

    step.install()
    assert target.TABLE is user.table is user.one.t
    assert target.TABLE == {"a": 2}
    target.TABLE["b"] = 3

    step.restore()
    assert target.TABLE is user.table is user.one.t is original
    assert original == {"a": 1}

    step.install()
    assert target.TABLE == {"a": 2}
    step.restore()


def test_a_holder_of_a_mutable_constant_that_cannot_follow_is_a_refusal(
    target: ModuleType, modules: Modules
) -> None:
    user = modules.load("import {0}\n\n\ndef pair():\n    return ({0}.TABLE, 1)\n")
    held = user.pair()

    with pytest.raises(UnsupportedTargetError, match=r"TABLE was used .*a tuple"):
        plan(target, "TABLE", {"a": 2})

    assert held[0] is target.TABLE


def test_a_value_that_is_there_already_is_refused(target: ModuleType) -> None:
    with pytest.raises(AlreadyRevertedError, match="128 already"):
        plan(target, "LIMIT", 128)


def test_a_constant_that_somebody_changed_is_not_restored(target: ModuleType) -> None:
    step = plan(target, "LIMIT", 64)
    step.install()
    target.LIMIT = 7

    with pytest.raises(RestoreError, match=r"LIMIT was changed .* it is 7 now"):
        step.restore()

    assert target.LIMIT == 7
    target.LIMIT = 64
    step.restore()
    assert target.LIMIT == 128


@pytest.mark.parametrize(
    ("qualname", "words"),
    [
        ("cap", "it is a function; use edits"),
        ("Pool", "class or module"),
        ("Pool.pages", "it is a function; use edits"),
        ("Config.size", "default of a field"),
        ("Color.RED", "member of the enumeration Color"),
        ("Pair.left", "descriptor"),
        ("Sub.page", "Pool.page"),
    ],
)
def test_what_has_no_value_to_set_is_refused_and_nothing_changes(
    target: ModuleType, qualname: str, words: str
) -> None:
    owners = (target, target.Pool, target.Sub, target.Config, target.Color, target.Pair)
    before = everything(*owners)

    with pytest.raises(UnsupportedTargetError, match=words) as raised:
        plan(target, qualname, 9)

    assert f"{target.__name__}.{qualname}" in str(raised.value)
    assert everything(*owners) == before


def test_a_name_that_is_not_there_is_refused(target: ModuleType) -> None:
    with pytest.raises(TargetError, match="NOTHING"):
        plan(target, "NOTHING", 9)


def test_an_edit_of_the_assignment_is_the_value_that_it_assigns(target: ModuleType) -> None:
    edited = TARGET.replace("LIMIT = 128", "LIMIT = 2 * 32").replace("page = 16", "page = 1")
    step = value.plan_edited(target, "Pool.page", "made.Pool.page", TARGET, edited)
    step.install()
    assert target.Pool.page == 1
    step.restore()
    assert target.Pool.page == 16

    with pytest.raises(UnsupportedTargetError, match=r"no plain literal"):
        value.plan_edited(target, "LIMIT", "made.LIMIT", TARGET, edited)

    target.LIMIT = 5
    with pytest.raises(UnsupportedTargetError, match="is 5 now, not 128"):
        value.plan_edited(target, "LIMIT", "made.LIMIT", TARGET, TARGET.replace("LIMIT = 128", "LIMIT = 64"))
    assert target.LIMIT == 5
