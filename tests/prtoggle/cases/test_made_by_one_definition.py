"""All functions that one definition made follow it, and no cache around any of them keeps an old answer."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

import pytest

import prtoggle
from tests.prtoggle.cases.moments import AT_LOAD, live, patch, toggle, world

if TYPE_CHECKING:
    from tests.prtoggle.cases.moments import World

__all__ = ["live", "world"]

SHARED = {
    "a loop": ("F = []\nfor i in range(3):\n    def f(x, i=i):\n        return x + i + 1\n    F.append(f)\n", "[f(1) for f in F]", [2, 3, 4], [101, 102, 103]),
    "copies": ("import types\ndef f(x):\n    return x + i + 1\ng = types.FunctionType(f.__code__, globals())\ni = 0\n", "[f(1), g(1)]", [2, 2], [101, 101]),
    "a cached copy": (
        "import functools, types\ni = 0\ndef f(x):\n    return x + i + 1\ng = functools.cache(types.FunctionType(f.__code__, globals()))\n",
        "[f(1), g(1)]", [2, 2], [101, 101],
    ),
    "a cache beside it": (
        "import functools\ni = 0\ndef f(x):\n    return x + i + 1\nclass C:\n    quick = functools.lru_cache(f)\n", "[f(1), C.quick(1)]", [2, 2], [101, 101],
    ),
    "a cache around a wrapper beside it": (
        "import functools\ni = 0\ndef f(x):\n    return x + i + 1\ndef wrap(fn):\n    return lambda x: [fn(x)]\nTABLE = {'a': [functools.lru_cache(wrap(wrap(f)))]}\n",
        "TABLE['a'][0](1)", [[2]], [[101]],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "call", "fixed", "old"), SHARED.values(), ids=SHARED)
def test_everything_that_runs_the_code_follows(
    world: World, text: str, call: str, fixed: Any, old: Any
) -> None:
    world.write({"case.py": text.encode()})
    wanted = toggle(patch("case.f", "return x + i + 1", "return x + i + 100"))
    if world.moment != AT_LOAD:
        assert eval(call, vars(world.load())) == fixed
    module, handle = world.revert(wanted)
    assert eval(call, vars(module)) == old
    handle.restore()
    assert eval(call, vars(module)) == fixed
    with prtoggle.reverted(wanted):
        assert eval(call, vars(module)) == old
    assert eval(call, vars(module)) == fixed


def test_a_cache_in_another_module_is_emptied(world: World) -> None:
    world.write(
        {
            "case.py": "def f(x):\n    return x + 1\n",
            "user.py": "import functools\nfrom case import f\nfast = functools.lru_cache(lambda x: f(x))\nquick = functools.cache(f)\n",
        }
    )
    if world.moment != AT_LOAD:
        assert world.load("user").quick(1) == 2
    _, handle = world.revert(toggle(patch("case.f", "return x + 1", "return x + 100")))
    user = world.load("user")
    assert user.quick(1) == 101
    handle.restore()
    assert user.quick(1) == 2


def test_a_function_that_nobody_shares_costs_no_search_of_the_heap(
    live: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.write({"case.py": "def f(x):\n    return x + 1\nclass C:\n    def m(self):\n        return 1\n"})
    module = live.load()
    prtoggle.revert(toggle(patch("case.f", "return x + 1", "return x + 5"))).restore()
    monkeypatch.setattr(gc, "get_referrers", lambda *_: pytest.fail("searched"))
    with prtoggle.reverted(toggle(patch("case.C.m", "return 1", "return 2"))):
        assert module.C().m() == 2


def test_a_definition_that_was_reached_by_two_names_of_one_file_is_two_modules(live: World) -> None:
    """A second copy of a file under another name is another module: live, its name was not asked for."""
    import importlib.util

    live.write({"case.py": "def f(x):\n    return x + 1\n"})
    module = live.load()
    spec = importlib.util.spec_from_file_location("case_again", live.folder / "case.py")
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    sys.modules["case_again"] = again
    spec.loader.exec_module(again)
    with prtoggle.reverted(
        toggle(patch("case.f", "return x + 1", "return x + 100")),
        toggle(patch("case_again.f", "return x + 1", "return x + 200")),
    ):
        assert (module.f(1), again.f(1)) == (101, 201)
    assert (module.f(1), again.f(1)) == (2, 2)


def test_a_module_that_answers_any_name_is_a_target_like_any_other(world: World) -> None:
    world.write({"case.py": "def __getattr__(name):\n    return 5\ndef f(x):\n    return x + 1\n"})
    module, handle = world.revert(
        toggle(
            patch("case.f", "return x + 1", "return x + 100"),
            patch("case.__getattr__", "return 5", "return 6"),
        )
    )
    assert (module.f(1), module.anything) == (101, 6)
    handle.restore()
    assert (module.f(1), module.anything) == (2, 5)


HEADERS = {
    "keyword-only to positional": ("def f(a, *, b=2):", "def f(a, b=2):", "f(1, 7)", (1, 7)),
    "positional to keyword-only": ("def f(a, *, b=2):", "def f(a=3, *, b=2):", "f()", (3, 2)),
    "after star arguments": ("def f(a, *, b=2):", "def f(a, *c, b=2):", "f(1, 2)", (1, 2)),
    "positional only": ("def f(a, *, b=2):", "def f(a, b=2, /):", "f(1)", (1, 2)),
    "renamed": ("def f(a, *, b=2):", "def f(b, *, a=4):", "f(1)", (4, 1)),
}  # fmt: skip


@pytest.mark.parametrize(("header", "new", "call", "old"), HEADERS.values(), ids=HEADERS)
def test_defaults_go_with_their_parameters(world: World, header: str, new: str, call: str, old: Any) -> None:
    world.write({"case.py": f"{header}\n    return a, b\n".encode()})
    module, handle = world.revert(toggle(patch("case.f", header, new)))
    assert eval(call, vars(module)) == old
    handle.restore()
    assert (module.f(1), module.f(1, b=9), module.f.__kwdefaults__, module.f.__defaults__) == (
        (1, 2),
        (1, 9),
        {"b": 2},
        None,
    )


def test_a_born_inner_function_whose_header_was_edited_is_not_put_back_by_halves(world: World) -> None:
    world.write(
        {
            "case.py": "def make():\n    def inner(x, k=1):\n        return x * k\n    return inner\nkept = make()\n"
        }
    )
    module, handle = world.revert(toggle(patch("case.make", "def inner(x, k=1):", "def inner(x, k=5):")))
    assert module.make()(2) == 10
    if world.moment == AT_LOAD:
        with pytest.raises(prtoggle.RestoreError, match="cannot be put back"):
            handle.restore()
        assert (module.kept(2), module.make()(2)) == (10, 10)
        return
    handle.restore()
    assert (module.kept(2), module.make()(2)) == (2, 2)


def test_a_function_that_an_edited_one_made_is_not_edited_by_itself(world: World) -> None:
    world.write(
        {
            "case.py": "def make():\n    def inner(x):\n        y = x + 1\n        return y\n    return inner\nkept = make()\n"
        }
    )
    module, handle = world.revert(toggle(patch("case.make", "y = x + 1", "y = x + 100")))
    second = toggle(patch("case.kept", "return y", "return -y"))
    if world.moment == AT_LOAD:
        with pytest.raises(prtoggle.UnsupportedTargetError, match="was made by make"):
            prtoggle.revert(second)
        assert module.kept(1) == 101
        handle.restore()
    with prtoggle.reverted(second):
        assert module.kept(1) == -2
    if world.moment != AT_LOAD:
        handle.restore()
    assert module.kept(1) == 2


def test_a_second_toggle_goes_into_all_of_them_too(world: World) -> None:
    world.write(
        {
            "case.py": "F = []\nfor i in range(3):\n    def f(x, i=i):\n        a = x + i\n        b = a\n        return a, b\n    F.append(f)\n"
        }
    )
    module, first = world.revert(toggle(patch("case.f", "a = x + i", "a = x + i + 100")))
    second = prtoggle.revert(toggle(patch("case.f", "b = a", "b = -a")))
    assert [f(0) for f in module.F] == [(100, -100), (101, -101), (102, -102)]
    first.restore()
    assert [f(0) for f in module.F] == [(0, 0), (1, -1), (2, -2)]
    second.restore()
    assert [f(0) for f in module.F] == [(0, 0), (1, 1), (2, 2)]
