"""Runs a search to its end: asks what is needed next, keeps the pool busy, writes each run down."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from prtoggle.bisect.conversation import NOTHING, Finding, upcoming
from prtoggle.bisect.one_run import Job
from prtoggle.bisect.search import search

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from prtoggle.bisect.conversation import Asking
    from prtoggle.bisect.pools import Pool
    from prtoggle.bisect.records import Ledger, RunRecord
    from prtoggle.bisect.space import Space, ToggleSet
    from prtoggle.bisect.verdicts import Rules


@dataclass(frozen=True, slots=True)
class Orders:
    """How each run is made: the command, the specs of all toggles, the rules, and where outputs are kept."""

    command: tuple[str, ...]
    specs: Mapping[str, str]
    rules: Rules
    timeout: float | None = None
    logs: Path | None = None

    def job(self, toggles: list[str], number: int) -> Job:
        """The job that reverts these toggles; `number` names the file of its output."""
        log = "" if self.logs is None else str((self.logs / f"run-{number:03}.log").absolute())
        specs = {toggle_id: self.specs[toggle_id] for toggle_id in toggles}
        return Job(self.command, tuple(toggles), specs, self.rules, self.timeout, log)


@dataclass(slots=True)
class Hunt:
    """One search. With `jobs` > 1 the sets that may be asked next are tested ahead of time.

    The order of answers does not matter: what is asked follows from what each set came to, never from which
    run ended first.
    """

    space: Space
    ledger: Ledger
    orders: Orders
    pool: Pool
    jobs: int = 1
    unmask: bool = False
    listeners: Sequence[Callable[[RunRecord], None]] = ()
    _running: dict[int, ToggleSet] = field(default_factory=dict)
    _number: int = 0

    def run(self) -> Finding:
        """The finding. Raises BisectError when the command cannot be started."""
        self._number = len(self.ledger.records) + len(self.ledger.closings)
        while True:
            wanted = upcoming(self._search, self.ledger.lookup, self.jobs)
            if isinstance(wanted, Finding):
                self._give_up_what_nobody_wants([])
                self._close(wanted)
                return wanted
            self._give_up_what_nobody_wants(wanted)
            self._fill(wanted)
            self._take_in()

    def _close(self, finding: Finding) -> None:
        """Ask both sides again, when a set is about to be named as the cause."""
        base = finding.asked[NOTHING].verdict
        if finding.outcome != "cause" or not self.ledger.in_effect(finding.cause):
            return
        sides = {"nothing": NOTHING, "cause": finding.cause}
        while (side := self.ledger.closing_step(base)) in sides:
            self._start(sides[side])
            while self._running:
                self._take_in(closing=True)

    def _search(self) -> Asking[Finding]:
        return search(self.space, unmask=self.unmask)

    def _give_up_what_nobody_wants(self, wanted: list[ToggleSet]) -> None:
        for number in [number for number, toggles in self._running.items() if toggles not in wanted]:
            self.pool.cancel(number)
            # It is reported as ended later, and then ignored.
            del self._running[number]

    def _fill(self, wanted: list[ToggleSet]) -> None:
        """Start runs until all jobs are busy: all that the first set needs, then those of the next."""
        for toggles in wanted:
            under_way = sum(running == toggles for running in self._running.values())
            for _ in range(self.ledger.missing(toggles) - under_way):
                if len(self._running) >= self.jobs:
                    return
                self._start(toggles)

    def _start(self, toggles: ToggleSet) -> None:
        self._number += 1
        self._running[self._number] = toggles
        self.pool.submit(self._number, self.orders.job(self.space.ordered(toggles), self._number))

    def _take_in(self, *, closing: bool = False) -> None:
        ended = self.pool.next_ended()
        if self._running.pop(ended.number, None) is None:
            return
        if ended.error is not None:
            raise ended.error
        assert ended.record is not None
        record = replace(ended.record, closing=closing)
        self.ledger.add(record)
        for listener in self.listeners:
            listener(record)
