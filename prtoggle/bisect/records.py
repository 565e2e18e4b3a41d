"""One run of the command and all that is kept of it; how runs of one set add up to what is known of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from prtoggle.bisect.closing import closing_step
from prtoggle.bisect.conversation import Known
from prtoggle.bisect.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from prtoggle.bisect.closing import Step
    from prtoggle.bisect.space import ToggleSet


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run with `toggles` reverted. `status` is -n for signal n, `how` says in words how the run ended.

    `reached` holds the toggles whose reverted code ran, `loaded` those whose module was loaded or whose
    variables were set, in any of the `processes` that reported, `blamed` those that could not be put into
    effect; `last_line` is the last line of the output that is not indented. `closing` is a run that
    was made after the search, of nothing reverted or of the cause.
    """

    toggles: tuple[str, ...]
    verdict: Verdict
    how: str
    status: int
    seconds: float
    last_line: str = ""
    reached: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    processes: int = 0
    blamed: tuple[str, ...] = ()
    closing: bool = False

    def as_json(self) -> dict[str, Any]:
        """The record as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunRecord:
        """The record that `as_json` gave. Raises TypeError, ValueError or KeyError for anything else."""
        lists = {name: tuple(map(str, data[name])) for name in ("toggles", "reached", "loaded", "blamed")}
        return cls(**{**data, **lists, "verdict": Verdict(data["verdict"])})


@dataclass(slots=True)
class Ledger:
    """All runs so far, by set. An end is run `repeat` times whatever comes out, to see how often it fails.

    `records` are the runs of the search, `closings` those of nothing reverted and of the cause after it.

    `refuse` says why a set cannot be put into effect, or "" when nothing is known against it.
    """

    repeat: int
    ends: Collection[ToggleSet]
    refuse: Callable[[ToggleSet], str] = lambda _toggles: ""
    records: list[RunRecord] = field(default_factory=list)
    closings: list[RunRecord] = field(default_factory=list)
    _of: dict[ToggleSet, list[RunRecord]] = field(default_factory=dict)

    def add(self, record: RunRecord) -> None:
        """Note a run that ended."""
        if record.closing:
            self.closings.append(record)
            return
        self.records.append(record)
        self._of.setdefault(frozenset(record.toggles), []).append(record)

    def runs_of(self, toggles: ToggleSet) -> list[RunRecord]:
        """The runs of that set, in the order in which they ended."""
        return self._of.get(toggles, [])

    def lookup(self, toggles: ToggleSet) -> Known | None:
        """What the runs of a set say; None while too few of them have ended.

        One failing run makes the set fail. Without one, a run that cannot say makes it one that cannot say.
        """
        runs = self.runs_of(toggles)
        verdicts = {run.verdict for run in runs}
        reached = frozenset(toggle_id for run in runs for toggle_id in run.reached)
        done = len(runs) >= self.repeat
        if Verdict.FAIL in verdicts and (done or toggles not in self.ends):
            return Known(Verdict.FAIL, reached)
        if Verdict.UNKNOWN in verdicts and Verdict.FAIL not in verdicts:
            blamed = frozenset(toggle_id for run in runs for toggle_id in run.blamed)
            return Known(Verdict.UNKNOWN, reached, blamed=blamed)
        if done:
            return Known(Verdict.PASS, reached)
        if not runs and self.refuse(toggles):
            return Known(Verdict.UNKNOWN, free=True)
        return None

    def closing_step(self, base: Verdict) -> Step:
        """What is to be run after a search that found a cause, or whether the closing runs agree with it."""
        search = [run.verdict for run in self.records]
        closing = [(bool(run.toggles), run.verdict) for run in self.closings]
        return closing_step(base, search, closing, self.repeat)

    def in_effect(self, toggles: ToggleSet) -> bool:
        """Whether a process of a run of that set reported that any of these toggles was in effect."""
        return any(run.loaded or run.reached for run in self.runs_of(toggles))

    def missing(self, toggles: ToggleSet) -> int:
        """How many runs of that set have to end before anything is known of it, at most."""
        return 0 if self.lookup(toggles) else self.repeat - len(self.runs_of(toggles))

    def failures(self, toggles: ToggleSet) -> tuple[int, int]:
        """How many runs of that set failed, of how many."""
        runs = self.runs_of(toggles)
        return sum(run.verdict is Verdict.FAIL for run in runs), len(runs)

    def ever(self, toggles: Iterable[str], what: str) -> ToggleSet:
        """The toggles that any run `reached`, or had `loaded`."""
        seen = {toggle_id for run in self.records for toggle_id in getattr(run, what)}
        return frozenset(toggles) & seen
