"""Version ranges such as ">=0.5.16,<0.5.18", compared by release numbers alone.

What follows the release numbers (rc1, .post2, +cu124) is ignored, so 0.5.18rc1 counts as 0.5.18: the package
that knows the full rules is not among what may be loaded into other people's processes.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from prtoggle.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable

_CLAUSE: Final = re.compile(r"\s*(>=|<=|==|!=|<|>)\s*v?(\d+(?:\.\d+)*)(\.\*)?\s*")
_RELEASE: Final = re.compile(r"v?(?:\d+!)?(\d+(?:\.\d+)*)")

_OPERATORS: Final[dict[str, Callable[[int], bool]]] = {
    ">=": lambda order: order >= 0,
    "<=": lambda order: order <= 0,
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
    "<": lambda order: order < 0,
    ">": lambda order: order > 0,
}


class Clause(NamedTuple):
    """One condition of a range; `prefix` says that only the numbers given count, as in ==0.5.*."""

    operator: str
    release: tuple[int, ...]
    prefix: bool

    def admits(self, release: tuple[int, ...]) -> bool:
        """Whether a version of these release numbers fulfils the condition."""
        compared = release[: len(self.release)] if self.prefix else release
        return _OPERATORS[self.operator](_compare(compared, self.release))


def parse_range(text: str) -> tuple[Clause, ...]:
    """The conditions of a comma list. Raises SpecError for text that is none."""
    clauses = []
    for part in text.split(","):
        found = _CLAUSE.fullmatch(part)
        if found is None or (found[3] and found[1] not in ("==", "!=")):
            raise SpecError(
                f"{part.strip()!r} is no version condition; write a comma list such as >=0.5.16,<0.5.18"
            )
        clauses.append(Clause(found[1], _numbers(found[2]), bool(found[3])))
    return tuple(clauses)


def admits(range_text: str, version: str) -> bool:
    """Whether the version is in the range. Raises SpecError when either is not of the known form."""
    found = _RELEASE.match(version)
    if found is None:
        raise SpecError(f"the version {version!r} does not begin with release numbers")
    return all(clause.admits(_numbers(found[1])) for clause in parse_range(range_text))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _compare(one: tuple[int, ...], two: tuple[int, ...]) -> int:
    """-1, 0 or 1; missing numbers count as 0."""
    for mine, theirs in zip_longest(one, two, fillvalue=0):
        if mine != theirs:
            return -1 if mine < theirs else 1
    return 0
