"""Several toggles on one function: its code is all their edits applied to the original text, in any order."""

from __future__ import annotations

import importlib
import itertools
import os

import pytest

import prtoggle
from prtoggle import engine
from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_patch, make_toggle, toggle_of

__all__ = ["modules"]

TEXT = """
PAD = 0

def other(x):
    a = x + 1
    return a

def f(x):
    a = x + 1
    b = x + 2
    c = x + 3
    return (a, b, c)
"""
EDITS = {"a": ("a = x + 1", "a = 10"), "b": ("b = x + 2", "b = 20\nb += 1"), "c": ("c = x + 3", "c = 30")}
FIXED = {"a": 1, "b": 2, "c": 3}
REVERTED = {"a": 10, "b": 21, "c": 30}


def expected(active: set[str]) -> tuple[int, ...]:
    return tuple(REVERTED[name] if name in active else FIXED[name] for name in "abc")


@pytest.mark.parametrize("off", list(itertools.permutations("abc")), ids="".join)
@pytest.mark.parametrize("on", list(itertools.permutations("abc")), ids="".join)
def test_toggles_go_on_and_off_in_any_order(
    modules: Modules, on: tuple[str, ...], off: tuple[str, ...]
) -> None:
    module = modules.load(TEXT)
    code, active, handles = module.f.__code__, set(), {}
    for name in on:
        handles[name] = prtoggle.revert(make_toggle(f"{module.__name__}.f", EDITS[name]))
        active.add(name)
        assert module.f(0) == expected(active)
    for name in off:
        handles[name].restore()
        active.discard(name)
        assert module.f(0) == expected(active)

    assert module.f.__code__ is code
    assert module.other(0) == 1


@pytest.mark.parametrize("off", list(itertools.permutations("abc")), ids="".join)
@pytest.mark.parametrize("loaded_with", ["a", "ab", "abc", "bc"])
def test_toggles_of_the_load_and_later_ones_go_off_in_any_order(
    modules: Modules, loaded_with: str, off: tuple[str, ...]
) -> None:
    name = modules.write(TEXT)
    handles = {key: prtoggle.revert(make_toggle(f"{name}.f", EDITS[key])) for key in loaded_with}
    module = importlib.import_module(name)
    active = set(loaded_with)
    assert module.f(0) == expected(active)
    for key in set("abc") - active:
        handles[key] = prtoggle.revert(make_toggle(f"{name}.f", EDITS[key]))
        active.add(key)
        assert module.f(0) == expected(active)
    for key in off:
        handles[key].restore()
        active.discard(key)
        assert module.f(0) == expected(active)


def test_overlapping_edits_are_refused_and_both_toggles_named(modules: Modules) -> None:
    module = modules.load(TEXT)
    first = make_toggle(f"{module.__name__}.f", EDITS["a"], toggle_id="first")
    second = make_toggle(f"{module.__name__}.f", ("a = x + 1\nb = x + 2", "a = b = 0"), toggle_id="second")
    with prtoggle.reverted(first):
        code = module.f.__code__
        with pytest.raises(prtoggle.EditOverlapError, match="first") as caught:
            prtoggle.revert(second)

        assert set(caught.value.toggles) == {"first", "second"}
        assert module.f.__code__ is code
    with prtoggle.reverted(second):
        assert module.f(0) == (0, 0, 3)


def test_overlap_is_refused_for_a_module_that_is_not_loaded(modules: Modules) -> None:
    name = modules.write(TEXT)
    first = make_toggle(f"{name}.f", EDITS["a"])
    second = make_toggle(f"{name}.f", ("a = x + 1\nb = x + 2", "a = b = 0"))
    with prtoggle.reverted(first):
        with pytest.raises(prtoggle.EditOverlapError):
            prtoggle.revert(second)
        assert importlib.import_module(name).f(0) == (10, 2, 3)


def test_two_toggles_that_empty_a_block_together_leave_a_pass(modules: Modules) -> None:
    module = modules.load("def f(x):\n    if x:\n        x += 1\n        x += 2\n    return x\n")
    one = make_toggle(f"{module.__name__}.f", ("x += 1", ""))
    two = make_toggle(f"{module.__name__}.f", ("x += 2", ""))
    with prtoggle.reverted(one), prtoggle.reverted(two):
        assert module.f(1) == 1
    assert module.f(1) == 4


