"""What can have become of the code under a toggle."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prtoggle.drift.candidates import Candidate
    from prtoggle.spec import Patch


class Drift(StrEnum):
    """How today's code differs from the code that the toggle was last known to fit."""

    NOT_LOCKED = "not locked"
    UNREADABLE = "not readable"
    UNCHANGED = "unchanged"
    REFLOWED = "reflowed"
    MOVED = "target moved"
    RENAMED = "target renamed"
    EDITED_NEAR = "edited near the fix"
    EDITED_ON = "edited on the fix"
    ALREADY_REVERTED = "already reverted"
    GONE = "fix gone"
    SCOPE_CREEP = "scope creep"
    SPEC_CHANGED = "spec changed"


#: Classes in which the toggle would not do what it did, whether or not its edit still finds a place.
FINDINGS: Final = frozenset(
    {
        Drift.MOVED,
        Drift.RENAMED,
        Drift.EDITED_ON,
        Drift.ALREADY_REVERTED,
        Drift.GONE,
        Drift.SCOPE_CREEP,
    }
)


@dataclass(frozen=True, slots=True)
class PatchDrift:
    """What became of one patch. `why` is one sentence for people.

    `healed` is the patch that does today what the old one did, where the evidence is conclusive; `decision`
    says what a person has to decide where it is not.
    """

    target: str
    drift: Drift
    why: str = ""
    candidates: tuple[Candidate, ...] = ()
    healed: Patch | None = None
    decision: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether somebody has to look at it."""
        return self.drift in FINDINGS
