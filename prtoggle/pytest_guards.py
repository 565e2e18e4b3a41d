"""The marker `guards`: a test runs as written, and once more with the fix taken out, where it has to fail.

The second run is an item of its own, `test_x[reverted 26972]`. It passes when the test's body fails and the
reverted statement was reached in this process; a test that passes either way guards nothing. A fix that
requires others has a third, `test_x[required by 26972]`, with those taken out alone, where it has to pass.

    body        report of pytest      second run      third run
    fails       failed                passed          failed
    passes      passed                failed          passed
    skips       skipped, xfailed      the same        the same
"""

from __future__ import annotations

from dataclasses import dataclass
from traceback import extract_tb
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from prtoggle import reach
from prtoggle.catalog import Catalog
from prtoggle.engine import revert, states
from prtoggle.errors import PrToggleError
from prtoggle.pytest_reach import holds_a_value
from prtoggle.required import required_alone, required_by

if TYPE_CHECKING:
    from collections.abc import Generator

    from prtoggle.handle import Handle

PARAMETER: Final = "_prtoggle_guarded"


class FurtherRun(NamedTuple):
    """What a run other than the one as written takes out: a guarded fix, or what it requires alone."""

    toggle_id: str
    alone: bool = False


@dataclass(slots=True)
class _Run:
    """How a further run stands; `failure` is what made the body fail, or a subtest of it."""

    what: FurtherRun
    handle: Handle
    in_body: bool = False
    failure: str = ""
    noticed: bool = False


_RUN: Final[pytest.StashKey[_Run]] = pytest.StashKey()


