"""The sets of toggles that can be reverted together: closed under `requires`, free of conflicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

ToggleSet = frozenset[str]


@dataclass(frozen=True)
class Space:
    """`order` lists all toggles, `requires` what each needs directly, `conflicts` the pairs that exclude.

    Every toggle can be reverted with what it requires; whoever makes a space leaves the others out.
    """

    order: tuple[str, ...]
    requires: Mapping[str, Collection[str]] = field(default_factory=dict)
    conflicts: Collection[ToggleSet] = ()
    _closures: dict[str, ToggleSet] = field(default_factory=dict, init=False, repr=False)
    _places: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for toggle_id in self.order:
            self._closures[toggle_id] = self._reach(toggle_id)
        # What is required comes first, so that every beginning of the order is closed.
        line: dict[str, None] = {}
        for toggle_id in self.order:
            needed = sorted(self._closures[toggle_id] - {toggle_id}, key=self._depth)
            line.update(dict.fromkeys([*needed, toggle_id]))
        self._places.update({toggle_id: place for place, toggle_id in enumerate(line)})

    def _depth(self, toggle_id: str) -> tuple[int, int]:
        return len(self._closures[toggle_id]), self.order.index(toggle_id)

    def _reach(self, toggle_id: str) -> ToggleSet:
        found: set[str] = set()
        pending = [toggle_id]
        while pending:
            current = pending.pop()
            if current not in found:
                found.add(current)
                pending += self.requires.get(current, ())
        return frozenset(found)

    def close(self, toggles: Iterable[str]) -> ToggleSet:
        """The toggles with all that they require."""
        return frozenset().union(*(self._closures[toggle_id] for toggle_id in toggles))

    def without(self, toggles: ToggleSet, gone: Iterable[str]) -> ToggleSet:
        """`toggles` (closed) less those that are gone and those that require one of them."""
        out = set(gone)
        return frozenset(toggle_id for toggle_id in toggles if not out & self._closures[toggle_id])

    def ordered(self, toggles: Iterable[str]) -> list[str]:
        """The toggles in their order, what is required before what requires it."""
        return sorted(toggles, key=self._places.__getitem__)

    def compatible(self, toggles: ToggleSet) -> bool:
        """Whether no two of them exclude each other."""
        return not any(pair <= toggles for pair in self.conflicts)

    def grown(self, toggles: ToggleSet, line: Iterable[str]) -> ToggleSet:
        """A maximal set that holds `toggles` (closed); those of `line` join in that order if they can."""
        for other in line:
            larger = toggles | self._closures[other]
            if self.compatible(larger):
                toggles = larger
        return toggles

    def apart(self) -> list[ToggleSet]:
        """The pairs that can be reverted together, and that none of the `tops` holds."""
        if len(self._largest) == 1:
            return []
        return [
            frozenset(pair)
            for pair in combinations(self.ordered(self.order), 2)
            if not any(top.issuperset(pair) for top in self._largest) and self.compatible(self.close(pair))
        ]

    def tops(self) -> list[ToggleSet]:
        """Maximal sets that can be reverted together; every toggle is in one of them.

        One set when nothing conflicts. Each further set begins with a toggle that no set before it holds.
        """
        return list(self._largest)

    @cached_property
    def _largest(self) -> list[ToggleSet]:
        found: list[ToggleSet] = []
        covered: set[str] = set()
        line = self.ordered(self.order)
        for first in line:
            if first in covered:
                continue
            # Toggles that no set holds yet go before those that have been in one.
            fresh_first = sorted(line, key=lambda toggle_id: toggle_id in covered)
            top = self.grown(self._closures[first], fresh_first)
            found.append(top)
            covered |= top
        return found
