"""How much of a definition a candidate still holds beside the edited lines; a name alone is thin evidence.

The edited lines themselves say nothing: `n = max(n, 1)` stands in many functions. A share of the lines may
rule a candidate out, and never decides for one: that takes all of them, or evidence of another kind.
"""

from __future__ import annotations

import ast
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final, NamedTuple

from prtoggle.drift.functions import parsed_block

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEST_PARTS: Final = frozenset({"test", "tests", "testing", "conftest"})
#: Of a text that is near the locked one: lines that it has to share, at least.
_ENOUGH: Final = 3
_NEARLY_ALL: Final = 0.75
_HALF: Final = 0.5


class Likeness(NamedTuple):
    """The lines beside the edit that both texts have, in order, and how many each text has in all."""

    shared: int
    locked: int
    today: int

    @property
    def is_near(self) -> bool:
        """Whether the candidate is nearly the same text: near enough to be named, not to be taken for it."""
        return (
            self.shared >= _ENOUGH
            and self.shared >= _NEARLY_ALL * self.locked
            and self.shared >= _HALF * self.today
        )

    @property
    def is_whole(self) -> bool:
        """Whether the candidate holds every line of the locked text, in order; what else it holds is new."""
        return self.shared > _ENOUGH and self.shared == self.locked

    @property
    def bears_a_name(self) -> bool:
        """Whether the candidate may be the locked text edited, where it has its name."""
        return self.shared >= _HALF * self.locked


def likeness(locked: Sequence[str], edited: Sequence[str], today: Sequence[str]) -> Likeness:
    """Compares two definitions line by line, without their names, the edited lines and docstrings."""
    old, now = _plain(locked), _plain(today)
    skipped = {_squeezed(line) for line in edited if line.strip()}
    old, now = ([line for line in text if _squeezed(line) not in skipped] for text in (old, now))
    blocks = SequenceMatcher(None, old, now, autojunk=False).get_matching_blocks()
    return Likeness(sum(block.size for block in blocks), len(old), len(now))


def keeps_parameters(locked: Sequence[str], today: Sequence[str]) -> bool:
    """Whether a function still has all parameters of the locked one, of which there are some, in order."""
    old, now = _parameters(locked), iter(_parameters(today))
    return bool(old) and all(name in now for name in old)


def is_test_module(module: str) -> bool:
    """Whether a dotted module name lies in a test folder: a copy of code in there is no new home of it."""
    return any(
        part in _TEST_PARTS or part.startswith("test_") or part.endswith("_test")
        for part in module.split(".")
    )


def _plain(lines: Sequence[str]) -> list[str]:
    """The lines of a definition as Python writes them, with the same name and receiver for all."""
    node = parsed_block(lines)
    if node is None:
        return [line.strip() for line in lines if line.strip()]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        node.name = "_"
        node.decorator_list = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = [*node.args.posonlyargs, *node.args.args][:1]
            if first and first[0].arg in ("self", "cls"):
                (node.args.posonlyargs or node.args.args).pop(0)
    text = [line.strip() for line in ast.unparse(node).splitlines()]
    return [line for line in text if line and not line.startswith(('"""', "'''"))]


def _parameters(lines: Sequence[str]) -> list[str]:
    """The names that a function takes, but for a method's first."""
    node = parsed_block(lines)
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    given = node.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [item.arg for item in every if item is not None and item.arg not in ("self", "cls")]


def _squeezed(line: str) -> str:
    return "".join(line.split()).rstrip(",").replace('"', "'")
