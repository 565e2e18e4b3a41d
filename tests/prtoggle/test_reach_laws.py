"""An edited statement is reported as reached exactly when it ran, in programs of any shape."""

from __future__ import annotations

import importlib
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import prtoggle
from prtoggle import engine, reach
from tests.prtoggle.made_modules import Modules, modules

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["modules"]
_serial = itertools.count()
INPUTS = (0, 1, 2, 3, 4, 5, 6, 7, 7)

# A block is a list of statements; a statement is a simple one, or a compound one with its blocks.
BLOCKS = st.recursive(
    st.lists(st.sampled_from(["add", "log", "long", "raise"]), min_size=1, max_size=3),
    lambda inner: st.lists(
        st.sampled_from(["add", "log", "long"])
        | st.tuples(st.sampled_from(["if", "else", "for", "try", "with", "while"]), inner, inner),
        min_size=1,
        max_size=3,
    ),
    max_leaves=8,
)


class Program:
    """A function of one small integer, as text; every `add` has a number of its own."""

    def __init__(self, block: list[Any]) -> None:
        self._numbers = itertools.count(101)
        self._bits = itertools.cycle([1, 2, 4])
        self.adds: list[str] = []
        self.lines = ["import contextlib", "", "", "def f(x):", "    v = 0"]
        self._block(block, 1)
        self.lines.append("    return v")

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def _put(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def _block(self, block: list[Any], depth: int) -> None:
        for statement in block:
            if statement == "add":
                self.adds.append(f"v += {next(self._numbers)}")
                self._put(depth, self.adds[-1])
            elif statement == "log":
                self._put(depth, f"v = max(v, {next(self._numbers)})")
            elif statement == "long":
                self._put(depth, "v = (")
                self._put(depth + 1, "v")
                self._put(depth + 1, f"+ {next(self._numbers)}")
                self._put(depth, ")")
            elif statement == "raise":
                self._put(depth, f"v = v // (x & {next(self._bits)})")
            else:
                self._compound(*statement, depth)

    def _compound(self, kind: str, first: list[Any], second: list[Any], depth: int) -> None:
        bit = next(self._bits)
        heads = {
            "if": (f"if x & {bit}:", None),
            "else": (f"if x & {bit}:", "else:"),
            "for": (f"for _ in range(x & {bit}):", "else:"),
            "try": ("try:", "except ZeroDivisionError:"),
            "with": ("with contextlib.suppress(ZeroDivisionError):", None),
            "while": (f"while x & {bit} and v < 100:", None),
        }
        head, other = heads[kind]
        self._put(depth, head)
        self._block(first, depth + 1)
        if other is not None:
            self._put(depth, other)
            self._block(second, depth + 1)
        if kind == "while":
            self._put(depth + 1, "v += 100")


def hits_of(text: str, edited: str, replacement: str) -> list[bool]:
    """For each input in turn: whether the edited statement was run by then, by a mark in front of it."""
    ran: list[int] = []
    space: dict[str, Any] = {"mark": lambda: ran.append(1)}
    (line,) = [line for line in text.splitlines() if line.strip() == edited]
    indent = line[: len(line) - len(line.lstrip())]
    marked = "\n".join(indent + part for part in ["mark()", *replacement.splitlines()])
    exec(text.replace(line + "\n", marked + "\n"), space)
    return [bool(_called(space["f"], x) or ran) for x in INPUTS]


def _called(function: Any, x: int) -> None:
    try:
        function(x)
    except ZeroDivisionError:
        return


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Modules]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("made")
        patch.syspath_prepend(str(folder))
        yield Modules(folder)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(block=BLOCKS, data=st.data())
@pytest.mark.parametrize("moment", ["at load", "live"])
def test_reached_means_ran(shared: Modules, moment: str, block: list[Any], data: st.DataObject) -> None:
    program = Program([*block, "add"])
    chosen = data.draw(st.sampled_from(program.adds), label="edited")
    replacement = data.draw(st.sampled_from(["", "v += 5", "pass", "if v:\n    v += 1"]), label="replacement")
    reach.start()
    name = shared.write(program.text)
    if moment == "live":
        importlib.import_module(name)
    patch = {"target": f"{name}.f", "edits": [{"match": chosen, "replacement": replacement}]}
    toggle = prtoggle.load(json.dumps({"id": f"law{next(_serial)}", "patches": [patch]}))

    with engine.revert([toggle], observe=True):
        function = importlib.import_module(name).f
        told = [bool(_called(function, x) or reach.reached(toggle.id)) for x in INPUTS]

    assert told == hits_of(program.text, chosen, replacement)
