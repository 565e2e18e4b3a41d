"""Both variants of a function see the same inputs, and what differs is told; the program notices nothing."""

from __future__ import annotations

import inspect
import io
import sys
import threading
from typing import Any

import pytest

from prtoggle.errors import UnsupportedTargetError
from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_patch, make_toggle, toggle_of
from tests.prtoggle.traced_modules import told, trace, traced

__all__ = ["modules"]


def test_a_result_that_differs_is_told_with_the_arguments(modules: Modules) -> None:
    module, account = traced(modules, "def f(x, y=2):\n    return x * y\n", ("return x * y", "return x + y"))

    assert [module.f(2), module.f(3), module.f(x=4, y=1)] == [4, 6, 4]

    assert account.outcome() == (1, 2, 0)
    first, second = account.differences
    assert first["arguments"] == [["x", "3"], ["y", "2"]]
    assert (first["call"], first["fixed"], first["reverted"]) == (2, "6", "5")
    assert second["arguments"] == [["x", "4"], ["y", "1"]]


def test_calls_that_look_alike_are_told_once_and_counted(modules: Modules) -> None:
    module, account = traced(modules, "def f(x):\n    return x\n", ("return x", "return -x"), limit=2)

    for x in (1, 2, 1, 3, 1, 0, 4):
        module.f(x)

    counts = account.counts()
    assert told(account) == [("1", "-1"), ("2", "-2")]
    assert (counts["calls"], counts["equal"], counts["differing"], counts["beyond"]) == (7, 1, 6, 2)
    assert account.events[-1]["like"] == {"0": 3, "1": 1}


def test_an_in_place_change_is_told_at_its_first_place(modules: Modules) -> None:
    text = "def f(rows):\n    rows[1].append(3)\n"
    module, account = traced(modules, text, ("rows[1].append(3)", "rows[1].append(4)"))
    rows: list[list[int]] = [[1], [2]]

    assert module.f(rows) is None

    assert rows == [[1], [2, 3]]
    assert account.places == [("rows[1][1]", "3", "4")]
    assert account.differences[0]["arguments"] == [["rows", "[[1], [2]]"]]


def test_an_exception_on_one_side_is_told_and_the_program_gets_its_own(modules: Modules) -> None:
    text = "def f(x):\n    if x < 0:\n        raise ValueError('negative', x)\n    return x\n"
    edit = ("if x < 0:\n    raise ValueError('negative', x)", "")
    module, account = traced(modules, text, edit)

    with pytest.raises(ValueError, match="negative") as caught:
        module.f(-1)
    assert module.f(1) == 1

    assert told(account) == [("raises ValueError('negative', -1)", "-1")]
    assert account.outcome() == (1, 1, 0)
    assert [entry.name for entry in caught.traceback][-1] == "f"


@pytest.mark.parametrize(
    ("text", "edit", "place"),
    [
        ("raise KeyError(x)", "raise ValueError(x)", ("exception", "KeyError(1)", "ValueError(1)")),
        ("raise KeyError(x)", "raise KeyError(x + 1)", ("exception.args[0]", "1", "2")),
        ("raise KeyError(x)", "raise KeyError(x, 1)", ("len(exception.args)", "1", "2")),
    ],
)
def test_exceptions_are_compared_by_type_and_arguments(
    modules: Modules, text: str, edit: str, place: tuple[str, str, str]
) -> None:
    module, account = traced(modules, f"def f(x):\n    {text}\n", (text, edit))

    with pytest.raises(KeyError):
        module.f(1)

    assert account.places == [place]


def test_what_is_one_object_in_two_arguments_is_one_in_the_copies(modules: Modules) -> None:
    text = "def f(a, b):\n    a.append(1)\n    return len(b)\n"
    module, account = traced(modules, text, ("a.append(1)", "b.append(1)"))
    both: list[int] = []

    assert module.f(both, both) == 1
    assert account.outcome() == (1, 0, 0)

    assert module.f([], []) == 0
    assert account.outcome() == (1, 1, 0)


