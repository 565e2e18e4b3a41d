"""What became of the toggles that are reverted for a whole pytest session, in its process and its workers.

That no test fails without a fix says something about the tests only where the fix was out: a toggle whose
module nobody imported was never in effect, and one whose package is not to be found cannot be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

import pytest

from prtoggle import activation, engine, reach
from prtoggle.states import Reached
from prtoggle.unfound import AT_NO_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prtoggle.spec import Toggle
    from prtoggle.states import Event


class _Account(TypedDict):
    """What one process knows; plain values, for it goes through the channel between pytest's processes."""

    loaded: list[str]
    #: None when nobody listened.
    reached: list[str] | None
    missing: dict[str, str]


class SessionAccount:
    """The hooks that gather the accounts of all processes, and tell the sum of them."""

    def __init__(self) -> None:
        ids = [toggle.id for toggle in activation.activated()]
        # A guard's second run asks anew what was reached, so that the answers are kept here.
        self._reached = {toggle_id for toggle_id in ids if reach.reached(toggle_id)}
        self._workers: list[_Account] = []
        self._missing: dict[str, str] = {}
        engine.subscribe(self._note)

    def _note(self, event: Event) -> None:
        if isinstance(event, Reached):
            self._reached.add(event.toggle_id)

    def _own(self) -> _Account:
        asked = {toggle.id for toggle in activation.activated()}
        loaded = [
            state.toggle
            for state in engine.states()
            if state.toggle.id in asked and any(patch.state != "armed" for patch in state.patches)
        ]
        # That somebody reads a value cannot be seen.
        values = {toggle.id for toggle in loaded if any(patch.mode == "value" for patch in toggle.patches)}
        return {
            "loaded": [toggle.id for toggle in loaded],
            "reached": sorted(self._reached | values) if activation.is_observed() else None,
            "missing": activation.unfound_by_now(),
        }

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Keeps what a worker of pytest-xdist has to tell; one that crashed has nothing."""
        account = getattr(node, "workeroutput", {}).get("prtoggle")
        if account is not None:
            self._workers.append(account)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Ends with the status for wrong use when a toggle could be in effect nowhere."""
        own = self._own()
        output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["prtoggle"] = own
            return
        # The controller runs no tests: it need not find what its workers do.
        accounts = self._workers or [own]
        self._missing = {
            toggle_id: missing
            for toggle_id, missing in accounts[0]["missing"].items()
            if all(toggle_id in account["missing"] for account in accounts)
        }
        if self._missing and session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def tell(self, terminal: pytest.TerminalReporter) -> None:
        """Says which tests notice the fixes that are out for the whole session."""
        toggles = activation.activated()
        own = self._own()
        doubts = {toggle.id: self._doubt(toggle, own) for toggle in toggles}
        # A test whose subtests failed is reported with each of them.
        bodies = (report.nodeid for report in terminal.getreports("failed") if report.when == "call")
        failed = list(dict.fromkeys(bodies))
        num_tests = len(failed) + len(terminal.getreports("passed"))
        # Where nothing ran, only a target that is nowhere says something.
        for toggle in toggles:
            if doubts[toggle.id] and (num_tests or toggle.id in self._missing):
                terminal.line(doubts[toggle.id], yellow=True)
        if not num_tests:
            terminal.line("No test ran that could notice.", yellow=True)
        elif not failed:
            ids = _listed(toggle for toggle in toggles if not doubts[toggle.id])
            if ids:
                terminal.line(f"None of {num_tests} tests notices that {ids} is reverted.", yellow=True)
        elif ids := _listed(toggle for toggle in toggles if toggle.id not in self._missing):
            verb = "notices" if len(failed) == 1 else "notice"
            terminal.line(f"{len(failed)} of {num_tests} tests {verb} that {ids} is reverted:")
            for name in failed:
                terminal.line(f"  {name}")

    def _doubt(self, toggle: Toggle, own: _Account) -> str:
        """Why tests that pass say nothing about the toggle; empty where they do."""
        accounts = self._workers or [own]
        targets = ", ".join(toggle.targets)
        unseen = "(What happens in processes that the tests start is not seen here.)"
        if toggle.id in self._missing:
            return f"{toggle.id} {AT_NO_TIME}: {self._missing[toggle.id]}"
        if not any(toggle.id in account["loaded"] for account in (*accounts, own)):
            return f"{toggle.id} was never loaded: no test imports the module of {targets}. {unseen}"
        if all(
            account["reached"] is not None and toggle.id not in account["reached"] for account in accounts
        ):
            return (
                f"{toggle.id} was never reached: no test runs the reverted statement of {targets}. {unseen}"
            )
        return ""


def _listed(toggles: Iterable[Toggle]) -> str:
    return ", ".join(toggle.id for toggle in toggles)
