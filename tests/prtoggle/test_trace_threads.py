"""Threads of the other run belong to it; and tracebacks show none of the frames in between."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import pytest

from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_patch, toggle_of
from tests.prtoggle.traced_modules import trace, traced

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["modules"]

THREADS = """
import threading
from concurrent.futures import ThreadPoolExecutor


def inner(x):
    k = 1
    print("inner", k)
    return x + k


def by_pool(x):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(inner, x).result()


def by_thread(x):
    got = []
    thread = threading.Thread(target=lambda: got.append(inner(x)))
    thread.start()
    thread.join()
    return got[0]


def by_threads_thread(x):
    got = []
    thread = threading.Thread(target=lambda: got.append(by_thread(x)))
    thread.start()
    thread.join()
    return got[0]


POOL = ThreadPoolExecutor(3)


def by_pool_of_all(x):
    return POOL.submit(inner, x).result()


def outer(x):
    v = 1
    return START(x) * v


START = None
"""


@pytest.mark.parametrize("start", ["by_pool", "by_pool_of_all", "by_thread", "by_threads_thread"])
def test_a_thread_of_the_other_run_runs_the_other_variants(
    modules: Modules, start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = modules.load(THREADS.replace("START = None", f"START = {start}"))
    name = module.__name__
    account = trace(
        toggle_of(
            make_patch(f"{name}.inner", ("k = 1", "k = 2")),
            make_patch(f"{name}.outer", ("v = 1", "v = 1 + 0")),
        )
    )

    assert module.outer(3) == 4

    assert [(event["function"], event["fixed"], event["reverted"]) for event in account.differences] == [
        (f"{name}.inner", "4", "5"),
        (f"{name}.outer", "4", "5"),
    ]
    assert account.counts()["calls"] == 2
    assert capsys.readouterr().out == "inner 1\n"
    # A worker that the other run brought into being serves the program.
    assert [module.POOL.submit(module.inner, x).result() for x in range(9)] == list(range(1, 10))
    module.POOL.shutdown()


def _raising(function: Callable[[], Any]) -> list[tuple[str, str, int]]:
    try:
        function()
    except ValueError as error:
        entries = traceback.extract_tb(error.__traceback__)
        return [(entry.filename, entry.name, entry.lineno or 0) for entry in entries]
    raise AssertionError


@pytest.mark.parametrize("calls", [1, 2], ids=["not compared", "compared"])
def test_a_traceback_shows_the_program_only(modules: Modules, calls: int) -> None:
    text = "def g():\n    raise ValueError\n\n\ndef f():\n    k = 1\n    if k:\n        g()\n"
    module, account = traced(modules, text, ("k = 1", "k = 0"), calls=calls)
    _raising(module.f)

    first, *shown = _raising(module.f)

    assert (first[0], first[1]) == (__file__, "_raising")
    path = module.__file__
    assert shown == [(path, "f", 5), (path, "f", 8), (path, "g", 2)]
    assert account.outcome() == (0, calls, 2 - calls)
