"""Reach: was reverted code called, was the edited statement reached; told once, at no lasting cost."""

from __future__ import annotations

import asyncio
import gc
import importlib
import itertools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import prtoggle
from prtoggle import engine, reach
from prtoggle.installers import probes
from prtoggle.states import Called, Reached
from tests.prtoggle.made_modules import Modules, modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FunctionType, ModuleType

__all__ = ["modules"]

MONITORED = sys.version_info >= (3, 13)
_serial = itertools.count()

TARGET = '''
LIMIT = 1


def f(x):
    """Doc."""
    a = 1
    if x > 5:
        a = 2
        b = 3
    else:
        a = 4
    return a


def outer(x):
    def inner():
        return x + 1

    return inner


class C:
    def m(self, x):
        yield x
        yield x + 1

    @classmethod
    def c(cls, x):
        return x

    @property
    def p(self):
        return 1


async def co(x):
    return x


async def agen(x):
    yield x


double = lambda x: x * 2


def loop(n, during):
    for i in range(n):
        total = i
        during(i)
    return total


def factory():
    class Made:
        def m(self):
            return 1

    return Made


def one(x): return x + 1


def header(
    x,
    y=1,
):
    return x + y


def multi(x):
    total = [
        x,
        1,
    ]
    return total
'''


class Watched:
    """Toggles of one test, observed, and what the engine told of them."""

    def __init__(self, modules: Modules, *, live: bool, text: str = TARGET) -> None:
        self.name = modules.write(text)
        self.live = live
        self.told: list[tuple[str, str]] = []
        self.handles: list[prtoggle.Handle] = []
        reach.start()
        self.unsubscribe = engine.subscribe(self._note)

    def _note(self, event: object) -> None:
        if isinstance(event, (Called, Reached)) and event.target.startswith(self.name):
            self.told.append((type(event).__name__.lower(), event.toggle_id.split("x")[0]))

    def revert(self, *patches: dict[str, Any]) -> ModuleType:
        """Reverts a toggle for each patch, before or after the import of the module."""
        if self.live:
            importlib.import_module(self.name)
        toggles = [self.toggle(number, patch) for number, patch in enumerate(patches)]
        self.handles.append(engine.revert(toggles, observe=True))
        return importlib.import_module(self.name)

    def toggle(self, number: int, patch: dict[str, Any]) -> prtoggle.Toggle:
        patch = {**patch, "target": f"{self.name}.{patch['target']}"}
        return prtoggle.load(json.dumps({"id": f"t{number}x{next(_serial)}", "patches": [patch]}))

    def news(self) -> set[tuple[str, str]]:
        """What was told since the last time."""
        told, self.told = self.told, []
        assert len(told) == len(set(told))
        return set(told)


@pytest.fixture(params=["at load", "live"])
def watched(request: pytest.FixtureRequest, modules: Modules) -> Iterator[Watched]:
    made = Watched(modules, live=request.param == "live")
    yield made
    made.unsubscribe()
    for handle in reversed(made.handles):
        handle.restore()


def edit(target: str, match: str, replacement: str) -> dict[str, Any]:
    return {"target": target, "edits": [{"match": match, "replacement": replacement}]}


def has_probes(function: FunctionType) -> bool:
    def codes(code: CodeType) -> Iterator[CodeType]:
        yield code
        for const in code.co_consts:
            if isinstance(const, type(code)):
                yield from codes(const)

    return any(probes.NAME in code.co_names for code in codes(function.__code__))


def test_called_and_reached_are_told_apart_and_told_once(watched: Watched) -> None:
    module = watched.revert(edit("f", "a = 2", "a = 20"), edit("f", "a = 4", "a = 40"))
    assert watched.news() == set()

    assert module.f(1) == 40
    assert watched.news() == {("called", "t0"), ("called", "t1"), ("reached", "t1")}
    for _ in range(3):
        assert module.f(1) == 40
    assert watched.news() == set()

    assert module.f(9) == 20
    assert watched.news() == {("reached", "t0")}


def test_questions_are_answered_by_toggle_and_target(watched: Watched) -> None:
    module = watched.revert(edit("f", "a = 2", "a = 20"))
    (toggle,) = watched.handles[0].toggles
    assert not reach.called(toggle.id)

    module.f(1)
    assert reach.called(toggle.id)
    assert reach.called(toggle.id, toggle.targets[0])
    assert not reach.called(toggle.id, "another.target")
    assert not reach.reached(toggle.id)

    module.f(9)
    assert reach.reached(toggle.id, toggle.targets[0])


