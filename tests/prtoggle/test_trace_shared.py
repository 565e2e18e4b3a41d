"""What both runs of a call share is never taken for equal when a run changes it, and the program keeps its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.traced_modules import traced

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["modules"]

THINGS = """
import dataclasses, os, threading, types


class Plain:
    n = 0
    seen = []

    @classmethod
    def step(cls, value):
        cls.n = value


@dataclasses.dataclass
class Data:
    n: int = 0


class Rows(list):
    pass


class Itself:
    n = 0

    def __deepcopy__(self, memo):
        return self


class Slots:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0

    def __reduce__(self):
        return "SLOTS"


class Locked:
    def __init__(self):
        self.n = 0
        self.lock = threading.Lock()


OBJECT, DATA, ROWS, PAIR, ITSELF, LOCKED = Plain(), Data(), Rows(), ([],), Itself(), Locked()
OBJECT.n = 0
SLOTS = Slots()
LOCAL = threading.local()
LOCAL.n = 0
OTHER = types.ModuleType("other")
OTHER.n = 0
HELD = []


def helper(value):
    HELD.append(value)


def deeper(value):
    helper(value)


def counting(value):
    counting.n = value
"""

#: A statement with `value`, and what reads what it left.
COPIED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "object": ("OBJECT.n = value", lambda module: module.OBJECT.n),
    "dataclass": ("DATA.n = value", lambda module: module.DATA.n),
    "list subclass": ("ROWS.append(value)", lambda module: module.ROWS[-1:]),
    "list in a tuple": ("PAIR[0].append(value)", lambda module: module.PAIR[0][-1:]),
}
SHARED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "environment": ("os.environ['PRTOGGLE_TEST_VALUE'] = str(value)", lambda _: _environ()),
    "class": ("Plain.n = value", lambda module: module.Plain.n),
    "list of a class": ("Plain.seen.append(value)", lambda module: list(module.Plain.seen)),
    "class argument": ("x.n = value", lambda module: module.Plain.n),
    "classmethod": ("Plain.step(value)", lambda module: module.Plain.n),
    "thread's own": ("LOCAL.n = value", lambda module: module.LOCAL.n),
    "its own copy": ("ITSELF.n = value", lambda module: module.ITSELF.n),
    "a name": ("SLOTS.n = value", lambda module: module.SLOTS.n),
    "with a lock": ("LOCKED.n = value", lambda module: module.LOCKED.n),
    "module": ("OTHER.n = value", lambda module: module.OTHER.n),
    "function": ("counting.n = value", lambda module: getattr(module.counting, "n", 0)),
    "list of a helper": ("helper(value)", lambda module: list(module.HELD)),
    "list of a helper's helper": ("deeper(value)", lambda module: list(module.HELD)),
    "globals()": ("globals()['MADE'] = value", lambda module: getattr(module, "MADE", 0)),
}


def _environ() -> str | None:
    return os.environ.get("PRTOGGLE_TEST_VALUE")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRTOGGLE_TEST_VALUE", "0")


def called(modules: Modules, statement: str, fixed: str, reverted: str) -> tuple[Any, Any]:
    """The module after one call, with `fixed` and `reverted` in front of the statement, and the account."""
    text = f"{THINGS}\n\ndef f(x):\n    {fixed}\n    if value:\n        {statement}\n    return 0\n"
    module, account = traced(modules, text, (fixed, reverted))
    module.f(module.Plain)
    return module, account


@pytest.mark.parametrize(("statement", "read"), COPIED.values(), ids=COPIED)
def test_what_can_be_copied_is_compared(modules: Modules, statement: str, read: Callable[[Any], Any]) -> None:
    module, account = called(modules, statement, "value = 1", "value = 2")

    assert read(module) in (1, [1])
    assert account.outcome() == (0, 1, 0), account.counts()
    assert account.places[0][1:] == ("1", "2")


@pytest.mark.parametrize(("statement", "read"), SHARED.values(), ids=SHARED)
def test_what_the_call_changes_and_both_share_is_not_compared(
    modules: Modules, statement: str, read: Callable[[Any], Any]
) -> None:
    module, account = called(modules, statement, "value = 1", "value = 2")

    assert read(module) in (1, "1", [1])
    assert account.outcome() == (0, 0, 1), account.counts()
    (reason,) = account.counts()["not_compared"]
    assert reason.startswith("the call changes ")
    assert reason.endswith(", which both runs would share")


@pytest.mark.parametrize("name", [name for name in SHARED if name != "globals()"])
def test_what_the_other_run_alone_changes_is_put_back(modules: Modules, name: str) -> None:
    statement, read = SHARED[name]
    module, account = called(modules, statement, "value = 0", "value = 2")

    assert read(module) in (0, "0", [])
    assert account.outcome() == (0, 0, 1), account.counts()
    (reason,) = account.counts()["not_compared"]
    assert reason.startswith("the other run changes ")
    assert reason.endswith("which both runs share; it was put back")


def test_a_global_that_the_other_run_alone_binds_by_name_is_told(modules: Modules) -> None:
    module, account = called(modules, "globals()['MADE'] = value", "value = 0", "value = 2")

    assert not hasattr(module, "MADE")
    assert account.places == [("MADE", "nothing", "2")]


@pytest.mark.parametrize("statement", [*(line for line, _ in SHARED.values()), "pass"])
def test_what_no_run_changes_is_compared(modules: Modules, statement: str) -> None:
    _, account = called(modules, statement, "value = 0", "value = None")

    assert account.outcome() == (1, 0, 0), account.counts()


@pytest.mark.parametrize("header", ["acc=[]", "*, acc=[]"])
def test_a_callback_with_a_default_that_it_changes(modules: Modules, header: str) -> None:
    text = (
        f"def note(x, {header}):\n    acc.append(x)\n    return acc\n\n\n"
        "def f(note):\n    x = 1\n    note(x)\n    return 0\n"
    )
    module, account = traced(modules, text, ("x = 1", "x = 2"))

    module.f(module.note)

    assert module.note(3) == [1, 3]
    assert account.outcome() == (0, 1, 0), account.counts()


def test_a_class_that_leaves_something_out_of_its_copies_is_not_compared(modules: Modules) -> None:
    text = (
        "class Part:\n    def __init__(self):\n        self.a = 0\n\n    def __reduce__(self):\n"
        "        return Part, ()\n\n\ndef f(o):\n    x = 1\n    return x\n"
    )
    module, account = traced(modules, text, ("x = 1", "x = 2"))
    part = module.Part()
    part.a = 9

    assert module.f(part) == 1

    assert part.a == 9
    assert account.counts()["not_compared"] == {"the copy that Part makes of itself differs: Part.a": 1}


def test_all_names_are_in_the_globals_of_both_runs(modules: Modules) -> None:
    text = "A = 1\nB = []\n\n\ndef f():\n    x = 1\n    return sorted(globals()), 'A' in globals()\n"
    module, account = traced(modules, text, ("x = 1", "x = 2"))

    assert module.f()[1] is True

    assert account.outcome() == (1, 0, 0), account.places
