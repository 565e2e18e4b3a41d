"""What a search came to, in the terms of whoever asked: the cause, how sure it is, what was not searched."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from prtoggle.bisect.confidence import confidence
from prtoggle.bisect.conversation import NOTHING, Finding, Outcome, judged_together
from prtoggle.bisect.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prtoggle.bisect.candidates import LeftOut
    from prtoggle.bisect.records import Ledger
    from prtoggle.bisect.space import Space, ToggleSet
    from prtoggle.spec import Toggle


#: Those of a finding, and what makes a set that changes the verdict no cause: "unseen", no process reported
#: it in effect; "unsteady", the build as it is, or the set, has another verdict after the search.
AnswerOutcome = Literal[Outcome, "unseen", "unsteady"]


@dataclass(frozen=True, slots=True)
class Count:
    """What the search cost, and what it may have cost.

    `tests` are sets that the answer rests on, `runs` all runs of the search that ended, those ahead of time
    or repeated included, `closing` the runs after it. `located` is the number of tests after which one toggle
    was left.

    `bound` is for a cause of this size among n toggles and a verdict that stays with more reverted: for one
    toggle log2(n) + 3, which `located` keeps within, for k together (k + 1) * (ceil(log2(n)) + 2) + 2, which
    `tests` does. Each end beyond two adds one. `formula` is the bound in words.
    """

    tests: int
    runs: int
    closing: int
    located: int
    bound: float
    formula: str


@dataclass(frozen=True, slots=True)
class Certainty:
    """Of sets with `repeat` runs: the failing end failed `failed` of `runs` times, `passed` sets passed."""

    repeat: int
    failed: int
    runs: int
    passed: int

    @property
    def confidence(self) -> float:
        """The probability that no set was wrongly taken to pass, at least."""
        return confidence(self.failed, self.runs, self.repeat, self.passed)


@dataclass(frozen=True)
class Answer:
    """The finding with all that is needed to report it."""

    finding: Finding
    space: Space
    toggles: Mapping[str, Toggle]
    ledger: Ledger
    left_out: tuple[LeftOut, ...] = ()

    @property
    def cause(self) -> list[Toggle]:
        """The toggles of the cause, what is required before what requires it."""
        return [self.toggles[toggle_id] for toggle_id in self.space.ordered(self.finding.cause)]

    @property
    def outcome(self) -> AnswerOutcome:
        """What the finding comes to once the runs it rests on are looked at."""
        if self.finding.outcome == "cause" and not self.ledger.in_effect(self.finding.cause):
            return "unseen"
        if self.finding.outcome == "cause" and self.ledger.closing_step(self.base) != "steady":
            return "unsteady"
        return self.finding.outcome

    @property
    def base(self) -> Verdict:
        """The verdict of the build as it is."""
        return self.finding.asked[NOTHING].verdict

    @property
    def ends(self) -> dict[ToggleSet, Verdict]:
        """The verdicts of the ends that were tested: nothing reverted, then the largest sets."""
        tops = [top for top in self.space.tops() if top in self.finding.asked]
        return {toggles: self.finding.asked[toggles].verdict for toggles in (NOTHING, *tops)}

    @property
    def count(self) -> Count:
        """The cost of the search."""
        tests = sum(not known.free for known in self.finding.asked.values())
        number, size = len(self.space.order), len(self.finding.cause)
        more = max(0, len(self.ends) - 2)
        if self.finding.single or not size:
            bound: float = math.log2(number) + 3 + more
            formula = f"for one cause among {number}: log2({number}) + {3 + more} = {bound:.1f}"
        else:
            bound = (size + 1) * (math.ceil(math.log2(number)) + 2) + 2 + more
            formula = f"for {size} together among {number}: {bound}"
        runs, closing = len(self.ledger.records), len(self.ledger.closings)
        return Count(tests, runs, closing, self.finding.located, bound, formula)

    @property
    def certainty(self) -> Certainty | None:
        """How sure the passing sets of a cause are; None without repeated runs, or when no end fails."""
        failing = next((end for end, verdict in self.ends.items() if verdict is Verdict.FAIL), None)
        if self.ledger.repeat == 1 or failing is None or self.outcome != "cause":
            return None
        passed = sum(known.verdict is Verdict.PASS for known in self.finding.asked.values())
        return Certainty(self.ledger.repeat, *self.ledger.failures(failing), passed)

    @property
    def unresolved(self) -> dict[ToggleSet, str]:
        """The sets that cannot say, and why."""
        found = {}
        for toggles, known in self.finding.asked.items():
            if known.verdict is Verdict.UNKNOWN:
                runs = [run for run in self.ledger.runs_of(toggles) if run.verdict is Verdict.UNKNOWN]
                found[toggles] = runs[0].how if runs else self.ledger.refuse(toggles)
        return found

    @property
    def not_together(self) -> list[list[str]]:
        """The pairs that go together, but of which no set that was judged holds both: they are in no end."""
        asked = self.finding.asked
        pairs = [pair for pair in self.space.apart() if not judged_together(asked, pair)]
        return [self.space.ordered(pair) for pair in pairs]

    def required_by(self, toggle_id: str) -> list[str]:
        """Other members of the cause that cannot be out without this one: nobody can tell if it matters."""
        others = self.finding.cause - {toggle_id}
        return self.space.ordered(key for key in others if toggle_id in self.space.close([key]))

    @property
    def own(self) -> list[str]:
        """Members of the cause that no other one requires: of these it is known what happens without them."""
        return [toggle.id for toggle in self.cause if not self.required_by(toggle.id)]

    @property
    def undecided(self) -> list[str]:
        """Members of the cause without which the command cannot say: they may not be needed."""
        return [key for key, verdict in self.finding.members.items() if verdict is Verdict.UNKNOWN]

    @property
    def never_reached(self) -> list[str]:
        """Members of the cause whose reverted code ran in no run of that set, as far as was reported."""
        runs = self.ledger.runs_of(self.finding.cause)
        ran = {toggle_id for run in runs for toggle_id in run.reached}
        return [toggle.id for toggle in self.cause if toggle.id not in ran]

    @property
    def nobody_reported(self) -> bool:
        """Whether no process of any run with toggles was a Python that reverts them."""
        reverted = [run for run in self.ledger.records if run.toggles]
        return bool(reverted) and not any(run.processes for run in reverted)

    @property
    def symptom(self) -> str:
        """What the failing side of the answer printed last."""
        sides = (self.finding.cause, NOTHING)
        runs = [run for side in sides for run in self.ledger.runs_of(side)]
        return next((run.last_line for run in runs if run.verdict is Verdict.FAIL), "")

    def by_hand(self, command: Sequence[str], catalogue: str = "") -> tuple[str, str]:
        """The shell's commands that show it: the build as it is, and with the cause reverted.

        `catalogue` is a folder of specs that no other place names.
        """
        ids = ",".join(toggle.id for toggle in self.cause)
        path = f"PRTOGGLE_PATH={shlex.quote(catalogue)} " if catalogue else ""
        return shlex.join(command), f"{path}PRTOGGLE={ids} {shlex.join(command)}"