@pytest.mark.parametrize(
    ("patch", "call"),
    [
        (edit("C.m", "yield x + 1", "yield x + 2"), lambda m: list(m.C().m(1)) == [1, 3]),
        (edit("C.c", "return x", "return x + 1"), lambda m: m.C.c(1) == 2),
        (edit("C.p", "return 1", "return 2"), lambda m: m.C().p == 2),
        (edit("co", "return x", "return x + 1"), lambda m: asyncio.run(m.co(1)) == 2),
        (edit("agen", "yield x", "yield x + 1"), lambda m: asyncio.run(anext(m.agen(1))) == 2),
        (edit("outer", "return x + 1", "return x + 2"), lambda m: m.outer(1)() == 3),
        (edit("factory", "return 1", "return 2"), lambda m: m.factory()().m() == 2),
        (edit("one", "def one(x): return x + 1", "def one(x): return x + 2"), lambda m: m.one(1) == 3),
        (edit("header", "y=1,", "y=2,"), lambda m: m.header(1) == 3),
        (
            edit(
                "outer",
                TARGET[TARGET.index("def outer") : TARGET.index("class C")].rstrip(),
                "def outer(x):\n    return lambda: x + 2",
            ),
            lambda m: m.outer(1)() == 3,
        ),
        (edit("multi", "    1,\n]", "    2,\n]"), lambda m: m.multi(1) == [1, 2]),
    ],
)
def test_every_kind_of_function_tells_and_then_has_no_probe(
    watched: Watched, patch: dict[str, Any], call: Callable[[ModuleType], bool]
) -> None:
    module = watched.revert(patch)

    for _ in range(3):
        assert call(module)

    assert watched.news() == {("called", "t0"), ("reached", "t0")}
    name, _, method = patch["target"].partition(".")
    function = vars(module)[name]
    if method:
        function = vars(function)[method]
        function = getattr(function, "__func__", getattr(function, "fget", function))
    assert not has_probes(function)


def test_functions_made_before_the_first_hit_lose_their_probes_too(watched: Watched) -> None:
    module = watched.revert(edit("outer", "return x + 1", "return x + 2"))
    first, second = module.outer(1), module.outer(2)

    assert (first(), second()) == (3, 4)

    assert not has_probes(first)
    assert not has_probes(second)
    assert not has_probes(module.outer(3))


def test_a_statement_that_is_never_reached_costs_the_callers_nothing(watched: Watched) -> None:
    module = watched.revert(edit("f", "a = 2", "a = 20"))
    module.f(1)
    module.f(1)

    running = module.f.__code__
    names = [const for const in running.co_consts if isinstance(const, str) and const.startswith("prtoggle")]
    assert len(names) == (0 if MONITORED else 1)
    assert module.f(9) == 20
    assert ("reached", "t0") in watched.news()
    assert not has_probes(module.f)


def test_a_deletion_is_reached_where_it_stood_and_not_on_the_other_branch(watched: Watched) -> None:
    module = watched.revert(edit("f", "b = 3", ""), edit("loop", "total = i\n", "total = -i\n"))

    module.f(1)
    assert watched.news() == {("called", "t0")}

    module.f(9)
    assert watched.news() == {("reached", "t0")}


def test_a_frame_that_never_returns_tells_once(watched: Watched) -> None:
    module = watched.revert(edit("loop", "total = i", "total = -i"))
    seen: list[set[tuple[str, str]]] = []

    assert module.loop(4, lambda _: seen.append(watched.news())) == -3

    assert seen == [{("called", "t0"), ("reached", "t0")}, set(), set(), set()]


def test_restored_and_reverted_again_it_runs_without_probes(watched: Watched) -> None:
    module = watched.revert(edit("f", "a = 4", "a = 40"))
    (toggle,) = watched.handles[0].toggles
    assert module.f(1) == 40

    watched.handles.pop().restore()
    assert module.f(1) == 4
    watched.handles.append(engine.revert([toggle], observe=True))

    assert module.f(1) == 40
    assert not has_probes(module.f)


def test_restore_puts_the_original_code_back_at_any_stage(modules: Modules) -> None:
    watched = Watched(modules, live=True)
    original = importlib.import_module(watched.name).f.__code__
    for calls in ([], [1], [1, 1], [1, 1, 9], [9]):
        module = watched.revert(edit("f", "a = 2", "a = 20"))
        for argument in calls:
            module.f(argument)
        watched.handles.pop().restore()
        assert module.f.__code__ is original
    watched.unsubscribe()


def test_module_level_statements_are_reached_when_the_module_runs(modules: Modules) -> None:
    watched = Watched(modules, live=False)
    module = watched.revert({"target": "LIMIT", "value": 7})

    assert module.LIMIT == 7
    assert watched.news() == {("reached", "t0")}
    watched.handles.pop().restore()
    watched.unsubscribe()


def test_a_lambda_tells_when_it_is_called(modules: Modules) -> None:
    watched = Watched(modules, live=True)
    module = watched.revert(edit("double", "double = lambda x: x * 2", "double = lambda x: x * 3"))
    assert watched.news() == set()

    assert (module.double(1), module.double(1)) == (3, 3)

    assert watched.news() == {("called", "t0"), ("reached", "t0")}
    assert not has_probes(module.double)
    watched.handles.pop().restore()
    watched.unsubscribe()


