"""Reach while threads run the reverted function: whoever begins to listen anew hears what runs from then on."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from prtoggle import engine, reach
from prtoggle.installers import probes
from prtoggle.states import Reached
from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_toggle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["modules"]

by_probes = pytest.mark.skipif(sys.version_info >= (3, 13), reason="code is exchanged where probes listen")
LONG = 20.0


class Turns:
    """Lets a thread stop at a place once, until it is told to go on."""

    def __init__(self) -> None:
        self.came, self.go = threading.Event(), threading.Event()

    def stop(self) -> None:
        if not self.came.is_set():
            self.came.set()
            assert self.go.wait(LONG)


@contextlib.contextmanager
def aside(call: Callable[[], object]) -> Iterator[threading.Thread]:
    """Runs a call in a thread that has ended by the end of the block."""
    thread = threading.Thread(target=call)
    thread.start()
    yield thread
    thread.join(LONG)
    assert not thread.is_alive()


@pytest.fixture
def function(modules: Modules) -> Iterator[Callable[[], int]]:
    """A function that gives 2 while its toggle `t` is reverted, which it is, and 1 with its fix."""
    module = modules.load("def f():\n    a = 1\n    return a\n")
    toggle = make_toggle(f"{module.__name__}.f", ("a = 1", "a = 2"), toggle_id="t")
    reach.start()
    with engine.revert([toggle], observe=True):
        yield module.f
    assert module.f() == 1


def is_heard(function: Callable[[], int]) -> bool:
    """Whether what a call reaches is noticed, after whoever asked before has begun anew."""
    reach.restart()
    before = reach.reached("t")
    assert function() == 2
    return not before and reach.reached("t")


@by_probes
def test_listening_anew_waits_for_an_exchange_in_another_thread(
    function: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns()
    exchange = probes.ProbedFunction._exchange

    def slow(self: probes.ProbedFunction, *codes: Any) -> None:
        turns.stop()
        exchange(self, *codes)

    monkeypatch.setattr(probes.ProbedFunction, "_exchange", slow)
    with aside(function):
        assert turns.came.wait(LONG)
        with aside(reach.restart) as restart:
            restart.join(0.2)
            turns.go.set()

    assert function() == 2
    assert reach.reached("t")
    assert is_heard(function)


@by_probes
def test_a_hit_from_before_does_not_count_as_one_since(
    function: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = probes.LOCK
    restarts: list[str] = []

    class Late:
        """Begins anew between a hit and the exchange that it brings about."""

        def acquire(self, *, blocking: bool) -> bool:
            if not restarts:
                restarts.append("once")
                reach.restart()
            return lock.acquire(blocking=blocking)

        def release(self) -> None:
            lock.release()

        def __enter__(self) -> bool:
            return lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    monkeypatch.setattr(probes, "LOCK", Late())
    assert function() == 2
    assert restarts == ["once"]
    assert not reach.reached("t")
    assert function() == 2

    assert reach.reached("t")
    assert is_heard(function)


def test_what_tells_while_somebody_begins_anew_goes_on_listening(function: Callable[[], int]) -> None:
    turns = Turns()
    unsubscribe = engine.subscribe(lambda event: turns.stop() if isinstance(event, Reached) else None)
    with aside(function):
        assert turns.came.wait(LONG)
        reach.restart()
        turns.go.set()
    unsubscribe()

    assert not reach.reached("t")
    assert function() == 2
    assert reach.reached("t")
    assert is_heard(function)


def test_no_function_becomes_deaf_while_threads_call_it(function: Callable[[], int]) -> None:
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            function()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with aside(call), aside(call):
            for _ in range(100):
                reach.restart()
                assert function() == 2
                assert reach.reached("t")
            stop.set()
    finally:
        stop.set()
        sys.setswitchinterval(before)

    assert is_heard(function)
