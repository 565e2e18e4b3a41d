"""What a module, a class or a context holds for all calls: both runs find it as it was, the program keeps its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.traced_modules import traced

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["modules"]

HEADER = "import array, contextvars, enum, functools, io, itertools, queue, random\n\n\n"

#: Where a thing is held, as text with `MAKE` for how it is made, and how `f` gets at it.
HOLDERS = {
    "global": ("THING = MAKE\n", "THING"),
    "class": ("class Pool:\n    thing = MAKE\n", "Pool.thing"),
    "helper's global": ("THING = MAKE\n\n\ndef helper():\n    return THING\n", "helper()"),
    "shared with a helper": ("THING = MAKE\n\n\ndef helper():\n    return TAKEN\n", "(THING, helper())[0]"),
    "attribute in a method": (
        "class Pool:\n    thing = MAKE\n\n    def get(self):\n        return self.thing\n",
        "Pool().get()",
    ),
}
DRAWS = {
    "random": ("random.Random(5)", "{}.random()"),
    "numpy": ("__import__('numpy').random.default_rng(5)", "float({}.random())"),
    "numpy's old one": ("__import__('numpy').random.RandomState(5)", "float({}.rand())"),
    "torch": (
        "__import__('torch').Generator().manual_seed(5)",
        "float(__import__('torch').rand(1, generator={}))",
    ),
    "method": ("random.Random(5).random", "{}()"),
}
COUNTS = {
    "count": ("itertools.count(3, 2)", "next({})"),
    "count of fractions": ("itertools.count(0.5)", "next({})"),
    "its method": ("itertools.count().__next__", "{}()"),
    "iterator": ("iter([5, 6, 7, 8, 9, 4, 3, 2, 1])", "next({})"),
    "cycle": ("itertools.cycle([5, 6, 7])", "next({})"),
    "range": ("iter(range(9))", "next({})"),
    "static": ("staticmethod(itertools.count().__next__)", "{}()"),
    "partial": ("functools.partial(next, itertools.count())", "{}()"),
}


def module_of(holder: str, make: str, take: str) -> str:
    """A module whose `f` takes from a thing once without the fix, and `times` times."""
    for library in ("numpy", "torch"):
        if library in make:
            pytest.importorskip(library)
    held, reached = HOLDERS[holder]
    held = held.replace("MAKE", make)
    held = held.replace("TAKEN", take.format("THING"))
    return (
        f"{HEADER}{held}\n\ndef f():\n    times = 1\n"
        f"    taken = [{take.format(reached)} for _ in range(times)]\n    return taken[0]\n"
    )


def alone(modules: Modules, text: str, calls: int) -> list[Any]:
    """What the calls give without tracing."""
    module = modules.load(text)
    return [module.f() for _ in range(calls)]


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize(("make", "take"), [*DRAWS.values(), *COUNTS.values()], ids=[*DRAWS, *COUNTS])
def test_both_runs_take_from_the_same_state(modules: Modules, holder: str, make: str, take: str) -> None:
    if "partial" in make and "method" in holder:
        make = f"staticmethod({make})"
    text = module_of(holder, make, take)
    expected = alone(modules, text, 4)
    module, account = traced(modules, text, ("times = 1", "times = 1 + 0"))

    assert [module.f() for _ in range(3)] == expected[:3]

    assert account.outcome() == (3, 0, 0), (account.counts(), account.places)
    # What nobody traces goes on as after three runs, too.
    account.session.finish()
    assert module.f() == expected[3]


@pytest.mark.parametrize("holder", ["global", "class", "helper's global"])
@pytest.mark.parametrize("kind", ["random", "numpy", "torch", "count", "iterator", "cycle"])
def test_a_run_that_takes_more_is_told_and_leaves_the_program_its_own(
    modules: Modules, holder: str, kind: str
) -> None:
    text = module_of(holder, *{**DRAWS, **COUNTS}[kind])
    expected = alone(modules, text, 3)
    module, account = traced(modules, text, ("times = 1", "times = 2"))

    assert [module.f() for _ in range(3)] == expected

    assert account.outcome() == (0, 3, 0), account.counts()
    told = (
        "random numbers of" if kind in DRAWS else {"global": "THING", "class": "Pool.thing"}.get(holder, "")
    )
    assert told in account.places[0][0]


def test_a_number_that_a_helper_counts_up(modules: Modules) -> None:
    text = (
        "N = 0\n\n\ndef fresh():\n    global N\n    N += 1\n    return N\n\n\n"
        "def f():\n    times = 1\n    return [fresh() for _ in range(times)][0]\n"
    )
    module, account = traced(modules, text, ("times = 1", "times = 2"))

    assert [module.f(), module.f(), module.N] == [1, 2, 2]
    assert account.outcome() == (0, 2, 0)
    assert account.places[0] == ("global variable N", "1", "2")


@pytest.mark.parametrize("times", [1, 2])
def test_a_list_that_the_function_and_a_helper_use(modules: Modules, times: int) -> None:
    text = (
        "SEEN = []\n\n\ndef helper(value):\n    SEEN.append(value)\n\n\n"
        "def f(x):\n    times = 1\n    for _ in range(times):\n        helper(x)\n    return len(SEEN)\n"
    )
    module, account = traced(modules, text, ("times = 1", f"times = 0 + {times}"))

    assert [module.f("a"), module.f("b"), module.SEEN] == [1, 2, ["a", "b"]]
    assert account.outcome() == ((2, 0, 0) if times == 1 else (0, 2, 0))


@pytest.mark.parametrize(
    ("make", "change", "read"),
    [
        ("array.array('i')", "THING.append(value)", "list(THING)"),
        ("io.StringIO()", "THING.write(str(value))", "THING.getvalue()"),
        ("io.BytesIO()", "THING.write(bytes([value]))", "THING.getvalue()"),
        ("[random.Random(3)]", "THING[0].seed(value)", "THING[0].random()"),
    ],
)
def test_what_can_be_copied_is_compared(modules: Modules, make: str, change: str, read: str) -> None:
    text = f"{HEADER}THING = {make}\n\n\ndef f():\n    value = 1\n    {change}\n\n\ndef read():\n    return {read}\n"
    plain = modules.load(text)
    plain.f()
    module, account = traced(modules, text, ("value = 1", "value = 2"))
    module.f()

    assert module.read() == plain.read()
    assert account.outcome() == (0, 1, 0), account.counts()


@pytest.mark.parametrize("kind", ["Queue", "LifoQueue", "PriorityQueue"])
@pytest.mark.parametrize(("fixed", "told"), [(1, "the call changes "), (0, "the other run changes ")])
def test_a_queue_with_a_lock_is_watched(modules: Modules, kind: str, fixed: int, told: str) -> None:
    text = f"{HEADER}Q = queue.{kind}()\n\n\ndef f():\n    times = {fixed}\n    for at in range(times):\n        Q.put(at)\n"
    module, account = traced(modules, text, (f"times = {fixed}", "times = 2"))

    module.f()

    assert list(module.Q.queue) == [0] * fixed
    assert module.Q.unfinished_tasks == fixed
    (reason,) = account.counts()["not_compared"]
    assert reason.startswith(f"{told}Q.")


@pytest.mark.parametrize(
    "make", ["queue.SimpleQueue()", "(n for n in range(9))", "open(__import__('os').devnull)"]
)
@pytest.mark.parametrize("holder", ["global", "class", "helper's global"])
def test_what_can_neither_be_copied_nor_watched_is_not_compared(
    modules: Modules, holder: str, make: str
) -> None:
    module, account = traced(modules, module_of(holder, make, "{}"), ("times = 1", "times = 2"))

    module.f()

    (reason,) = account.counts()["not_compared"]
    assert "cannot be copied" in reason
    assert ("THING" in reason) or ("Pool.thing" in reason)


def test_what_does_not_change_does_not_stand_in_the_way(modules: Modules) -> None:
    text = (
        "import datetime, functools, logging, pathlib, re, struct, threading\n\n\n"
        "LOCK, LOG = threading.Lock(), logging.getLogger('prtoggle.test')\nWORD = re.compile('a')\n"
        "HERE, DAY, INT = pathlib.Path('.'), datetime.date(2020, 1, 1), struct.Struct('i')\n\n\n"
        "@functools.lru_cache\ndef known(x):\n    return x\n\n\n"
        "def f():\n    x = 1\n    with LOCK:\n        LOG.debug('a')\n"
        "    return WORD.match('a').group(), HERE / 'a', DAY.year, INT.pack(known(2))\n"
    )
    module, account = traced(modules, text, ("x = 1", "x = 2"))

    module.f()

    assert account.outcome() == (1, 0, 0), account.counts()


CONTEXT = HEADER + (
    "VALUE = contextvars.ContextVar('value')\n\n\n"
    "def f(first):\n    x = 1\n    if first:\n        VALUE.set(x)\n    return VALUE.get(None)\n\n\n"
    "def add():\n    y = 1\n    VALUE.get().append(y)\n"
)


def test_a_context_variable(modules: Modules) -> None:
    module, account = traced(modules, CONTEXT, ("x = 1", "x = 2"))

    assert [module.f(True), module.VALUE.get(), module.f(False)] == [1, 1, 1]
    assert account.outcome() == (1, 1, 0), account.counts()
    assert [where for where, _, _ in account.places] == ["result", "context variable value"]


def test_a_list_in_a_context_variable(modules: Modules) -> None:
    module, account = traced(modules, CONTEXT, ("y = 1", "y = 2"), name="add")
    held: list[int] = []
    token = module.VALUE.set(held)

    module.add()

    assert module.VALUE.get() is held
    assert held == [1]
    assert account.places == [("context variable value[0]", "1", "2")]
    module.VALUE.reset(token)


@pytest.mark.parametrize("change", ["Kind.A.seen.append(x)", "Kind.A.last = x"])
def test_a_member_of_an_enumeration(modules: Modules, change: str) -> None:
    text = (
        f"{HEADER}class Kind(enum.Enum):\n    A = 1\n    B = 2\n\n\nKind.A.seen = []\nKind.A.last = 0\n\n\n"
        f"def f():\n    x = 1\n    {change}\n"
    )
    module, account = traced(modules, text, ("x = 1", "x = 2"))

    module.f()

    assert (module.Kind.A.seen, module.Kind.A.last) in (([1], 0), ([], 1))
    (reason,) = account.counts()["not_compared"]
    assert reason.startswith("the call changes Kind.A.")


@pytest.fixture
def _another_thread() -> Iterator[None]:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.usefixtures("_another_thread")
@pytest.mark.parametrize("holder", ["class", "helper's global"])
def test_beside_other_threads_a_counter_is_never_exchanged(modules: Modules, holder: str) -> None:
    module, account = traced(
        modules, module_of(holder, "itertools.count()", "next({})"), ("times = 1", "times = 1 + 0")
    )

    assert [module.f(), module.f()] == [0, 1]
    assert account.outcome() == (0, 0, 2)
    (reason,) = account.counts()["not_compared"]
    assert reason.startswith("the call changes ")
    assert reason.endswith(", which both runs would share")


def test_a_call_that_leaves_a_thread_behind(modules: Modules) -> None:
    text = (
        "import itertools, threading\n\n\nclass Pool:\n    ids = itertools.count()\n\n\nOVER = threading.Event()\n\n\n"
        "def f():\n    x = 1\n    threading.Thread(target=OVER.wait).start()\n    return next(Pool.ids)\n"
    )
    module, account = traced(modules, text, ("x = 1", "x = 2"))

    assert module.f() == 0

    module.OVER.set()
    assert next(module.Pool.ids) == 1
    (reason,) = account.counts()["not_compared"]
    assert reason.startswith("the call starts a thread")


@pytest.mark.parametrize("end", ["END", "object()"])
def test_a_sentinel_that_is_handed_in_is_the_same_one_in_both_runs(modules: Modules, end: str) -> None:
    text = (
        f"class End:\n    pass\n\n\nEND = End()\nEND = {end}\n\n\n"
        "def f(x):\n    y = 1\n    return x is END, y * 0\n"
    )
    module, account = traced(modules, text, ("y = 1", "y = 2"))

    assert module.f(module.END) == (True, 0)
    assert account.outcome() == (1, 0, 0), account.places


CACHED = """
import functools


