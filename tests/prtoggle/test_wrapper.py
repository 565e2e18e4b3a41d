"""`wrap:` patches: in effect for every caller, removed without a trace."""

from __future__ import annotations

import asyncio
import gc
import inspect
import pickle
import signal
import types
from typing import TYPE_CHECKING, Any

import pytest
import wrapt

import prtoggle
from prtoggle.errors import RestoreError, TargetError, TargetModuleError, UnsupportedTargetError
from prtoggle.installers import wrapper
from prtoggle.installers.base import LivePatch
from prtoggle.spec import Patch
from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_toggle

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["modules"]

WRAPPERS = """
calls = []


def plus_hundred(wrapped, instance, args, kwargs):
    calls.append((instance, args, kwargs))
    return wrapped(*args, **kwargs) + 100


def times_two(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs) * 2


async def slower(wrapped, instance, args, kwargs):
    return await wrapped(*args, **kwargs) + 100


NOT_CALLABLE = 3
"""

TARGET = """
import functools
import math
from math import sqrt as root


def f(x, *, y=0):
    return x + y


def g(x):
    return f(x)


class C:
    def m(self, x):
        return x

    @classmethod
    def c(cls, x):
        return x

    @staticmethod
    def s(x):
        return x

    @property
    def p(self):
        return 1

    limit = 3


class D(C):
    pass


async def a(x):
    return x


def use_root(x):
    return root(x)


instance = C()
"""


@pytest.fixture
def target(modules: Modules) -> ModuleType:
    modules.load(WRAPPERS)
    return modules.load(TARGET)


@pytest.fixture
def wrappers(target: ModuleType, modules: Modules) -> ModuleType:
    return __import__(modules.names[0])


def plan(module: ModuleType, qualname: str, modules: Modules, name: str = "plus_hundred") -> wrapper.WrapStep:
    patch = Patch(target=f"{module.__name__}.{qualname}", wrap=f"{modules.names[0]}:{name}")
    return wrapper.plan(LivePatch("t", patch, module, qualname))


@pytest.mark.parametrize("qualname", ["f", "C.m", "C.c", "C.s"])
def test_wrapper_is_called_and_the_owner_is_as_before_after_restore(
    target: ModuleType, modules: Modules, qualname: str
) -> None:
    def call() -> int:
        return eval(qualname.replace("C.m", "C().m"), vars(target))(1)

    before = dict(vars(target)), dict(vars(target.C))
    step = plan(target, qualname, modules)
    assert call() == 1

    step.install()
    assert call() == 101

    step.restore()
    assert call() == 1
    assert (dict(vars(target)), dict(vars(target.C))) == before


def test_wrapper_gets_instance_arguments_and_keywords(
    target: ModuleType, wrappers: ModuleType, modules: Modules
) -> None:
    steps = [plan(target, name, modules) for name in ("f", "C.m", "C.c", "C.s")]
    for step in steps:
        step.install()
    one = target.C()

    results = [target.f(1, y=2), one.m(3), target.C.m(one, 4), target.C.c(5), target.D.c(6), target.C.s(7)]

    assert results == [103, 103, 104, 105, 106, 107]
    assert wrappers.calls == [
        (None, (1,), {"y": 2}),
        (one, (3,), {}),
        (one, (4,), {}),
        (target.C, (5,), {}),
        (target.D, (6,), {}),
        (None, (7,), {}),
    ]
    for step in steps:
        step.restore()


def test_early_bound_names_dicts_lists_instances_and_closures_follow(
    target: ModuleType, modules: Modules
) -> None:
    user = modules.load(
        """
from {1} import f as renamed


class Holder:
    attribute = staticmethod(renamed)


def closure():
    inner = renamed
    return lambda x: inner(x)


table = {"f": renamed}
row = [renamed]
one = Holder()
one.callback = renamed
closed = closure()
"""
    )

    def answers() -> list[int]:
        return [
            user.renamed(1),
            user.table["f"](1),
            user.row[0](1),
            user.one.callback(1),
            user.closed(1),
            target.g(1),
        ]

    del user.Holder.attribute
    gc.collect()
    step = plan(target, "f", modules)

    step.install()
    assert answers() == [101] * 6

    step.restore()
    assert answers() == [1] * 6
    assert user.renamed is user.row[0] is target.f


@pytest.mark.parametrize(
    ("holder", "words"),
    [
        ("pair = (f, 1)", "a tuple"),
        ("def h(x, call=f):\n    return call(x)", "a default argument of .*h"),
        ("import functools\npart = functools.partial(f, 1)", "a partial"),
        ("class K:\n    s = staticmethod(f)", "a staticmethod"),
        ("import functools\ncached = functools.lru_cache(f)", "a _lru_cache_wrapper"),
        ("names = {f: 'name'}", "module|a dict with the keys"),
        ("import weakref\nfound = {'f': weakref.ref(f)}", "a weak reference in a dict with the keys"),
        ("import weakref\nseen = weakref.ref(f)", ".*a weak reference in module "),
        ("import weakref\nfound = weakref.WeakValueDictionary(f=f)", "a weak reference in a dict"),
        ("import weakref\ncalled = weakref.WeakSet([f])", "a weak reference in a set"),
        ("import weakref\nclass K: pass\nfinal = weakref.finalize(K, f, 1)", "a _Info"),
    ],
)
def test_a_holder_that_cannot_follow_is_a_refusal_and_nothing_changes(
    target: ModuleType, modules: Modules, holder: str, words: str
) -> None:
    user = modules.load(f"from {{1}} import f\n{holder}\n")
    step = plan(target, "f", modules)
    before = dict(vars(target)), dict(vars(user))

    with pytest.raises(UnsupportedTargetError, match=rf"\.f is also held by {words}"):
        step.install()

    assert (dict(vars(target)), dict(vars(user))) == before


