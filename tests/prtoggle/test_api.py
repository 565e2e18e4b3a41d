"""The public verbs: what they accept, what they give, how long they hold."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

import prtoggle
from prtoggle import engine
from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_toggle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from pathlib import Path

__all__ = ["modules"]

TEXT = "def f():\n    return 1\n"


@pytest.fixture
def toggle(modules: Modules) -> prtoggle.Toggle:
    name = modules.write(TEXT)
    importlib.import_module(name)
    return make_toggle(f"{name}.f", ("return 1", "return 2"))


@pytest.fixture
def f(toggle: prtoggle.Toggle) -> Callable[[], int]:
    function: Callable[[], int] = sys.modules[toggle.targets[0].rpartition(".")[0]].f
    return function


def test_revert_needs_a_toggle() -> None:
    with pytest.raises(TypeError, match="at least one toggle"):
        prtoggle.revert()
    with pytest.raises(TypeError, match="at least one toggle"):
        prtoggle.reverted()


def test_the_handle_tells_what_it_holds(toggle: prtoggle.Toggle, f: Callable[[], int]) -> None:
    handle = prtoggle.revert(toggle)
    assert handle.toggles == (toggle,)
    assert repr(handle) == f"<prtoggle.Handle {toggle.id}: reverted>"
    assert [state.toggle.id for state in prtoggle.active()] == [toggle.id]
    handle.restore()
    assert handle.is_restored
    assert repr(handle).endswith(": restored>")
    assert prtoggle.active() == []


def test_a_handle_is_a_context_manager(toggle: prtoggle.Toggle, f: Callable[[], int]) -> None:
    with prtoggle.revert(toggle) as handle:
        assert f() == 2
    assert handle.is_restored
    assert f() == 1


def test_the_fix_comes_back_after_an_exception(toggle: prtoggle.Toggle, f: Callable[[], int]) -> None:
    def fail() -> None:
        with prtoggle.reverted(toggle):
            raise ZeroDivisionError(f())

    with pytest.raises(ZeroDivisionError, match="2"):
        fail()
    assert f() == 1


def test_a_handle_is_entered_once(toggle: prtoggle.Toggle, f: Callable[[], int]) -> None:
    handle = prtoggle.revert(toggle)
    with handle:
        with pytest.raises(RuntimeError, match="is entered already"):
            handle.__enter__()
        assert f() == 2
    with pytest.raises(RuntimeError, match=r"restored its toggles already.*prtoggle\.reverted"):
        handle.__enter__()
    assert f() == 1


@pytest.mark.parametrize("verb", [prtoggle.revert, prtoggle.reverted])
@pytest.mark.parametrize("wrong", [["1"], len, True, None], ids=str)
def test_what_is_no_toggle_is_refused(verb: Callable[[object], object], wrong: object) -> None:
    with pytest.raises(TypeError, match="takes ids and Toggle values, each as an argument of its own"):
        verb(wrong)
    assert prtoggle.active() == []


@pytest.mark.parametrize(
    "target", [type("TestIt", (), {}), property(len), 1], ids=["class", "property", "int"]
)
def test_it_decorates_nothing_but_functions(toggle: prtoggle.Toggle, target: Any) -> None:
    with pytest.raises(TypeError, match="reverted decorates functions, and"):
        prtoggle.reverted(toggle)(target)


def test_it_decorates_static_and_class_methods(toggle: prtoggle.Toggle, f: Callable[[], int]) -> None:
    class Owner:
        @prtoggle.reverted(toggle)
        @staticmethod
        def static(extra: int) -> int:
            return f() + extra

        @prtoggle.reverted(toggle)
        @classmethod
        def of_class(cls) -> tuple[type, int]:
            return cls, f()

    assert (Owner.static(1), Owner().static(1), Owner().of_class()) == (3, 3, (Owner, 2))


def test_what_another_decorator_hid_runs_reverted(toggle: prtoggle.Toggle, f: Callable[[], int]) -> None:
    def hide(function: Callable[[], Any]) -> Callable[[], Any]:
        def plain() -> Any:
            return function()

        return plain

    async def coroutine() -> int:
        await asyncio.sleep(0)
        return f()

    def generator() -> Generator[int, None, int]:
        yield f()
        return f()

    async def asynchronous() -> AsyncIterator[int]:
        yield f()

    class Callee:
        async def __call__(self) -> int:
            await asyncio.sleep(0)
            return f()

    async def collected(items: AsyncIterator[int]) -> list[int]:
        return [item async for item in items]

    reverted = prtoggle.reverted(toggle)
    assert asyncio.run(reverted(hide(coroutine))()) == 2
    assert list(reverted(hide(generator))()) == [2]
    assert asyncio.run(collected(reverted(hide(asynchronous))())) == [2]
    assert asyncio.run(reverted(Callee())()) == 2
    assert asyncio.run(reverted(functools.partial(coroutine))()) == 2
    assert f() == 1


def test_reverted_may_be_entered_again_inside_itself(toggle: prtoggle.Toggle, f: Callable[[], int]) -> None:
    block = prtoggle.reverted(toggle)
    with block:
        with block:
            assert f() == 2
        assert f() == 2
    assert f() == 1


def test_it_decorates_a_function_and_keeps_its_result_and_name(
    toggle: prtoggle.Toggle, f: Callable[[], int]
) -> None:
    @prtoggle.reverted(toggle)
    def call(a: int, *, b: int) -> tuple[int, int, int]:
        """Its doc."""
        return a, b, f()

    assert call(1, b=3) == (1, 3, 2)
    assert (call.__name__, call.__doc__) == ("call", "Its doc.")
    assert f() == 1


def test_it_decorates_a_generator_for_as_long_as_it_runs(
    toggle: prtoggle.Toggle, f: Callable[[], int]
) -> None:
    @prtoggle.reverted(toggle)
    def values(n: int) -> Generator[object, object, str]:
        got = yield f()
        yield got, n
        return "end"

    assert inspect.isgeneratorfunction(values)
    running = values(7)
    assert f() == 1
    assert next(running) == 2
    assert f() == 2
    assert running.send("sent") == ("sent", 7)
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert stop.value.value == "end"
    assert f() == 1


def test_it_decorates_coroutines_and_asynchronous_generators(
    toggle: prtoggle.Toggle, f: Callable[[], int]
) -> None:
    @prtoggle.reverted(toggle)
    async def one() -> int:
        await asyncio.sleep(0)
        return f()

    @prtoggle.reverted(toggle)
    async def many() -> AsyncIterator[int]:
        for _ in range(2):
            await asyncio.sleep(0)
            yield f()

    async def main() -> tuple[int, list[int]]:
        return await one(), [item async for item in many()]

    assert inspect.iscoroutinefunction(one)
    assert inspect.isasyncgenfunction(many)
    assert asyncio.run(main()) == (2, [2, 2])
    assert f() == 1


def test_ids_come_from_the_catalogue(
    tmp_path: Path, modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = modules.load(TEXT)
    (tmp_path / "toggles").mkdir()
    (tmp_path / "toggles" / "77.yaml").write_text(
        f"patches:\n- target: {module.__name__}.f\n  edits: [{{match: return 1, replacement: return 7}}]\n"
    )
    monkeypatch.setenv("PRTOGGLE_PATH", str(tmp_path / "toggles"))
    with prtoggle.reverted(77):
        assert module.f() == 7
    with prtoggle.reverted("77"):
        assert module.f() == 7
    with pytest.raises(prtoggle.UnknownToggleError, match="78"):
        prtoggle.revert(78)
    assert module.f() == 1


def test_every_public_name_is_there() -> None:
    assert dir(prtoggle) == sorted(prtoggle.__all__)
    for name in prtoggle.__all__:
        assert getattr(prtoggle, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        prtoggle.no_such_name  # noqa: B018  # the access is the test


def test_the_environment_may_name_a_module_that_is_found_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "later"
    (folder / "made_late").mkdir(parents=True)
    (folder / "made_late" / "__init__.py").write_text("")
    (folder / "made_late" / "inner.py").write_text(TEXT)
    toggle = make_toggle("made_late.inner.f", ("return 1", "return 2"))
    with pytest.raises(prtoggle.TargetModuleError, match="no module named made_late"):
        prtoggle.revert(toggle)

    with engine.revert([toggle], origin="env"):
        (state,) = prtoggle.active()
        assert (state.state, state.patches[0].note) == ("armed", "no module of that name was found yet")
        monkeypatch.syspath_prepend(str(folder))
        module = importlib.import_module("made_late.inner")
        assert module.f() == 2
        assert prtoggle.active()[0].state == "active"
    assert module.f() == 1
    for name in ("made_late.inner", "made_late"):
        del sys.modules[name]


def test_a_module_found_later_that_lacks_the_target_fails_its_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "later"
    (folder / "made_poor").mkdir(parents=True)
    (folder / "made_poor" / "__init__.py").write_text("")
    with engine.revert([make_toggle("made_poor.gone.f", ("return 1", "return 2"))], origin="env"):
        monkeypatch.syspath_prepend(str(folder))
        with pytest.raises(prtoggle.TargetError, match="does not define gone"):
            importlib.import_module("made_poor")
        assert prtoggle.active()[0].state == "failed"
    assert "made_poor" not in sys.modules


def test_plans_of_idle_toggles_do_not_pile_up(modules: Modules) -> None:
    module = modules.load("def f():\n    y = 0\n    return y\n")
    for number in range(600):
        with prtoggle.reverted(make_toggle(f"{module.__name__}.f", ("y = 0", f"y = {number + 1}"))):
            assert module.f() == number + 1

    assert len(engine._engine._slots) <= 256


def test_an_edited_or_shadowing_spec_counts_at_the_next_call(
    tmp_path: Path, modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = modules.load(TEXT)
    text = (
        f"patches:\n- target: {module.__name__}.f\n  edits: [{{match: return 1, replacement: return %d}}]\n"
    )
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    (second / "88.yaml").write_text(text % 2)
    monkeypatch.setenv("PRTOGGLE_PATH", os.pathsep.join([str(first), str(second)]))
    seen = []

    def look() -> None:
        with prtoggle.reverted(88):
            seen.append(module.f())

    look()
    look()
    (second / "88.yaml").write_text(text % 3)
    os.utime(second / "88.yaml", (1, 1))
    look()
    (first / "88.yaml").write_text(text % 4)
    look()
    monkeypatch.setenv("PRTOGGLE_PATH", str(second))
    look()

    assert seen == [2, 2, 3, 4, 3]
