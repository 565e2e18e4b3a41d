"""On generated functions, edits and inputs: tracing reports what running both variants apart gives."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.toggle_making import make_toggle
from tests.prtoggle.traced_modules import trace

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["modules"]

#: Statements of functions of a list, a dict and a number; some raise, some alias, some change in place.
STATEMENTS = st.sampled_from(
    [
        "rows.append(n)",
        "rows.append(rows[0])",
        "rows[0] = n",
        "rows[0].append(n)",
        "del rows[0]",
        "rows.reverse()",
        "rows = rows[1:]",
        "table[n] = rows",
        "table[n] = list(rows)",
        "table['k'] = table.pop(n)",
        "n = n + 1",
        "n = -n",
        "n = len(rows)",
        "if n > 1:\n        return table",
        "if not rows:\n        raise ValueError(n)",
        "return rows",
        "return (n, table)",
        "return [rows, rows]",
        "return n / 1",
        "raise KeyError('n', n)",
    ]
)
BODIES = st.lists(STATEMENTS, min_size=1, max_size=4)
INPUTS = st.tuples(
    st.lists(st.one_of(st.integers(-1, 2), st.lists(st.integers(0, 1), max_size=2)), max_size=3),
    st.dictionaries(st.integers(-1, 2), st.integers(0, 2), max_size=2),
    st.integers(-1, 2),
)


def text_of(body: list[str], name: str = "f") -> str:
    lines = "\n    ".join(["seen = 0", *body, "return None"])
    return f"def {name}(rows, table, n):\n    {lines}\n"


def run(function: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[str, Any]:
    """Whether a call returned, and what it came to and left, as `Shapes` tells it."""
    held = list(inputs)
    shapes = Shapes()
    shapes.of(held)
    try:
        how, outcome = "result", function(*held)
    except Exception as error:  # noqa: BLE001  # whatever the generated function raises
        how, outcome = "raises", (type(error), *error.args)
    return how, shapes.of([outcome, *held])


class Shapes:
    """Structures as values that are equal for the same types, contents, and objects at the same places.

    An object has the number of when it was met first, so that what stood in the inputs is known again.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []

    def of(self, value: Any) -> Any:
        return self._of(value, set())

    def _of(self, value: Any, inside: set[int]) -> Any:
        if isinstance(value, tuple):
            return (tuple, tuple(self._of(item, inside) for item in value))
        if not isinstance(value, (list, dict)):
            return (type(value), value)
        self._kept.append(value)
        number = self._numbers.setdefault(id(value), len(self._numbers))
        if id(value) in inside:
            return ("again", number)
        inside.add(id(value))
        items = list(value.items()) if isinstance(value, dict) else value
        return (number, type(value), tuple(self._of(item, inside) for item in items))


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_told_is_what_two_separate_runs_give(modules: Modules, data: st.DataObject) -> None:
    fixed, reverted = data.draw(BODIES), data.draw(BODIES)
    inputs = data.draw(st.lists(INPUTS, min_size=1, max_size=3))
    kept = "\n".join(["seen = 0", *(line.replace("\n        ", "\n    ") for line in fixed), "return None"])
    put = "\n".join(["seen = 1", *(line.replace("\n        ", "\n    ") for line in reverted), "return None"])
    module = modules.load(text_of(fixed))
    other: dict[str, Any] = {}
    exec(text_of(reverted), other)
    alone = [run(module.f, copy.deepcopy(one)) for one in inputs]
    apart = [run(other["f"], copy.deepcopy(one)) for one in inputs]
    differing = [ours != theirs for ours, theirs in zip(alone, apart, strict=True)]
    account = trace(make_toggle(f"{module.__name__}.f", (kept, put)), limit=100)

    traced = [run(module.f, copy.deepcopy(one)) for one in inputs]

    assert traced == alone
    assert account.outcome() == (differing.count(False), differing.count(True), 0)
    told = {event["call"]: event for event in account.differences}
    first_told = min(told, default=0)
    assert first_told == (differing.index(True) + 1 if any(differing) else 0)
    if first_told:
        assert told[first_told]["reverted"].startswith("raises") == (apart[first_told - 1][0] == "raises")
