"""Tracing in this process, on modules that are made for one test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from prtoggle.trace.session import TraceSession
from prtoggle.trace.settings import TraceSettings
from tests.prtoggle.toggle_making import make_toggle

if TYPE_CHECKING:
    from prtoggle.spec import Toggle
    from tests.prtoggle.made_modules import Modules


@dataclass
class Account:
    """What one session wrote, and the session."""

    session: TraceSession
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def differences(self) -> list[dict[str, Any]]:
        """The differences that were told, in order."""
        return [event for event in self.events if event["event"] == "difference"]

    @property
    def places(self) -> list[tuple[str, str, str]]:
        """Where the told calls differ: place, fixed, reverted."""
        return [
            (found["where"], found["fixed"], found["reverted"])
            for event in self.differences
            for found in event["differences"]
        ]

    def counts(self) -> dict[str, Any]:
        """The last counts of the one function that is traced, or of all of them, added up."""
        self.session.finish()
        last = {event["account"]: event for event in self.events if event["event"] == "counts"}
        added: dict[str, Any] = {"calls": 0, "equal": 0, "differing": 0, "not_compared": {}, "beyond": 0}
        for event in last.values():
            for name in ("calls", "equal", "differing", "beyond"):
                added[name] += event[name]
            added["not_compared"] |= event["not_compared"]
        return added

    def outcome(self) -> tuple[int, int, int]:
        """Calls that came to the same, that did not, and that were not compared."""
        counts = self.counts()
        return counts["equal"], counts["differing"], sum(counts["not_compared"].values())


def trace(*toggles: Toggle, **settings: Any) -> Account:
    """Begins to trace toggles; a failure raises."""
    events: list[dict[str, Any]] = []

    def fail(error: BaseException) -> NoReturn:
        raise error

    def write(event: str, **facts: object) -> None:
        events.append({"event": event, **facts})

    ids = tuple(toggle.id for toggle in toggles)
    session = TraceSession(toggles, TraceSettings(ids, **settings), write, fail)
    session.start()
    return Account(session, events)


def traced(modules: Modules, text: str, *edits: tuple[str, str], name: str = "f", **settings: Any) -> Any:
    """A module with one function that is traced, and the account of it."""
    module = modules.load(text)
    account = trace(make_toggle(f"{module.__name__}.{name}", *edits), **settings)
    return module, account


def told(account: Account) -> list[tuple[str, str]]:
    """The fixed and the reverted outcome of each call that was told."""
    return [(event["fixed"], event["reverted"]) for event in account.differences]
