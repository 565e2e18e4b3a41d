"""Flips are exact, leave nothing behind, and never show a caller a mixture."""

from __future__ import annotations

import gc
import linecache
import sys
import threading
import traceback
import weakref

import pytest

import prtoggle
from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_toggle

__all__ = ["modules"]

TEXT = """
import threading

def f(x, k=1):
    y = x + k
    return y, k

class Gate:
    inside, go = threading.Event(), threading.Event()

def wait(x):
    Gate.inside.set()
    Gate.go.wait(10)
    return x + 1

def gen(n):
    for i in range(n):
        yield i
"""


def test_callers_see_one_of_the_two_answers_and_never_a_mixture(modules: Modules) -> None:
    module = modules.load(TEXT)
    toggle = make_toggle(
        f"{module.__name__}.f", ("def f(x, k=1):\n    y = x + k\n    return y, k",
                                 "def f(x, extra=5, k=2):\n    y = x + k + extra\n    return y, k, extra")
    )  # fmt: skip
    answers, errors, stop = set(), [], threading.Event()

    def call() -> None:
        while not stop.is_set():
            try:
                answers.add(module.f(0))
            except Exception as error:  # noqa: BLE001  # reported below
                errors.append(error)
                return

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2000):
            prtoggle.revert(toggle).restore()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)

    assert errors == []
    assert answers <= {(1, 1), (7, 2, 5)}
    assert module.f(0) == (1, 1)


def test_threads_that_flip_different_toggles_of_one_function_do_not_lose_any(modules: Modules) -> None:
    module = modules.load("def f():\n    a = 1\n    b = 1\n    c = 1\n    d = 1\n    return a, b, c, d\n")
    code = module.f.__code__
    errors: list[BaseException] = []

    def flip(name: str) -> None:
        toggle = make_toggle(f"{module.__name__}.f", (f"{name} = 1", f"{name} = 2"))
        try:
            for _ in range(100):
                with prtoggle.reverted(toggle):
                    assert module.f()["abcd".index(name)] == 2
        except BaseException as error:  # noqa: BLE001  # reported below
            errors.append(error)

    threads = [threading.Thread(target=flip, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert module.f.__code__ is code


def test_a_call_in_flight_ends_on_the_code_it_began_with(modules: Modules) -> None:
    module = modules.load(TEXT)
    running, got = module.gen(3), []
    assert next(running) == 0
    thread = threading.Thread(target=lambda: got.append(module.wait(1)))
    thread.start()
    module.Gate.inside.wait(10)
    with prtoggle.reverted(
        make_toggle(f"{module.__name__}.wait", ("return x + 1", "return x + 100")),
        make_toggle(f"{module.__name__}.gen", ("yield i", "yield -i")),
    ):
        module.Gate.go.set()
        thread.join()
        assert (got, list(running)) == ([2], [1, 2])
        assert (module.wait(1), list(module.gen(3))) == (101, [0, -1, -2])
    assert (module.wait(1), list(module.gen(3))) == (2, [0, 1, 2])


@pytest.mark.parametrize("distinct", [1, 50])
def test_ten_thousand_flips_leave_nothing_behind(modules: Modules, distinct: int) -> None:
    module = modules.load(TEXT)
    code = module.f.__code__
    toggles = [
        make_toggle(f"{module.__name__}.f", ("y = x + k", f"y = x + k + {n}"), toggle_id="flipped")
        for n in range(distinct)
    ]
    for toggle in toggles:
        prtoggle.revert(toggle).restore()
    gc.collect()
    entries, objects, blocks = len(linecache.cache), len(gc.get_objects()), sys.getallocatedblocks()
    for number in range(10_000 if distinct == 1 else 500):
        prtoggle.revert(toggles[number % distinct]).restore()
    gc.collect()

    assert len(linecache.cache) <= entries
    assert abs(len(gc.get_objects()) - objects) < 50
    # What is no container, such as the text of a version, is seen in the memory alone.
    assert sys.getallocatedblocks() - blocks < 200
    assert module.f.__code__ is code


def test_a_function_that_is_gone_is_not_kept_alive_by_its_toggle(modules: Modules) -> None:
    module = modules.load(TEXT)
    name = module.__name__
    prtoggle.revert(make_toggle(f"{name}.f", ("y = x + k", "y = x"), toggle_id="short-lived")).restore()
    other = make_toggle(f"{name}.wait", ("return x + 1", "return x"), toggle_id="short-lived")
    prtoggle.revert(other).restore()
    gone = weakref.ref(module.f)
    del module.f
    gc.collect()

    assert gone() is None


def test_a_traceback_shows_the_text_that_runs_also_after_the_flip(modules: Modules) -> None:
    module = modules.load(
        "PAD = 1\n\ndef f(x):\n    y = x\n    return boom(y)\n\ndef boom(y):\n    return 1 // y\n"
    )
    caught: list[BaseException] = []
    with prtoggle.reverted(make_toggle(f"{module.__name__}.f", ("y = x", "y = x\ny = y * 0"))):
        try:
            module.f(1)
        except ZeroDivisionError as error:
            caught.append(error)
    first, second = traceback.extract_tb(caught[0].__traceback__)[-2:]

    assert (first.lineno, first.line) == (6, "return boom(y)")
    assert (second.filename, second.lineno, second.line) == (module.__file__, 8, "return 1 // y")