class GuardItems:
    """The hooks of the further runs; registered once a test has the marker."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Takes out what the run is without, before its fixtures are set up."""
        what = _further_run(item)
        if what is not None:
            if any(state.toggle.id == what.toggle_id for state in states()):
                pytest.skip(f"{what.toggle_id} is reverted for the whole session already")
            reach.restart()
            catalog = Catalog.discover()
            try:
                toggle = catalog.get(what.toggle_id)
                needed = (required_alone if what.alone else required_by)(toggle, catalog)
                ids = needed if what.alone else [toggle.id, *needed]
                item.stash[_RUN] = _Run(what, revert(catalog.select(ids), observe=True))
            except PrToggleError as error:
                pytest.fail(f"{item.nodeid}: {error}", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """The test's body runs."""
        run = pyfuncitem.stash.get(_RUN, None)
        if run is None:
            return (yield)
        run.in_body = True
        try:
            return (yield)
        finally:
            run.in_body = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turns the failure of the second run's body into a pass, and its pass into a failure.

        pytest and its plugins have judged it before: what they skip, or expect to fail, stays what it is.
        """
        report = yield
        run = item.stash.get(_RUN, None)
        if run is None or run.what.alone:
            return report
        if call.when == "call":
            self._judge_body(report, call, run, item)
        elif call.when == "teardown" and run.noticed and report.failed:
            # What the body was stopped in the middle of may not come apart either.
            _pass(report, call)
        return report

    def _judge_body(
        self, report: pytest.TestReport, call: pytest.CallInfo[None], run: _Run, item: pytest.Item
    ) -> None:
        """Judges the body, or, while it runs, a subtest of it."""
        if report.failed and call.excinfo is not None:
            run.failure = run.failure or f"{call.excinfo.value!r}\n{_place(call.excinfo.value, item)}"
            run.noticed = run.noticed or _is_reached(run.what.toggle_id)
        if run.in_body:
            # The test as a whole tells, when it has come to its end.
            if report.failed:
                _pass(report, call)
        elif report.skipped and not run.failure:
            pass
        elif run.noticed:
            _pass(report, call)
        elif run.failure:
            first = f"the test fails, but no reverted statement of {run.what.toggle_id} was reached"
            _fail(report, call, f"{first}{_made_before(item)}: {run.failure}")
        else:
            _fail(
                report,
                call,
                f"the test passes with the fix of {run.what.toggle_id} taken out: it does not guard it"
                f"{_made_before(item)}",
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Puts back what was taken out, after the fixtures were torn down."""
        try:
            return (yield)
        finally:
            run = item.stash.get(_RUN, None)
            if run is not None:
                run.handle.restore()


def _pass(report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
    report.outcome, report.longrepr, call.excinfo = "passed", None, None


def _fail(report: pytest.TestReport, call: pytest.CallInfo[None], message: str) -> None:
    # The lines that a traceback would show are the plugin's; nor is there one to look at in a debugger.
    report.outcome, report.longrepr, call.excinfo = "failed", message, None
    if hasattr(report, "wasxfail"):
        del report.wasxfail


def _is_reached(toggle_id: str) -> bool:
    return reach.reached(toggle_id) or holds_a_value(toggle_id)


def _made_before(item: pytest.Item) -> str:
    """A hint at fixtures that may have been made in another run, when the fix was in or had been reached."""
    info = getattr(item, "_fixtureinfo", None)
    wider = [
        name
        for name, found in (info.name2fixturedefs if info is not None else {}).items()
        if any(one.scope != "function" and not one.func.__module__.startswith("_pytest") for one in found)
    ]
    if not wider:
        return ""
    return (
        f" ({', '.join(sorted(wider))} lives longer than one test, and may have been made in another run, "
        "with the fix in: give it the scope of a function)"
    )


def _place(error: BaseException, item: pytest.Item) -> str:
    """The line of the test at which it failed."""
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == str(item.path)] or frames
    return f"{own[-1].filename}:{own[-1].lineno}: {own[-1].line}"


def parametrize(metafunc: pytest.Metafunc, markers: list[pytest.Mark]) -> None:
    """Gives a test a run as written, under its own name, and further ones for each fix that it names."""
    ids = list(dict.fromkeys(str(toggle_id) for marker in markers for toggle_id in _ids_of(marker, metafunc)))
    catalog = Catalog.discover()
    try:
        toggles = catalog.select(ids)
    except PrToggleError as error:
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from error
    # A name of the plugin's own, so that it takes no argument of the test's.
    metafunc.fixturenames.append(PARAMETER)
    runs = [pytest.param(None, id=getattr(pytest, "HIDDEN_PARAM", "as written"))]
    for toggle in toggles:
        runs.append(pytest.param(FurtherRun(toggle.id), id=f"reverted {toggle.id}"))
        if toggle.requires and required_alone(toggle, catalog):
            runs.append(pytest.param(FurtherRun(toggle.id, alone=True), id=f"required by {toggle.id}"))
    metafunc.parametrize(PARAMETER, runs, indirect=True)


def without_second_run(item: object) -> str | None:
    """What is wrong with the marker on something that pytest does not parametrize; None where nothing is."""
    if not isinstance(item, pytest.Item) or item.get_closest_marker("guards") is None:
        return None
    if isinstance(item, pytest.Function) and hasattr(item, "callspec") and PARAMETER in item.callspec.params:
        return None
    return (
        f"{item.nodeid}: the marker guards cannot give a {type(item).__name__} its run without the fix; "
        "it is for test functions and for methods of plain classes. Write the guard as one of those, or use "
        "`prtoggle.reverted` in the test"
    )


def is_further_run(item: pytest.Item) -> bool:
    """Whether this is a run of the test that is not the one as written."""
    return _further_run(item) is not None


def _ids_of(marker: pytest.Mark, metafunc: pytest.Metafunc) -> tuple[int | str, ...]:
    if not marker.args or marker.kwargs or not all(type(arg) in {int, str} for arg in marker.args):
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid}: the marker guards takes ids and nothing else: guards(26972)"
        )
    return marker.args


def _further_run(item: pytest.Item) -> FurtherRun | None:
    """What this run takes out; None for a run as written and for tests without the marker."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return None
    found = item.callspec.params.get(PARAMETER)
    return found if isinstance(found, FurtherRun) else None