@pytest.mark.parametrize(
    ("fixed", "reverted", "differing"),
    [
        ("x", "x", 0),
        ("x", "list(x)", 1),
        ("list(x)", "x", 1),
        ("[x, x]", "[x, list(x)]", 1),
        ("[list(x)] * 2", "[list(x), list(x)]", 1),
        ("(1, x)", "(1, x)", 0),
        ("tuple(x)", "(*x,)", 0),
    ],
)
def test_which_object_is_returned_counts(modules: Modules, fixed: str, reverted: str, differing: int) -> None:
    text = f"def f(x):\n    y = 0\n    return {fixed}\n"
    module, account = traced(modules, text, (f"y = 0\nreturn {fixed}", f"y = 1\nreturn {reverted}"))

    module.f([1])

    assert account.outcome() == (1 - differing, differing, 0)


CLASS = """
class Pool:
    limit = 3

    def __init__(self, free):
        self.free = free
        self.log = []

    def take(self, n):
        got, self.free = self.free[:n], self.free[n:]
        self.log.append(n)
        return got

    @classmethod
    def of(cls, n):
        return cls(list(range(n)))

    @staticmethod
    def half(n):
        return n // 2

    @property
    def left(self):
        return len(self.free)

    def itself(self):
        return self
"""


@pytest.mark.parametrize(
    ("name", "edit", "call", "differences"),
    [
        (
            "Pool.take",
            ("self.log.append(n)", "self.log.append(-n)"),
            lambda module: module.Pool([1, 2]).take(1),
            [("self.log[0]", "1", "-1")],
        ),
        (
            "Pool.take",
            (
                "got, self.free = self.free[:n], self.free[n:]",
                "got, self.free = self.free[n:], self.free[:n]",
            ),
            lambda module: module.Pool([1, 2, 3]).take(1),
            [("result[0]", "1", "2"), ("self.free[0]", "2", "1")],
        ),
        (
            "Pool.of",
            ("return cls(list(range(n)))", "return cls(list(range(n - 1)))"),
            lambda module: module.Pool.of(2),
            [("result.free", "[0, 1]", "[0]")],
        ),
        (
            "Pool.half",
            ("return n // 2", "return n / 2"),
            lambda module: module.Pool.half(3),
            [("result", "1", "1.5")],
        ),
        (
            "Pool.left",
            ("return len(self.free)", "return len(self.free) + 1"),
            lambda module: module.Pool([]).left,
            [("result", "0", "1")],
        ),
        (
            "Pool.itself",
            ("return self", "return self if self else None"),
            lambda module: module.Pool([]).itself(),
            [],
        ),
        (
            "Pool.__init__",
            ("self.free = free", "self.free = free[1:]"),
            lambda module: module.Pool([5]),
            [
                (
                    "self.free (which object it is)",
                    "[5], one that also stands elsewhere",
                    "[], another one",
                )
            ],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_methods_of_every_kind(
    modules: Modules, name: str, edit: tuple[str, str], call: Any, differences: list[tuple[str, str, str]]
) -> None:
    module, account = traced(modules, CLASS, edit, name=name)

    call(module)

    found = account.places
    if name == "Pool.of":
        assert found[0][0] in ("result.free[0]", "len(result.free)")
    else:
        assert found == differences
    assert account.outcome() == ((0, 1, 0) if differences else (1, 0, 0))


def test_a_decorated_function_is_traced_behind_its_decorator(modules: Modules) -> None:
    text = (
        "import functools\n\n\ndef twice(g):\n    @functools.wraps(g)\n    def wrapper(x):\n"
        "        return g(x) * 2\n    return wrapper\n\n\n@twice\ndef f(x):\n    return x\n"
    )
    module, account = traced(modules, text, ("return x", "return x + 1"))

    assert module.f(2) == 4

    assert told(account) == [("2", "3")]


def test_what_a_cache_answers_is_compared_once(modules: Modules) -> None:
    text = "import functools\n\n\n@functools.lru_cache\ndef f(x):\n    return x\n"
    module, account = traced(modules, text, ("return x", "return x + 1"))

    assert [module.f(1), module.f(1), module.f(2)] == [1, 1, 2]

    assert account.counts()["calls"] == 2


def test_early_references_are_traced_and_the_signature_stays(modules: Modules) -> None:
    text = "def f(a, /, b=1, *rest, c, d=2, **more):\n    return (a, b, rest, c, d, more)\n\n\nTABLE = {'f': f}\n"
    module = modules.load(text)
    before = inspect.signature(module.f)
    account = trace(
        make_toggle(f"{module.__name__}.f", ("return (a, b, rest, c, d, more)", "return (a, b, rest, c, d)"))
    )

    assert module.TABLE["f"](1, 2, 3, c=4, e=5) == (1, 2, (3,), 4, 2, {"e": 5})
    with pytest.raises(TypeError, match=r"f\(\) missing 1 required keyword-only argument: 'c'"):
        module.f(1)

    assert inspect.signature(module.f) == before
    assert (module.f.__name__, module.f.__code__.co_name, module.f.__code__.co_firstlineno) == ("f", "f", 1)
    names = [name for name, _ in account.differences[0]["arguments"]]
    assert names == ["a", "b", "rest[0]", "c", "d", "e"]


def test_a_default_that_the_fix_changed_shows(modules: Modules) -> None:
    module = modules.load("def f(x, limit=10):\n    return min(x, limit)\n")
    account = trace(make_toggle(f"{module.__name__}.f", ("def f(x, limit=10):", "def f(x, limit=5):")))

    assert [module.f(20), module.f(20, 3), module.f(2)] == [10, 3, 2]

    assert told(account) == [("10", "5")]
    assert account.outcome() == (2, 1, 0)
    assert str(inspect.signature(module.f)) == "(x, limit=10)"


def test_a_parameter_that_the_fix_added_shows(modules: Modules) -> None:
    module = modules.load("def f(x, scale=1):\n    return x * scale\n")
    edits = [("def f(x, scale=1):", "def f(x):"), ("return x * scale", "return x")]
    account = trace(make_toggle(f"{module.__name__}.f", *edits))

    assert [module.f(2), module.f(2, scale=3)] == [2, 6]

    assert told(account)[0][0] == "6"
    assert told(account)[0][1].startswith("raises TypeError")
    assert account.outcome() == (1, 1, 0)


def test_recursion_compares_each_call_of_the_program_and_none_of_the_other_run(modules: Modules) -> None:
    text = "CALLS = 0\n\n\ndef f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\n"
    module, account = traced(
        modules, text, ("return 0 if n == 0 else 1 + f(n - 1)", "return 0 if n == 0 else 2 + f(n - 1)")
    )

    assert module.f(3) == 3

    assert [
        (event["arguments"][0][1], event["fixed"], event["reverted"]) for event in account.differences
    ] == [
        ("1", "1", "2"),
        ("2", "2", "4"),
        ("3", "3", "6"),
    ]
    assert account.counts()["calls"] == 4


def test_a_program_can_recurse_as_deep_as_without_tracing(modules: Modules) -> None:
    text = "def f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\n"
    module, account = traced(
        modules,
        text,
        ("return 0 if n == 0 else 1 + f(n - 1)", "return 0 if n == 0 else 2 + f(n - 1)"),
        calls=2,
    )
    limit = sys.getrecursionlimit()
    depth = limit - len(inspect.stack(0)) - 30

    assert module.f(depth) == depth

    assert sys.getrecursionlimit() == limit
    assert told(account) == [(str(depth - 1), str(2 * depth - 2)), (str(depth), str(2 * depth))]
    with pytest.raises(RecursionError):
        module.f(3 * limit)
    assert sys.getrecursionlimit() == limit


def test_a_function_that_copying_calls_is_not_traced_meanwhile(modules: Modules) -> None:
    text = (
        "class State:\n    def __init__(self):\n        self.x = 1\n\n    def __getstate__(self):\n"
        "        return {'x': self.x}\n"
    )
    module, account = traced(
        modules, text, ("return {'x': self.x}", "return {'y': self.x}"), name="State.__getstate__"
    )

    assert module.State().__getstate__() == {"x": 1}

    assert account.counts()["calls"] == 1
    assert account.places == [("result['x']", "1", "nothing")]


def test_the_other_run_has_every_target_of_the_toggle_reverted(modules: Modules) -> None:
    module = modules.load("def inner(x):\n    return x\n\n\ndef outer(x):\n    return inner(x) + 1\n")
    name = module.__name__
    account = trace(
        toggle_of(
            make_patch(f"{name}.inner", ("return x", "return -x")),
            make_patch(f"{name}.outer", ("return inner(x) + 1", "return inner(x) + 2")),
        )
    )

    assert module.outer(5) == 6

    assert [(event["function"], event["fixed"], event["reverted"]) for event in account.differences] == [
        (f"{name}.inner", "5", "-5"),
        (f"{name}.outer", "6", "-3"),
    ]


def test_targets_in_two_modules(modules: Modules) -> None:
    first = modules.load("def inner(x):\n    return x\n")
    second = modules.load(f"from {first.__name__} import inner\n\n\ndef outer(x):\n    return inner(x)\n")
    account = trace(
        toggle_of(
            make_patch(f"{first.__name__}.inner", ("return x", "return -x")),
            make_patch(f"{second.__name__}.outer", ("return inner(x)", "return inner(x) * 1")),
        )
    )

    assert second.outer(5) == 5

    assert told(account) == [("5", "-5"), ("5", "-5")]


def test_two_toggles_of_one_function_are_taken_out_together(modules: Modules) -> None:
    module = modules.load("def f(x):\n    x += 1\n    x += 2\n    return x\n")
    target = f"{module.__name__}.f"
    account = trace(make_toggle(target, ("x += 1", "")), make_toggle(target, ("x += 2", "")))

    assert module.f(0) == 3

    assert told(account) == [("3", "0")]


def test_the_program_can_go_on_with_the_reverted_variant(modules: Modules) -> None:
    module, account = traced(
        modules,
        "def f(x, seen):\n    seen.append(x)\n    return x\n",
        ("return x", "return -x"),
        continues_fixed=False,
    )
    seen: list[int] = []

    assert [module.f(1, seen), module.f(0, seen)] == [-1, 0]

    assert seen == [1, 0]
    assert told(account) == [("1", "-1")]
    assert account.places == [("result", "1", "-1")]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (threading.Lock(), "argument x: _thread.lock cannot be copied: cannot pickle '_thread.lock' object"),
        ([{"key": threading.RLock()}], "argument x: list cannot be copied"),
        (io.TextIOWrapper(io.BytesIO()), "cannot pickle '"),
        (threading, "argument x: module threading cannot be copied"),
        ((n for n in ()), "cannot pickle 'generator' object"),
    ],
    ids=["lock", "inside", "file", "module", "generator"],
)
def test_inputs_that_cannot_be_copied_are_counted_with_the_reason(
    modules: Modules, value: object, reason: str
) -> None:
    module, account = traced(modules, "def f(x):\n    return 1\n", ("return 1", "return 2"))

    assert module.f(value) == 1

    (found,) = account.counts()["not_compared"]
    assert reason in found
    assert account.outcome() == (0, 0, 1)


def test_an_object_with_a_finalizer_is_not_copied(modules: Modules) -> None:
    closed: list[int] = []

    class Held:
        def __del__(self) -> None:
            closed.append(1)

    module, account = traced(modules, "def f(x):\n    return 1\n", ("return 1", "return 2"))
    held = Held()

    module.f(held)

    assert closed == []
    assert "has a finalizer" in next(iter(account.counts()["not_compared"]))


def test_after_so_many_calls_nothing_is_compared(modules: Modules) -> None:
    module, account = traced(modules, "def f(x):\n    return x\n", ("return x", "return -x"), calls=2)

    assert [module.f(x) for x in range(5)] == [0, 1, 2, 3, 4]

    counts = account.counts()
    assert (counts["equal"], counts["differing"]) == (1, 1)
    assert counts["not_compared"] == {"after the first 2 calls (--calls)": 3}


def test_variables_of_the_enclosing_scope_are_inputs(modules: Modules) -> None:
    text = (
        "def make():\n    count = 0\n    seen = []\n\n    def f(x):\n        nonlocal count\n"
        "        count += 1\n        seen.append(x)\n        return count\n\n    return f\n\n\nf = make()\n"
    )
    module, account = traced(modules, text, ("seen.append(x)", "seen.append(-x)"))

    assert [module.f(1), module.f(0)] == [1, 2]

    assert account.places == [("seen[0]", "1", "-1")]
    assert account.outcome() == (1, 1, 0)


def test_globals_that_are_rebound_or_containers_are_inputs(modules: Modules) -> None:
    text = (
        "TOTAL = 0\nCACHE = {}\n\n\ndef f(x):\n    global TOTAL\n    TOTAL += x\n"
        "    if x not in CACHE:\n        CACHE[x] = x * 2\n    return CACHE[x]\n"
    )
    module, account = traced(modules, text, ("CACHE[x] = x * 2", "CACHE[x] = x * 3"))

    assert [module.f(1), module.f(1), module.f(2)] == [2, 2, 4]

    assert (module.TOTAL, module.CACHE) == (4, {1: 2, 2: 4})
    # The second call finds what the program's first call has put there, in both runs.
    assert told(account) == [("2", "3"), ("4", "6")]
    assert account.places == [
        ("result", "2", "3"),
        ("CACHE[1]", "2", "3"),
        ("result", "4", "6"),
        ("CACHE[2]", "4", "6"),
    ]
    assert account.outcome() == (1, 2, 0)


def test_a_rebound_global_that_differs_is_told(modules: Modules) -> None:
    text = "STATE = 'new'\n\n\ndef f():\n    global STATE\n    STATE = 'fixed'\n"
    module, account = traced(modules, text, ("STATE = 'fixed'", "STATE = 'old'"))

    module.f()

    assert module.STATE == "fixed"
    assert account.places == [("STATE", "'fixed'", "'old'")]


def test_callbacks_reach_the_copies_only(modules: Modules) -> None:
    text = "def f(note, add):\n    note(1)\n    add(2)\n    return 0\n"
    module, account = traced(modules, text, ("note(1)", "note(7)"))
    noted: list[int] = []
    added: list[int] = []

    module.f(lambda x: noted.append(x), added.append)  # noqa: PLW0108  # a function with a cell

    assert (noted, added) == ([1], [2])
    assert account.outcome() == (0, 1, 0)


def test_what_the_other_run_prints_is_dropped(modules: Modules, capsys: pytest.CaptureFixture[str]) -> None:
    module, account = traced(modules, "def f(x):\n    print(x)\n    return x\n", ("return x", "return -x"))

    module.f(3)

    assert capsys.readouterr().out == "3\n"
    assert account.outcome() == (0, 1, 0)


def test_threads_are_told_apart(modules: Modules) -> None:
    text = "def f(x):\n    return g(x)\n\n\ndef g(x):\n    return x\n"
    module = modules.load(text)
    account = trace(make_toggle(f"{module.__name__}.g", ("return x", "return -x")), limit=100)
    results: dict[int, int] = {}

    def work(start: int) -> None:
        for x in range(start, start + 20):
            results[x] = module.f(x)

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(result == x for x, result in results.items())
    assert account.outcome() == (1, 59, 0)


def test_an_interruption_goes_through(modules: Modules) -> None:
    module, account = traced(
        modules, "def f():\n    raise KeyboardInterrupt\n", ("raise KeyboardInterrupt", "return 1")
    )

    with pytest.raises(KeyboardInterrupt):
        module.f()

    assert account.counts()["not_compared"] == {"the call was interrupted by KeyboardInterrupt": 1}


def test_a_result_that_cannot_be_compared_is_counted_with_the_reason(modules: Modules) -> None:
    module, account = traced(
        modules,
        "def f(x):\n    return (n for n in x)\n",
        ("return (n for n in x)", "return (n for n in x[1:])"),
    )

    assert list(module.f([1, 2])) == [1, 2]

    assert account.counts()["not_compared"] == {"result: objects of type generator cannot be compared": 1}


def test_a_reloaded_module_is_traced_again(modules: Modules) -> None:
    import importlib

    module, account = traced(modules, "def f(x):\n    return x\n", ("return x", "return -x"))
    module.f(1)
    importlib.reload(module)
    module.f(2)

    assert account.outcome() == (0, 2, 0)
    assert told(account) == [("1", "-1"), ("2", "-2")]


@pytest.mark.parametrize(
    ("text", "edit", "why"),
    [
        ("def f(x):\n    yield x\n", ("yield x", "yield -x"), "is a generator or a coroutine"),
        ("async def f(x):\n    return x\n", ("return x", "return -x"), "is a generator or a coroutine"),
        ("f = 3\n", ("f = 3", "f = 4"), "changes a value"),
    ],
)
def test_what_has_no_two_variants_to_run_is_refused(
    modules: Modules, text: str, edit: tuple[str, str], why: str
) -> None:
    module = modules.load(text)
    before = module.f, getattr(module.f, "__code__", None)

    with pytest.raises(UnsupportedTargetError, match=why):
        trace(make_toggle(f"{module.__name__}.f", edit))

    assert (module.f, getattr(module.f, "__code__", None)) == before