def test_a_lambda_that_was_born_reverted_tells_when_it_is_called(tmp_path: Path) -> None:
    # In a process of its own: a statement that ran reverted cannot be put back.
    (tmp_path / "made.py").write_text("double = lambda x: x * 2\n", encoding="utf-8")
    spec = {
        "id": "1",
        "patches": [edit("made.double", "double = lambda x: x * 2", "double = lambda x: x * 3")],
    }
    script = f"""
import prtoggle
from prtoggle import engine, reach
reach.start()
engine.revert([prtoggle.load({json.dumps(json.dumps(spec))})], observe=True)
import made
assert not reach.reached("1")
assert (made.double(1), made.double(1)) == (3, 3)
assert reach.called("1") and reach.reached("1")
assert {probes.NAME!r} not in made.double.__code__.co_names
"""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env={"PYTHONPATH": str(root)}, check=True)


def test_a_wrapper_tells_when_it_is_called(watched: Watched, modules: Modules) -> None:
    wrappers = modules.write("def plus(wrapped, instance, args, kwargs):\n    return wrapped(*args) + 100\n")
    module = watched.revert({"target": "f", "wrap": f"{wrappers}:plus"})
    assert watched.news() == set()

    assert (module.f(1), module.f(1)) == (104, 104)

    assert watched.news() == {("called", "t0"), ("reached", "t0")}


def test_an_unobserved_toggle_on_the_same_function_does_not_end_the_watch(watched: Watched) -> None:
    module = watched.revert(edit("f", "a = 2", "a = 20"))
    other = watched.toggle(1, edit("f", "a = 4", "a = 40"))

    with engine.revert([other]):
        assert module.f(1) == 40
        assert ("called", "t0") in watched.news()
    with engine.revert([other]):
        assert module.f(9) == 20
        assert ("reached", "t0") in watched.news()

    assert (module.f(1), module.f(9)) == (4, 20)
    assert ("called", "t0") not in watched.news()


def test_a_toggle_that_was_reverted_unobserved_before_is_observed_when_asked(modules: Modules) -> None:
    watched = Watched(modules, live=True)
    module = importlib.import_module(watched.name)
    made = watched.toggle(0, edit("f", "a = 4", "a = 40"))
    with engine.revert([made]):
        assert module.f(1) == 40
    assert watched.news() == set()

    with engine.revert([made], observe=True):
        assert module.f(1) == 40

    assert watched.news() == {("called", "t0"), ("reached", "t0")}
    assert module.f(1) == 4
    watched.unsubscribe()


def test_unobserved_toggles_have_no_probes(modules: Modules) -> None:
    watched = Watched(modules, live=True)
    module = importlib.import_module(watched.name)
    handle = engine.revert([watched.toggle(0, edit("f", "a = 4", "a = 40"))])

    assert not has_probes(module.f)
    assert module.f(1) == 40
    assert watched.news() == set()

    handle.restore()
    watched.unsubscribe()


def test_what_a_subscriber_raises_stays_out_of_the_program(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reported.append(report.exc_value))

    def fail(event: object) -> None:
        if isinstance(event, (Called, Reached)):
            raise ValueError(event)  # noqa: TRY004  # any error would do

    module = watched.revert(edit("f", "a = 4", "a = 40"))
    unsubscribe = engine.subscribe(fail)
    assert module.f(1) == 40
    unsubscribe()

    assert [type(error) for error in reported] == [ValueError, ValueError]


def test_threads_get_right_answers_while_probes_go_out(watched: Watched) -> None:
    module = watched.revert(edit("f", "a = 4", "a = 40"), edit("f", "a = 2", "a = 20"))
    wrong: list[object] = []
    begin = threading.Barrier(4)

    def work() -> None:
        begin.wait()
        wrong.extend(answer for _ in range(300) if (answer := (module.f(1), module.f(9))) != (40, 20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
    assert not has_probes(module.f)
    assert set(watched.told) == {(what, who) for what in ("called", "reached") for who in ("t0", "t1")}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_starts_from_nothing(watched: Watched) -> None:
    module = watched.revert(edit("f", "a = 4", "a = 40"))
    module.f(1)
    (toggle,) = watched.handles[0].toggles
    assert reach.reached(toggle.id)

    child = os.fork()
    if not child:
        before = reach.reached(toggle.id) or reach.called(toggle.id)
        answers = [module.f(1), module.f(1)]
        good = not before and answers == [40, 40] and reach.reached(toggle.id) and not has_probes(module.f)
        os._exit(0 if good else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_toggles_that_come_and_go_leave_nothing(modules: Modules) -> None:
    watched = Watched(modules, live=True)

    module = watched.revert(edit("f", "a = 2", "a = 20"))
    watched.handles.pop().restore()
    toggle = watched.toggle(0, edit("f", "a = 2", "a = 20"))

    def once() -> None:
        with engine.revert([toggle], observe=True):
            assert module.f(1) == 4

    for _ in range(3):
        once()
    gc.collect()
    before = len(probes._by_name), len(probes._functions)
    for _ in range(20):
        once()
    gc.collect()

    assert (len(probes._by_name), len(probes._functions)) == before
    watched.unsubscribe()