def test_a_signals_handler_is_a_refusal(target: ModuleType, modules: Modules) -> None:
    step = plan(target, "f", modules)
    before = signal.signal(signal.SIGUSR1, target.f)
    try:
        with pytest.raises(UnsupportedTargetError, match=r"the handler of .*SIGUSR1"):
            step.install()
        assert signal.getsignal(signal.SIGUSR1) is target.f
    finally:
        signal.signal(signal.SIGUSR1, before)
    step.install()
    assert target.f(1) == 101
    step.restore()


def test_our_own_weak_references_are_no_refusal(target: ModuleType, modules: Modules) -> None:
    toggle = make_toggle(f"{target.__name__}.f", ("return x + y", "return x + y + 7"))
    copy = types.FunctionType(target.f.__code__, vars(target), "f", None, None)
    copy.__kwdefaults__ = {"y": 0}
    with prtoggle.reverted(toggle):
        assert (target.f(1), copy(1)) == (8, 8)
        step = plan(target, "f", modules)
        step.install()
        assert target.f(1) == 108
        step.restore()
    assert target.f(1) == 1


def test_a_bound_method_taken_early_is_a_refusal(target: ModuleType, modules: Modules) -> None:
    taken = target.instance.m
    step = plan(target, "C.m", modules)
    before = dict(vars(target.C))

    with pytest.raises(UnsupportedTargetError, match="the bound method"):
        step.install()

    assert dict(vars(target.C)) == before
    assert taken(1) == 1


def test_c_function_is_wrapped_for_those_who_imported_it_too(target: ModuleType, modules: Modules) -> None:
    import _bisect
    import bisect

    user = modules.load("from bisect import bisect_left as left\n")
    original = bisect.bisect_left
    step = plan(bisect, "bisect_left", modules)

    step.install()
    assert isinstance(bisect.bisect_left, wrapt.FunctionWrapper)
    assert (bisect.bisect_left([1, 2], 2), user.left([1, 2], 2)) == (101, 101)

    step.restore()
    assert bisect.bisect_left is original is user.left is _bisect.bisect_left


def test_async_function_stays_one(target: ModuleType, modules: Modules) -> None:
    step = plan(target, "a", modules, "slower")

    step.install()
    assert inspect.iscoroutinefunction(target.a)
    assert asyncio.run(target.a(1)) == 101

    step.restore()
    assert asyncio.run(target.a(1)) == 1


def test_wrapped_function_keeps_its_name_signature_and_pickle(target: ModuleType, modules: Modules) -> None:
    before = inspect.signature(target.f), target.f.__qualname__
    step = plan(target, "f", modules)

    step.install()
    assert (inspect.signature(target.f), target.f.__qualname__) == before
    assert pickle.loads(pickle.dumps(target.f)) is target.f

    step.restore()


@pytest.mark.parametrize("first_out", [0, 1])
@pytest.mark.parametrize("qualname", ["f", "a"])
def test_two_wrappers_on_one_target_come_off_in_any_order(
    target: ModuleType, modules: Modules, first_out: int, qualname: str
) -> None:
    original = vars(target)[qualname]
    inner = plan(target, qualname, modules, "slower" if qualname == "a" else "plus_hundred")
    inner.install()
    outer = plan(target, qualname, modules, "slower" if qualname == "a" else "times_two")
    outer.install()

    def answer() -> int:
        result = vars(target)[qualname](1)
        return asyncio.run(result) if qualname == "a" else result

    assert answer() == (201 if qualname == "a" else 202)

    steps = [inner, outer]
    steps.pop(first_out).restore()
    assert answer() == (101 if qualname == "a" else [2, 101][first_out])

    steps.pop().restore()
    assert vars(target)[qualname] is original


def test_wrapper_comes_off_from_beneath_somebody_elses(target: ModuleType, modules: Modules) -> None:
    original = target.a
    step = plan(target, "a", modules, "slower")
    step.install()
    theirs = wrapt.wrap_function_wrapper(
        target, "a", lambda wrapped, _, args, kwargs: wrapped(*args, **kwargs)
    )

    step.restore()

    assert target.a is theirs
    assert theirs.__wrapped__ is original


def test_a_target_that_somebody_replaced_is_not_restored(target: ModuleType, modules: Modules) -> None:
    step = plan(target, "f", modules)
    step.install()
    ours, target.f = target.f, len

    with pytest.raises(RestoreError, match=r"\.f was changed after the toggle was reverted"):
        step.restore()

    assert target.f is len
    target.f = ours
    step.restore()