@DECORATOR
def rows(key):
    return [key]


@DECORATOR
def number(key):
    return key


def f(x):
    times = TIMES
    for _ in range(times):
        ACT
    return 0
"""


@pytest.mark.parametrize(
    "decorator", ["functools.lru_cache", "functools.lru_cache(maxsize=4)", "functools.cache"]
)
@pytest.mark.parametrize("is_known", [True, False])
def test_an_answer_of_a_cache_that_a_call_changes(modules: Modules, decorator: str, is_known: bool) -> None:
    text = CACHED.replace("DECORATOR", decorator).replace("ACT", "rows(x).append(5)").replace("TIMES", "1")
    module, account = traced(modules, text, ("times = 1", "times = 2"))
    if is_known:
        module.rows(1)

    module.f(1)

    assert module.rows(1) == [1, 5]
    (reason,) = account.counts()["not_compared"]
    assert reason.startswith("the call changes the answers of rows")


@pytest.mark.parametrize("decorator", ["functools.lru_cache", "functools.cache"])
def test_an_answer_of_a_cache_that_the_other_run_changes_is_put_back(
    modules: Modules, decorator: str
) -> None:
    text = CACHED.replace("DECORATOR", decorator).replace("ACT", "rows(x).append(5)").replace("TIMES", "0")
    module, account = traced(modules, text, ("times = 0", "times = 2"))
    module.rows(1)

    module.f(1)

    assert module.rows(1) == [1]
    (reason,) = account.counts()["not_compared"]
    assert reason.startswith("the other run changes the answers of rows")
    assert reason.endswith("it was put back")


@pytest.mark.parametrize("decorator", ["functools.lru_cache", "functools.cache"])
@pytest.mark.parametrize("act", ["rows(x)", "number(x)", "pass"])
def test_answers_that_nobody_changes_are_no_reason(modules: Modules, decorator: str, act: str) -> None:
    text = CACHED.replace("DECORATOR", decorator).replace("ACT", act).replace("TIMES", "1")
    module, account = traced(modules, text, ("times = 1", "times = 2"))
    module.rows(1)

    module.f(1)

    assert module.rows(1) == [1]
    assert account.outcome() == (1, 0, 0), account.counts()


def test_a_class_that_lets_nobody_set_its_attributes(modules: Modules) -> None:
    text = (
        "import itertools\n\n\nclass Closed(type):\n    def __setattr__(cls, name, value):\n"
        "        raise AttributeError(name)\n\n    __delattr__ = __setattr__\n\n\n"
        "class Pool(metaclass=Closed):\n    ids = itertools.count()\n\n\n"
        "def f():\n    x = 1\n    return next(Pool.ids)\n"
    )
    module, account = traced(modules, text, ("x = 1", "x = 2"))

    assert [module.f(), module.f(), next(module.Pool.ids)] == [0, 1, 2]
    assert account.outcome() == (2, 0, 0), account.counts()
