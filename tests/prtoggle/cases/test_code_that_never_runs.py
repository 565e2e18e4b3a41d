"""Code that can never run leaves no instruction, and is part of its function all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.prtoggle.cases.moments import patch, toggle, world

if TYPE_CHECKING:
    from tests.prtoggle.cases.moments import World

__all__ = ["world"]

TEXT = """
class C:
    def f(self, x):
        y = x + 1
        return y
        s = '''
    y = 15
'''
        z = (x,
  1)
        return s, z
def after():
    return 1
"""


@pytest.mark.parametrize("match", ["y = x + 1", "return s, z", "s = '''\n    y = 15\n'''", "z = (x,\n  1)"])
def test_a_string_at_the_margin_does_not_end_it(world: World, match: str) -> None:
    world.write({"case.py": TEXT})
    module, handle = world.revert(toggle(patch("case.C.f", match, "y = s = z = 7")))
    assert module.C().f(1) == (7 if match == "y = x + 1" else 2)
    assert module.after() == 1
    handle.restore()
    assert (module.C().f(1), module.after()) == (2, 1)