def test_flips_leave_nothing_behind(target: ModuleType, modules: Modules) -> None:
    step = plan(target, "f", modules)
    step.install()
    step.restore()
    gc.collect()
    before = len(gc.get_objects())

    for _ in range(20):
        step.install()
        step.restore()
    gc.collect()

    assert abs(len(gc.get_objects()) - before) < 10


@pytest.mark.parametrize("qualname", ["f", "a"])
def test_first_call_is_reported_once(target: ModuleType, modules: Modules, qualname: str) -> None:
    step = plan(target, qualname, modules, "slower" if qualname == "a" else "plus_hundred")
    seen: list[str] = []
    step.report_calls(lambda: seen.append("called"))
    step.install()
    assert seen == []

    for _ in range(3):
        result: Any = vars(target)[qualname](1)
        assert (asyncio.run(result) if qualname == "a" else result) == 101

    assert seen == ["called"]
    step.restore()
    assert vars(target)[qualname].__module__ == target.__name__


@pytest.mark.parametrize(
    ("qualname", "words"),
    [
        ("C", "it is a class"),
        ("C.p", "it is a property; use edits"),
        ("C.limit", "it is a int, which is not called; use value"),
        ("D.m", "not defined by D itself: name its owner, .*C.m"),
        ("instance.m", "name its owner, .*C.m"),
        ("math", "it is a module"),
    ],
)
def test_what_cannot_be_wrapped_is_refused_and_nothing_changes(
    target: ModuleType, modules: Modules, qualname: str, words: str
) -> None:
    before = dict(vars(target)), dict(vars(target.C)), dict(vars(target.D))

    with pytest.raises(UnsupportedTargetError, match=words) as raised:
        plan(target, qualname, modules)

    assert f"{target.__name__}.{qualname}" in str(raised.value)
    assert (dict(vars(target)), dict(vars(target.C)), dict(vars(target.D))) == before


def test_an_attribute_of_a_built_in_class_is_refused(modules: Modules, target: ModuleType) -> None:
    import builtins

    with pytest.raises(UnsupportedTargetError, match=r"built-in class str cannot be set"):
        plan(builtins, "str.upper", modules)

    assert "x".upper() == "X"


def test_a_class_that_lets_nothing_be_set_is_a_refusal(modules: Modules, target: ModuleType) -> None:
    sealed = modules.load(
        """
class Sealed(type):
    def __setattr__(cls, name, value):
        raise AttributeError("sealed")


class C(metaclass=Sealed):
    def m(self, x):
        return x
"""
    )
    step = plan(sealed, "C.m", modules)
    before = dict(vars(sealed.C))

    with pytest.raises(UnsupportedTargetError, match=r"C\.m cannot be replaced \(sealed\)"):
        step.install()

    assert dict(vars(sealed.C)) == before


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("nothing", TargetError, "there is no .*nothing"),
        ("NOT_CALLABLE", UnsupportedTargetError, "not a function that takes"),
    ],
)
def test_a_wrapper_that_is_not_there_or_no_function_is_refused(
    target: ModuleType, modules: Modules, name: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        plan(target, "f", modules, name)


def test_a_wrappers_module_that_is_not_there_is_refused(target: ModuleType) -> None:
    patch = Patch(target=f"{target.__name__}.f", wrap="no_such_module_here:f")

    with pytest.raises(TargetModuleError, match="no_such_module_here"):
        wrapper.plan(LivePatch("t", patch, target, "f"))


def test_a_name_that_is_not_there_is_refused(target: ModuleType, modules: Modules) -> None:
    with pytest.raises(TargetError, match=r"\.nothing"):
        plan(target, "nothing", modules)


def test_a_wrappers_module_that_raises_is_an_error_of_ours(target: ModuleType, modules: Modules) -> None:
    name = modules.write("raise ValueError('no luck')\n")
    before = dict(vars(target))
    patch = Patch(target=f"{target.__name__}.f", wrap=f"{name}:around")
    with pytest.raises(TargetModuleError, match="cannot be imported: ValueError: no luck") as raised:
        wrapper.plan(LivePatch("t", patch, target, "f"))
    assert isinstance(raised.value.__cause__, ValueError)
    assert dict(vars(target)) == before


@pytest.mark.parametrize(
    "head", ["def around(wrapped, args, kwargs):", "def around(*, wrapped):", "class around:"]
)
def test_a_wrapper_that_cannot_be_called_as_one_is_refused_at_once(
    target: ModuleType, modules: Modules, head: str
) -> None:
    name = modules.write(f"{head}\n    pass\n")
    before = dict(vars(target))
    patch = Patch(target=f"{target.__name__}.f", wrap=f"{name}:around")
    with pytest.raises(
        UnsupportedTargetError, match=r"cannot be called with \(wrapped, instance, args, kwargs\)"
    ):
        wrapper.plan(LivePatch("t", patch, target, "f"))
    assert dict(vars(target)) == before
