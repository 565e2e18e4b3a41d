"""What came of the calls of one traced function: counted, and differences told once each.

A difference is written at once; the counts are written as they grow, so that little is lost with a process
that is killed, and once more at its end.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prtoggle.trace.differences import Difference

    Write = Callable[..., None]

_SECONDS_BETWEEN: Final = 0.2


@dataclass(frozen=True, slots=True)
class Finding:
    """One call that came out differently, in text."""

    call: int
    arguments: tuple[tuple[str, str], ...]
    fixed: str
    reverted: str
    #: Every part of the outcome that differs, each with its first difference.
    differences: tuple[Difference, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two findings one: everything that is shown but the number of the call."""
        return self.arguments, self.fixed, self.reverted, self.differences


@dataclass(slots=True)
class Counts:
    """How many calls there were, and what became of them."""

    calls: int = 0
    equal: int = 0
    differing: int = 0
    not_compared: dict[str, int] = field(default_factory=dict)
    #: Calls by the number of the finding that they are like; and those like none that was written.
    like: dict[int, int] = field(default_factory=dict)
    beyond: int = 0


class Ledger:
    """The account of one function in this process."""

    def __init__(self, number: int, name: str, limit: int, write: Write) -> None:
        """`number` tells the account of a function from that of its successor after a reload."""
        self._account = number
        self._name = name
        self._limit = limit
        self._write = write
        self.restart()

    def restart(self) -> None:
        """Begin anew, as in a forked child."""
        self._lock = threading.Lock()
        self._counts = Counts()
        self._findings: dict[tuple[object, ...], int] = {}
        self._written_at = 0.0

    def begin(self) -> int:
        """The number of a call that begins now, from 1."""
        with self._lock:
            self._counts.calls += 1
            return self._counts.calls

    def equal(self) -> None:
        """A call came to the same."""
        with self._lock:
            self._counts.equal += 1
            self._tell_now_and_then()

    def not_compared(self, reason: str) -> None:
        """A call could not be compared."""
        with self._lock:
            self._counts.not_compared[reason] = self._counts.not_compared.get(reason, 0) + 1
            self._tell_now_and_then()

    def differs(self, finding: Finding) -> None:
        """A call came out differently."""
        with self._lock:
            counts = self._counts
            counts.differing += 1
            number = self._findings.get(finding.key)
            if number is None and len(self._findings) < self._limit:
                number = self._findings[finding.key] = len(self._findings)
                self._write("difference", account=self._account, **_facts(self._name, number, finding))
            if number is not None:
                counts.like[number] = counts.like.get(number, 0) + 1
            else:
                counts.beyond += 1
            self._tell_now_and_then()

    def tell(self, *, final: bool) -> None:
        """Write the counts."""
        with self._lock:
            self._tell(final=final)

    def _tell_now_and_then(self) -> None:
        calls = self._counts.calls
        if calls & (calls - 1) == 0 or time.monotonic() - self._written_at > _SECONDS_BETWEEN:
            self._tell(final=False)

    def _tell(self, *, final: bool) -> None:
        counts = self._counts
        self._written_at = time.monotonic()
        self._write(
            "counts",
            account=self._account,
            function=self._name,
            calls=counts.calls,
            equal=counts.equal,
            differing=counts.differing,
            not_compared=dict(counts.not_compared),
            like={str(number): count for number, count in counts.like.items()},
            beyond=counts.beyond,
            final=final,
        )


def _facts(name: str, number: int, finding: Finding) -> dict[str, Any]:
    return {
        "function": name,
        "number": number,
        "call": finding.call,
        "arguments": [list(pair) for pair in finding.arguments],
        "fixed": finding.fixed,
        "reverted": finding.reverted,
        "differences": _triples(finding.differences),
    }


def _triples(differences: Sequence[Difference]) -> list[dict[str, str]]:
    return [{"where": found.where, "fixed": found.ours, "reverted": found.theirs} for found in differences]
