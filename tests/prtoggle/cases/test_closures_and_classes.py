"""Cells, `super()`, class bodies, inheritance: what a function is compiled in is what it runs in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import prtoggle
from tests.prtoggle.cases.moments import AT_LOAD, LIVE, live, patch, toggle, world

if TYPE_CHECKING:
    from tests.prtoggle.cases.moments import World

__all__ = ["live", "world"]


def test_a_closure_keeps_its_cells_and_sees_later_changes_of_them(live: World) -> None:
    live.write(
        {
            "case.py": """
            def make(k):
                def scaled(x):
                    return x * k
                def tune(v):
                    nonlocal k
                    k = v
                return scaled, tune
            scaled, tune = make(3)
            other, _ = make(7)
            """
        }
    )
    module = live.load()
    with prtoggle.reverted(toggle(patch("case.make.<locals>.scaled", "return x * k", "return x * k + 1000"))):
        # What was made before keeps its code, as the target is the maker.
        assert (module.scaled(2), module.other(2)) == (6, 14)
        fresh, tune = module.make(5)
        assert fresh(2) == 1010
        tune(6)
        assert fresh(2) == 1012
    assert module.make(5)[0](2) == 10


def test_one_closure_of_several_is_edited_alone(live: World) -> None:
    live.write(
        {
            "case.py": """
            def make(k):
                def scaled(x):
                    return x * k
                return scaled
            triple = make(3)
            double = make(2)
            """
        }
    )
    module = live.load()
    with prtoggle.reverted(toggle(patch("case.triple", "return x * k", "return x * k - 1"))):
        assert (module.triple(2), module.double(2), module.make(2)(2)) == (5, 4, 4)
    assert (module.triple(2), module.double(2)) == (6, 4)


CLOSURES = {
    "a variable dropped": ("return x * k + bias", "return x + bias", "triple(2)", 7, 3),
    "all variables dropped": ("return x * k + bias", "return x", "triple(2)", 7, 2),
    "an inner function uses the cell": (
        "return x * k + bias", "return (lambda: x * k - bias)()", "triple(2)", 7, 5,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("match", "new", "call", "fixed", "old"), CLOSURES.values(), ids=CLOSURES)
def test_cells_are_kept(world: World, match: str, new: str, call: str, fixed: int, old: int) -> None:
    world.write(
        {
            "case.py": """
            def make(k, bias):
                def scaled(x):
                    return x * k + bias
                return scaled
            triple = make(3, 1)
            """
        }
    )
    wanted = toggle(patch("case.triple", match, new))
    module, handle = world.revert(wanted)
    cells = [cell.cell_contents for cell in module.triple.__closure__ or ()]
    assert eval(call, vars(module)) == old
    if world.moment == AT_LOAD and len(cells) < 2:
        with pytest.raises(prtoggle.RestoreError, match="cannot be put back"):
            handle.restore()
        assert eval(call, vars(module)) == old
        return
    handle.restore()
    assert eval(call, vars(module)) == fixed


CLASS_CELLS = {
    "super() added": ("return 2", "return super().go() + 10", "Q().go()", 2, 11),
    "__class__ added": ("return 2", "return __class__.__name__", "Q().go()", 2, "Q"),
    "super() added in a nested function": (
        "return 2", "return (lambda: super(Q, self).go())()", "Q().go()", 2, 1,
    ),
    "super() with arguments": ("return 2", "return super(Q, self).go() + 20", "Q().go()", 2, 21),
}  # fmt: skip


@pytest.mark.parametrize(("match", "new", "call", "fixed", "old"), CLASS_CELLS.values(), ids=CLASS_CELLS)
def test_a_class_cell_that_an_edit_adds(
    world: World, match: str, new: str, call: str, fixed: object, old: object
) -> None:
    """Live there is no cell to take it from, and it is refused; at load it works."""
    world.write(
        {
            "case.py": "class P:\n    def go(self):\n        return 1\nclass Q(P):\n    def go(self):\n        return 2\n"
        }
    )
    wanted = toggle(patch("case.Q.go", match, new))
    if world.moment == LIVE:
        module = world.load()
        with pytest.raises(
            prtoggle.UnsupportedTargetError, match=r"case\.Q\.go.*__class__.*before the module is loaded"
        ):
            prtoggle.revert(wanted)
        assert eval(call, vars(module)) == fixed
        return
    module, handle = world.revert(wanted)
    assert eval(call, vars(module)) == old
    handle.restore()
    assert eval(call, vars(module)) == fixed


def test_super_added_where_the_method_has_the_cell_already(live: World) -> None:
    live.write(
        {
            "case.py": """
            class P:
                def go(self):
                    return 1
                def stay(self):
                    return 5
            class Q(P):
                def go(self):
                    out = super().go()
                    return out
            """
        }
    )
    module = live.load()
    with prtoggle.reverted(
        toggle(patch("case.Q.go", "out = super().go()", "out = super().stay() + super().go()"))
    ):
        assert module.Q().go() == 6
    assert module.Q().go() == 1


def test_super_goes_to_the_class_that_a_decorator_made_anew(world: World) -> None:
    """`dataclass(slots=True)` makes a second class, whose methods keep the cell of one of the two."""
    world.write(
        {
            "case.py": """
            from dataclasses import dataclass
            class P:
                __slots__ = ()
                def go(self):
                    return ["P"]
            @dataclass(slots=True)
            class Q(P):
                v: int = 1
                def go(self):
                    out = P.go(self)
                    return out + ["Q", __class__.__name__]
            """
        }
    )
    module, handle = world.revert(toggle(patch("case.Q.go", "out = P.go(self)", "out = ['old']")))
    assert module.Q().go() == ["old", "Q", "Q"]
    handle.restore()
    assert module.Q().go() == ["P", "Q", "Q"]


@pytest.mark.parametrize("target", ["Left.go", "Left.tag", "Left.prop"])
def test_what_a_class_only_inherits_is_refused_with_its_owner(world: World, target: str) -> None:
    world.write(
        {
            "case.py": """
            class Base:
                tag = 1
                def go(self):
                    return 1
                @property
                def prop(self):
                    return 1
            class Left(Base):
                pass
            class Right(Base):
                pass
            """
        }
    )
    if world.moment == LIVE:
        world.load()
    with pytest.raises(prtoggle.PrToggleError, match=r"Base"):
        prtoggle.revert(
            toggle(patch(f"case.{target}", "return 1" if "tag" not in target else "tag = 1", "pass"))
        )
    module = world.load()
    assert (module.Left().go(), module.Right().go(), module.Left.tag, module.Right().prop) == (1, 1, 1, 1)
    assert "go" not in vars(module.Left)


def test_a_method_borrowed_from_another_class_is_edited_where_it_is_defined(world: World) -> None:
    """Both classes hold one function object: an edit of it through either is an edit of both, or refused."""
    world.write(
        {
            "case.py": """
            class A:
                def go(self):
                    return 1
            class B:
                go = A.go
                def other(self):
                    return 7
            """
        }
    )
    module, handle = world.revert(toggle(patch("case.A.go", "return 1", "return 2")))
    assert (module.A().go(), module.B().go()) == (2, 2)
    handle.restore()
    assert (module.A().go(), module.B().go()) == (1, 1)


def test_a_function_and_a_method_of_one_name_are_told_apart(world: World) -> None:
    world.write(
        {
            "case.py": """
            def run(x):
                y = x + 1
                return ("function", y)
            class Box:
                def run(self, x):
                    y = x + 1
                    return ("method", y)
                class Inner:
                    def run(self, x):
                        y = x + 1
                        return ("inner", y)
            """
        }
    )
    calls = "[run(1), Box().run(1), Box.Inner().run(1)]"
    module, first = world.revert(toggle(patch("case.Box.run", "y = x + 1", "y = x + 10")))
    assert eval(calls, vars(module)) == [("function", 2), ("method", 11), ("inner", 2)]
    second = prtoggle.revert(toggle(patch("case.run", "y = x + 1", "y = x + 20")))
    third = prtoggle.revert(toggle(patch("case.Box.Inner.run", "y = x + 1", "y = x + 30")))
    assert eval(calls, vars(module)) == [("function", 21), ("method", 11), ("inner", 31)]
    first.restore()
    assert eval(calls, vars(module)) == [("function", 21), ("method", 2), ("inner", 31)]
    third.restore()
    second.restore()
    assert eval(calls, vars(module)) == [("function", 2), ("method", 2), ("inner", 2)]


def test_a_class_inside_a_function_is_edited_through_the_function(world: World) -> None:
    world.write(
        {
            "case.py": """
            def make(n):
                class Local:
                    def go(self):
                        return n + 1
                return Local
            Made = make(1)
            """
        }
    )
    module, handle = world.revert(toggle(patch("case.make", "return n + 1", "return n + 50")))
    assert module.make(1)().go() == 51
    # What was made at load was born reverted; what was made before a live flip keeps its code.
    assert module.Made().go() == (51 if world.moment == AT_LOAD else 2)
    handle.restore()
    assert (module.make(1)().go(), module.Made().go()) == (2, 2)


def test_generated_and_c_methods_are_refused(world: World) -> None:
    world.write(
        {
            "case.py": """
            import collections, dataclasses, enum, typing
            @dataclasses.dataclass(order=True)
            class D:
                x: int
            Point = collections.namedtuple("Point", "x y")
            class T(typing.NamedTuple):
                x: int
            class Color(enum.Enum):
                RED = 1
            """
        }
    )
    if world.moment == LIVE:
        world.load()
    for target in (
        "D.__init__",
        "D.__eq__",
        "D.__lt__",
        "Point._replace",
        "Point.__new__",
        "T.__new__",
        "Color.RED",
    ):
        with pytest.raises(prtoggle.PrToggleError, match=rf"case.{target}"):
            prtoggle.revert(toggle(patch(f"case.{target}", "self.x = x", "self.x = -x")))
    assert world.load().D(2).x == 2
