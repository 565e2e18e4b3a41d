"""What was loaded with edits in its source: the record by which a function born reverted is restored."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.source.splices import merge

if TYPE_CHECKING:
    from types import CodeType, FunctionType

    from prtoggle.installers.base import Spot
    from prtoggle.live import Trail
    from prtoggle.plans.sites import Site
    from prtoggle.plans.slots import Slot
    from prtoggle.source.source_text import ModuleSource
    from prtoggle.source.splices import Splice


@dataclass(slots=True, eq=False)
class Unit:
    """One function of a module that was loaded with edits, `lines[start:end]` of the unedited module.

    `splices` count from the beginning of the function and are None when an edit reaches beyond it: such a
    function cannot be restored on its own.
    """

    qualname: str
    start: int
    end: int
    filename: str
    splices: dict[Slot, tuple[Splice, ...]] | None
    slots: frozenset[Slot]
    # Where its edits stand, in lines of the virtual file.
    spots: tuple[Spot, ...] = ()
    decorated: bool = False
    # Filled when the module's code was compiled: what was given out, and the same without probes.
    code: CodeType | None = None
    plain: CodeType | None = None
    # The functions that were made from it, as far as they were asked for.
    sites: list[Site] = field(default_factory=list)

    def merged(self) -> tuple[Splice, ...]:
        """All edits that the function was loaded with."""
        return merge([splice for splices in (self.splices or {}).values() for splice in splices])


class Witness(NamedTuple):
    """What a name led to when its module had run with an edit: the function, where it is one of a unit."""

    target: str
    qualname: str
    trail: Trail
    function: FunctionType | None
    unit: Unit | None


@dataclass(slots=True, eq=False)
class Birth:
    """One load of a module's edited source; newlines are normalised."""

    name: str
    source: ModuleSource
    edited: str
    units: list[Unit]
    slots: frozenset[Slot]
    # The changes of statements outside of functions.
    outside: list[Splice]
    # Where these stand, in the lines that their code has.
    spots: tuple[Spot, ...] = ()
    # Whether the loader compiles in a way of its own: a unit without code is hidden then, else dead code.
    rewritten: bool = False
    # Whether the module that this code was given to has run to its end, and was looked at.
    verified: bool = False
    # What each toggle had come to then.
    witnesses: dict[Slot, list[Witness]] = field(default_factory=dict)
    # The toggles that were restored since.
    put_back: set[Slot] = field(default_factory=set)
    # The file as it was found then: absolute, links resolved.
    real_path: str = field(init=False)

    def __post_init__(self) -> None:
        self.real_path = os.path.realpath(self.path)

    @property
    def path(self) -> str:
        """The module's file."""
        return self.source.path

    @property
    def lines(self) -> list[str]:
        """The unedited lines."""
        return self.source.lines

    def outside_of(self, slot: Slot, target: str | None = None) -> list[Splice]:
        """The changes outside of functions that one toggle made (for one target)."""
        return [
            splice
            for splice in self.outside
            if splice.toggle_id == slot.id and target in (None, splice.target)
        ]


class Births:
    """All loads with edits in this process, newest last."""

    def __init__(self) -> None:
        self._by_filename: dict[str, tuple[Birth, Unit]] = {}
        self._births: list[Birth] = []
        self._slots: set[Slot] = set()

    def add(self, birth: Birth) -> None:
        """Remember a load."""
        self._births.append(birth)
        self._slots |= birth.slots
        for unit in birth.units:
            self._by_filename[unit.filename] = (birth, unit)

    def discard(self, birth: Birth) -> None:
        """Forget a load that failed."""
        self._births.remove(birth)
        for unit in birth.units:
            self._by_filename.pop(unit.filename, None)

    def of_code(self, code: CodeType) -> tuple[Birth, Unit] | None:
        """The load and the unit that a code object came from, or None when it was not edited at load."""
        return self._by_filename.get(code.co_filename)

    def of_path(self, path: str) -> Birth | None:
        """The last load of that file with edits."""
        if not self._births:
            return None
        # A loader may have been given a relative path, and the program may have changed its folder since.
        real = os.path.realpath(path)
        return next(
            (birth for birth in reversed(self._births) if path == birth.path or real == birth.real_path), None
        )

    def has(self, slot: Slot) -> bool:
        """Whether anything was ever loaded with that toggle."""
        return slot in self._slots

    def with_slot(self, slot: Slot) -> list[Birth]:
        """The loads that had edits of that toggle."""
        return [birth for birth in self._births if slot in birth.slots]
