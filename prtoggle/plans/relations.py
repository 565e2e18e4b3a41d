"""What toggles say about each other and about the environment: requires, conflicts, variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prtoggle.errors import ConflictError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.plans.slots import Slot


def refuse_conflicts(new: Sequence[Slot], active: Sequence[Slot]) -> None:
    """Raise ConflictError when toggles exclude each other, or one lacks what it requires."""
    together = {slot.id: slot for slot in (*active, *new)}
    for slot in together.values():
        for other in slot.toggle.conflicts:
            if other in together:
                raise ConflictError(
                    f"toggles {slot.id} and {other} cannot be reverted together: {slot.id} says conflicts",
                    toggles=(slot.id, other),
                )
    for slot in new:
        for other in slot.toggle.requires:
            if other not in together:
                raise ConflictError(
                    f"toggle {slot.id} requires {other}, which is not reverted: revert both, as in "
                    f"PRTOGGLE={slot.id},{other} or revert({slot.id!r}, {other!r})",
                    toggles=(slot.id, other),
                )


def refuse_required(leaving: Sequence[Slot], staying: Sequence[Slot]) -> None:
    """Raise ConflictError when a toggle that is to be restored is required by one that stays reverted."""
    gone = {slot.id for slot in leaving}
    for slot in staying:
        for other in slot.toggle.requires:
            if other in gone:
                raise ConflictError(
                    f"toggle {other} cannot be restored while {slot.id}, which requires it, is reverted: "
                    f"restore {slot.id} first",
                    toggles=(other, slot.id),
                )


def set_variables(slot: Slot, active: Sequence[Slot]) -> None:
    """Set what the toggle's `env:` asks for, remembering what was there.

    Raises ConflictError, changing nothing, for a variable that an active toggle set to something else.
    """
    if not slot.toggle.env:
        return
    for name, value in slot.toggle.env.items():
        for other in active:
            if other is not slot and other.toggle.env.get(name, value) != value:
                raise ConflictError(
                    f"toggle {other.id} sets {name}={other.toggle.env[name]}, toggle {slot.id} sets "
                    f"{name}={value}: they cannot be reverted together",
                    toggles=(other.id, slot.id),
                )
    slot.environment = {name: os.environ.get(name) for name in slot.toggle.env}
    os.environ.update(slot.toggle.env)


def put_variables_back(slot: Slot, known: Sequence[Slot]) -> None:
    """Undo `set_variables`; a variable that somebody else has set since is theirs and stays.

    `known` are the toggles in force, in the order in which they came to be: a variable that another of them
    wants too stays until the last has gone, and is then what it was before the first.
    """
    for name, before in slot.environment.items():
        wanting = [other for other in known if name in other.environment]
        others = [other for other in wanting if other is not slot]
        if others:
            if wanting[0] is slot:
                others[0].environment[name] = before
            continue
        if os.environ.get(name) != slot.toggle.env[name]:
            continue
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
    slot.environment = {}