def test_a_toggle_that_is_held_twice_is_in_force_once_until_both_let_go(modules: Modules) -> None:
    module = modules.load("def f():\n    y = 0\n    y += 1\n    return y\n")
    toggle = make_toggle(f"{module.__name__}.f", ("y += 1", "y += 1\ny += 10"))
    same = prtoggle.Toggle(id=toggle.id, patches=toggle.patches)
    first, second = prtoggle.revert(toggle), prtoggle.revert(same)
    assert module.f() == 11
    first.restore()
    first.restore()
    assert module.f() == 11
    second.restore()
    assert module.f() == 1


def test_one_id_with_other_contents_is_refused_while_the_first_is_on(modules: Modules) -> None:
    module = modules.load(TEXT)
    first = make_toggle(f"{module.__name__}.f", EDITS["a"], toggle_id="same")
    second = make_toggle(f"{module.__name__}.f", EDITS["b"], toggle_id="same")
    with prtoggle.reverted(first):
        with pytest.raises(prtoggle.ConflictError, match="same is reverted already"):
            prtoggle.revert(second)
        assert module.f(0) == expected({"a"})
    with prtoggle.reverted(second):
        assert module.f(0) == expected({"b"})
    assert module.f(0) == expected(set())


def test_the_same_toggle_twice_in_one_call_counts_once(modules: Modules) -> None:
    module = modules.load(TEXT)
    toggle = make_toggle(f"{module.__name__}.f", EDITS["a"])
    handle = prtoggle.revert(toggle, toggle)
    assert handle.toggles == (toggle,)
    handle.restore()
    assert module.f(0) == expected(set())


def test_conflicts_and_requirements_are_respected(modules: Modules) -> None:
    module = modules.load(TEXT)
    target = f"{module.__name__}.f"
    base = toggle_of(make_patch(target, EDITS["a"]), toggle_id="base")
    needs = toggle_of(make_patch(target, EDITS["b"]), toggle_id="needs", requires=("base",))
    hates = toggle_of(make_patch(target, EDITS["c"]), toggle_id="hates", conflicts=("base",))
    with pytest.raises(prtoggle.ConflictError, match="needs requires base"):
        prtoggle.revert(needs)
    with pytest.raises(prtoggle.ConflictError, match="hates and base"):
        prtoggle.revert(base, hates)
    assert module.f(0) == expected(set())

    held = prtoggle.revert(base)
    with pytest.raises(prtoggle.ConflictError, match="hates and base"):
        prtoggle.revert(hates)
    other = prtoggle.revert(needs)
    with pytest.raises(prtoggle.ConflictError, match="base cannot be restored while needs"):
        held.restore()
    assert module.f(0) == expected({"a", "b"})
    other.restore()
    held.restore()
    assert module.f(0) == expected(set())
    with prtoggle.reverted(needs, base):
        assert module.f(0) == expected({"a", "b"})


