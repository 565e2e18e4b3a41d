"""How the end of one run becomes a verdict: pass, fail, or cannot say."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from prtoggle.bisect.refusals import BisectError

CANNOT_SAY: Final = 125
#: What a shell returns for a program that it cannot execute, and for one that it does not find.
NOT_STARTED: Final = (126, 127)
#: Signals from outside (a user, a scheduler, the kernel short of memory), which say nothing of the code.
FROM_OUTSIDE: Final = frozenset(
    {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM}
)
TIMEOUT: Final = "timeout"
SIGNAL: Final = "signal"


class Verdict(StrEnum):
    """What one run, or all runs of one set, say of the build."""

    PASS = "passes"  # noqa: S105 (no password)
    FAIL = "fails"
    UNKNOWN = "cannot say"

    @property
    def opposite(self) -> Verdict:
        """The other end's verdict; UNKNOWN has none and stays."""
        return {Verdict.PASS: Verdict.FAIL, Verdict.FAIL: Verdict.PASS}.get(self, self)


class Ending(NamedTuple):
    """How a run ended: its status (-n for signal n), what it printed, and toggles that were not in effect."""

    status: int
    output: str = ""
    timed_out: bool = False
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """Which endings fail and which cannot say, beside the conventions; `match` looks at the output instead.

    `fail_on` and `skip_on` hold exit statuses as text, "timeout" and "signal".
    """

    match: str = ""
    fail_on: tuple[str, ...] = ()
    skip_on: tuple[str, ...] = ()

    def judge(self, ending: Ending) -> tuple[Verdict, str]:
        """The verdict, and how the run ended in a few words."""
        if ending.failures:
            return Verdict.UNKNOWN, f"a toggle could not be put into effect: {ending.failures[0]}"
        name, number = _name(ending)
        if name in self.fail_on or str(ending.status) in self.fail_on:
            return Verdict.FAIL, _told(ending)
        if name in self.skip_on or str(ending.status) in self.skip_on or self._says_nothing(ending, number):
            return Verdict.UNKNOWN, _told(ending)
        if self.match:
            found = re.search(self.match, ending.output, re.MULTILINE)
            said = "output matches" if found else "output does not match"
            return (Verdict.FAIL if found else Verdict.PASS), f"{said}, {_told(ending)}"
        return (Verdict.PASS if ending.status == 0 else Verdict.FAIL), _told(ending)

    def _says_nothing(self, ending: Ending, number: int) -> bool:
        return ending.timed_out or ending.status in (CANNOT_SAY, *NOT_STARTED) or number in FROM_OUTSIDE


def _name(ending: Ending) -> tuple[str, int]:
    """What the lists call such an ending, and the number of the signal that made it, or 0."""
    if ending.timed_out:
        return TIMEOUT, 0
    number = -ending.status if ending.status < 0 else ending.status - 128
    return (SIGNAL, number) if number in set(signal.Signals) else ("", 0)


def _told(ending: Ending) -> str:
    name, number = _name(ending)
    if name == TIMEOUT:
        return "time limit"
    return signal.Signals(number).name if name == SIGNAL else f"status {ending.status}"


def parse_endings(text: str, option: str) -> tuple[str, ...]:
    """The items of a comma list of endings. Raises BisectError for what is neither a status nor a word."""
    items = [item.strip() for item in text.split(",") if item.strip()]
    for item in items:
        if item not in (TIMEOUT, SIGNAL) and not (item.isdigit() and 0 < int(item) < 256):
            raise BisectError(
                f"{option} {item}: an ending is a status from 1 to 255, {TIMEOUT!r} or {SIGNAL!r}"
            )
    return tuple(dict.fromkeys(items))


def checked_rules(match: str, fail_on: str, skip_on: str) -> Rules:
    """The rules of these options. Raises BisectError for a wrong one, or one ending in both lists."""
    try:
        re.compile(match)
    except re.error as error:
        raise BisectError(f"--match {match}: no regular expression: {error}") from error
    fails, skips = parse_endings(fail_on, "--fail-on"), parse_endings(skip_on, "--skip-on")
    both = sorted(set(fails) & set(skips))
    if both:
        raise BisectError(f"{', '.join(both)} stands in --fail-on and in --skip-on: choose one")
    return Rules(match, fails, skips)
