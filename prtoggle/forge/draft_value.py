"""What came of taking a fix out on paper, as a value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from prtoggle.forge.fix import Fix, LeftOut
    from prtoggle.spec import Patch
    from prtoggle.target import ResolvedTarget


#: Names that a reason lists at most.
_SHOWN: Final = 3


class DraftPatch(NamedTuple):
    """One patch of the draft, the place of its target, and whether it can go in at load only."""

    patch: Patch
    target: ResolvedTarget
    at_load_only: bool
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Draft:
    """What came of a fix: patches, names that stay, and what cannot be taken out with the reason.

    `used_still` are those of the names that stay which something reads after the revert. `leaves` names, for
    people, what the revert leaves in force: with any, the spec takes out a part of the fix only.

    It is `possible` when there are patches and nothing that a toggle would silently leave in.
    """

    fix: Fix
    patches: list[DraftPatch] = field(default_factory=list)
    stays: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    used_still: set[str] = field(default_factory=set)
    leaves: tuple[str, ...] = ()

    @property
    def possible(self) -> bool:
        """Whether the patches take out all of the fix that is code."""
        return bool(self.patches) and not any(item.blocks for item in self.left_out)

    @property
    def at_load_only(self) -> bool:
        """Whether some patch cannot be put in once its module is loaded."""
        return any(patch.at_load_only for patch in self.patches)

    @property
    def reason(self) -> str:
        """Why there is no toggle, in one line."""
        blocking = [f"{item.what} {item.why}" for item in self.left_out if item.blocks]
        if blocking:
            return blocking[0] + (f" (and {len(blocking) - 1} more)" if len(blocking) > 1 else "")
        if self.stays:
            more = ", ..." if len(self.stays) > _SHOWN else ""
            return f"the fix only adds what stays: {', '.join(self.stays[:_SHOWN])}{more}"
        rest = [f"{item.what} {item.why}" for item in self.left_out]
        return rest[0] if rest else "the fix changes no code"