def test_the_variables_of_a_toggle_come_and_go_with_it(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = modules.load(TEXT)
    monkeypatch.setenv("MADE_SET", "before")
    monkeypatch.delenv("MADE_UNSET", raising=False)
    toggle = toggle_of(
        make_patch(f"{module.__name__}.f", EDITS["a"]), env={"MADE_SET": "1", "MADE_UNSET": "2"}
    )

    with prtoggle.reverted(toggle):
        assert (os.environ["MADE_SET"], os.environ["MADE_UNSET"]) == ("1", "2")
    assert os.environ["MADE_SET"] == "before"
    assert "MADE_UNSET" not in os.environ


def test_events_tell_what_happened(modules: Modules) -> None:
    loaded, name = modules.load(TEXT), modules.write(TEXT)
    live = make_toggle(f"{loaded.__name__}.f", EDITS["a"], toggle_id="live")
    later = make_toggle(f"{name}.f", EDITS["a"], toggle_id="later")
    seen: list[tuple[str, str]] = []
    stop = engine.subscribe(lambda event: seen.append((type(event).__name__, event.toggle_id)))
    with prtoggle.reverted(live, later):
        importlib.import_module(name)
    stop()
    with prtoggle.reverted(live):
        pass

    assert seen == [
        ("Activated", "live"),
        ("Armed", "later"),
        ("Loaded", "later"),
        ("Activated", "later"),
        ("Restored", "live"),
        ("Restored", "later"),
    ]


def test_functions_made_by_a_function_that_was_born_reverted_follow_its_restoring(modules: Modules) -> None:
    name = modules.write(
        "import functools\ndef deco(fn):\n    @functools.wraps(fn)\n    def inner(x):\n        return fn(x) + 1\n"
        "    return inner\n@deco\ndef f(x):\n    return x\n@deco\ndef g(x):\n    return -x\n"
    )
    one = make_toggle(f"{name}.deco", ("return fn(x) + 1", "return fn(x) + 10"))
    two = make_toggle(f"{name}.deco", ("return inner", "inner.seen = 1\nreturn inner"))
    first, second = prtoggle.revert(one), prtoggle.revert(two)
    module = importlib.import_module(name)
    assert (module.f(0), module.g(1)) == (10, 9)
    first.restore()
    assert (module.f(0), module.g(1)) == (1, 0)
    second.restore()
    assert (module.f(0), module.g(1)) == (1, 0)


def test_a_function_without_a_fixed_counterpart_makes_restoring_fail_loudly(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = modules.write(
        "def make(k, b):\n    def g(x):\n        return x * k + b\n    return g\ng = make(2, 5)\n"
    )
    monkeypatch.setattr(engine, "_engine", engine.Engine())
    handle = prtoggle.revert(make_toggle(f"{name}.make", ("return x * k + b", "return x * k")))
    module = importlib.import_module(name)
    with pytest.raises(prtoggle.RestoreError, match="makes no such function otherwise"):
        handle.restore()

    assert (module.g(1), module.make(2, 5)(1)) == (2, 2)
    engine._engine.loading.stop()


@pytest.mark.parametrize("first_out", ["t", "u"])
@pytest.mark.parametrize("before", [None, "0"])
def test_a_variable_that_two_toggles_set_stays_until_both_are_restored(
    modules: Modules, monkeypatch: pytest.MonkeyPatch, before: str | None, first_out: str
) -> None:
    monkeypatch.delenv("MADE_SHARED", raising=False)
    monkeypatch.delenv("MADE_OWN", raising=False)
    if before is not None:
        monkeypatch.setenv("MADE_SHARED", before)
    module = modules.load(TEXT)
    t = toggle_of(make_patch(f"{module.__name__}.f", EDITS["a"]), env={"MADE_SHARED": "1"})
    u = toggle_of(make_patch(f"{module.__name__}.f", EDITS["b"]), env={"MADE_SHARED": "1", "MADE_OWN": "2"})
    handles = {"t": prtoggle.revert(t), "u": prtoggle.revert(u)}

    handles.pop(first_out).restore()
    assert os.environ["MADE_SHARED"] == "1"
    assert os.environ.get("MADE_OWN") == ("2" if first_out == "t" else None)

    handles.popitem()[1].restore()
    assert (os.environ.get("MADE_SHARED"), os.environ.get("MADE_OWN")) == (before, None)

    together = prtoggle.revert(t, u)
    assert os.environ["MADE_SHARED"] == "1"
    together.restore()
    assert (os.environ.get("MADE_SHARED"), os.environ.get("MADE_OWN")) == (before, None)


def test_restoring_needs_no_name_that_is_gone_for_a_moment(modules: Modules) -> None:
    module = modules.load("NAME = 1\ndef f():\n    x = NAME\n    return x\n")
    with prtoggle.reverted(make_toggle(f"{module.__name__}.f", ("x = NAME", "x = 2"))):
        assert module.f() == 2
    name = modules.write("NAME = 1\ndef f():\n    x = NAME\n    return x\n")
    with prtoggle.reverted(make_toggle(f"{name}.f", ("x = NAME", "x = 2"))):
        born = importlib.import_module(name)
        assert born.f() == 2
        del vars(born)["NAME"]
    vars(born)["NAME"] = 3
    assert born.f() == 3
