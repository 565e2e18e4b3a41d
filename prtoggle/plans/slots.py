"""A toggle while the engine knows it: how many hold it, and what was planned for it.

There is one slot for an id at a time; it stands for the toggle wherever sets of active toggles are
compared, by identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.errors import PrToggleError
    from prtoggle.installers.base import Step
    from prtoggle.live import Trail
    from prtoggle.plans.sites import Site
    from prtoggle.spec import Patch, Toggle
    from prtoggle.target import ResolvedTarget


@dataclass(slots=True, eq=False)
class Waiting:
    """One patch of a toggle whose module was not loaded when it was planned."""

    patch: Patch
    # The whole target while no finder knows the module (an early start, before sys.path is complete).
    module: str
    # None of a patch that is not made in source, and while no finder knows the module.
    resolved: ResolvedTarget | None
    # The step of a `wrap:` patch (or of a `value:` where there is no source), once its module was loaded.
    step: Step | None = None

    @property
    def is_found(self) -> bool:
        """Whether it is known which module the target is in."""
        return self.resolved is not None or self.module != self.patch.target


class SitePlan(NamedTuple):
    """One function that a toggle edits, and how its name led to it."""

    site: Site
    trail: Trail


@dataclass(slots=True, eq=False)
class Plan:
    """Everything that one toggle changes: verified, ready to be put in effect and taken back."""

    sites: list[SitePlan] = field(default_factory=list)
    steps: list[tuple[Patch, Step]] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    # Every patch that is made in source, loaded or not: what a load or reload of its file has to do.
    requests: list[tuple[ResolvedTarget, Patch]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Slot:
    """One toggle that was asked for at least once; it is in force while `handles` is above zero."""

    toggle: Toggle
    handles: int = 0
    plan: Plan | None = None
    observed: bool = False
    # Why the last load of a target failed, by the target as the spec writes it.
    failures: dict[str, PrToggleError] = field(default_factory=dict)
    # What was found in the environment under the toggle's variables: None for one that was not set.
    environment: dict[str, str | None] = field(default_factory=dict)

    @property
    def is_related(self) -> bool:
        """Whether the toggle says anything about other toggles."""
        return bool(self.toggle.requires or self.toggle.conflicts)

    @property
    def id(self) -> str:
        """The toggle's id."""
        return self.toggle.id

    @property
    def sites(self) -> Sequence[SitePlan]:
        """What is planned for live functions; like the rest, nothing while there is no plan."""
        return self.plan.sites if self.plan is not None else ()

    @property
    def waiting(self) -> Sequence[Waiting]:
        """The patches that wait for their module, or did."""
        return self.plan.waiting if self.plan is not None else ()

    @property
    def requests(self) -> Sequence[tuple[ResolvedTarget, Patch]]:
        """The patches that are made in source."""
        return self.plan.requests if self.plan is not None else ()

    @property
    def steps(self) -> list[tuple[Patch, Step]]:
        """The steps that have been or will be made, those of modules that were loaded since included."""
        planned = self.plan.steps if self.plan is not None else ()
        return [*planned, *((item.patch, item.step) for item in self.waiting if item.step is not None)]
