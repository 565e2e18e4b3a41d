"""The pytest plugin: the fixture `prtoggle`, the marker `prtoggle`, the option `--prtoggle`, the header.

pytest loads this in every run where prtoggle is installed, so nothing else of ours is imported before it is
used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, final

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import prtoggle as api
    from prtoggle.pytest_account import SessionAccount

_MARKED: Final = pytest.StashKey["api.Handle"]()


@final
class Reverter:
    """What the fixture `prtoggle` is: takes fixes out for the length of one test."""

    def __init__(self) -> None:
        self._handles: list[api.Handle] = []

    def revert(self, *toggles: int | str | api.Toggle) -> api.Handle:
        """Takes the fixes of `toggles` out, as `prtoggle.revert` does; they are put back when the test ends.

        The handle puts them back earlier. All of the toggles take effect or, with a `PrToggleError`, none.
        """
        from prtoggle import PrToggleError, revert  # noqa: PLC0415 (nothing of ours is loaded until it is used)

        # What the test shows of a failure is its own line.
        __tracebackhide__ = True
        try:
            handle = revert(*toggles)
        except PrToggleError as error:
            raise error.with_traceback(None) from error.__cause__
        self._handles.append(handle)
        return handle

    def restore(self) -> None:
        """Puts everything back that this test took out, the last one first."""
        while self._handles:
            self._handles.pop().restore()


@pytest.fixture
def prtoggle() -> Iterator[Reverter]:
    """Takes historical fixes out for one test: `prtoggle.revert(26972)`. Put back when the test ends."""
    reverter = Reverter()
    yield reverter
    reverter.restore()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--prtoggle`, which may be given several times."""
    parser.getgroup("prtoggle").addoption(
        "--prtoggle",
        action="append",
        metavar="ID[,ID]",
        default=[],
        help="take the fixes with these ids out for the whole session, workers and child processes included",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Activates `--prtoggle` before anything of the project is imported, the first conftest included."""
    asked: list[str] = early_config.known_args_namespace.prtoggle
    if asked:
        from prtoggle.activation import activate_session, parse_ids  # noqa: PLC0415
        from prtoggle.errors import PrToggleError  # noqa: PLC0415

        if not all(map(str.strip, asked)):
            raise pytest.UsageError("--prtoggle names no toggle: it takes an id, or a comma list of ids")
        try:
            ids = [toggle_id for argument in asked for toggle_id in parse_ids(argument)]
            activate_session(ids)
        except PrToggleError as error:
            raise pytest.UsageError(f"--prtoggle: {error}") from error
    _join(early_config)


def _join(config: pytest.Config) -> None:
    """Sees to a session that runs without fixes, whoever asked for that; for any other nothing is loaded."""
    activation = sys.modules.get("prtoggle.activation")
    if activation and activation.activated() and not config.pluginmanager.has_plugin("prtoggle-workers"):
        from prtoggle.pytest_workers import join  # noqa: PLC0415

        join(config)


def pytest_configure(config: pytest.Config) -> None:
    """Declares the markers, and begins to watch what becomes of the toggles of a whole session."""
    config.addinivalue_line(
        "markers",
        "prtoggle(*ids): take the fixes with these ids out while the test runs, its fixtures included",
    )
    config.addinivalue_line(
        "markers",
        "guards(*ids): run the test as written, and once without each of these fixes, where it must fail",
    )
    # Where a conftest brings this plugin in, the hook before the first conftest was not called.
    _join(config)
    if config.pluginmanager.has_plugin("prtoggle-workers"):
        from prtoggle.pytest_account import SessionAccount  # noqa: PLC0415 (for a session with toggles)

        config.pluginmanager.register(SessionAccount(), "prtoggle-account")


def pytest_report_header() -> str | None:
    """Names the fixes that are out for the whole session, whoever asked for them."""
    activation = sys.modules.get("prtoggle.activation")
    toggles = activation.activated() if activation else ()
    if not toggles:
        return None
    return "prtoggle: reverted " + ", ".join(
        f"{toggle.id} ({toggle.title})" if toggle.title else toggle.id for toggle in toggles
    )


@pytest.fixture
def _prtoggle_guarded(request: pytest.FixtureRequest) -> object:
    """The toggle that the marker `guards` takes out in this run of the test, or None."""
    return request.param


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives tests with the marker `guards` their further runs.

    Before anybody else gives them parameters, so that the ids begin with it: `test_x[reverted 26972-0]`.
    """
    markers = list(metafunc.definition.iter_markers("guards"))
    if not markers:
        return
    from prtoggle.pytest_guards import GuardItems, parametrize  # noqa: PLC0415

    parametrize(metafunc, markers)
    if not metafunc.config.pluginmanager.has_plugin("prtoggle-guards"):
        metafunc.config.pluginmanager.register(GuardItems(), "prtoggle-guards")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuses the marker `guards` on what cannot have a second run, as an error of the collection."""
    report = yield
    # Nobody who has not used the marker anywhere pays for the look.
    marked = [item for item in report.result or () if any(item.iter_markers("guards"))]
    if marked:
        from prtoggle.pytest_guards import without_second_run  # noqa: PLC0415

        problems = [problem for item in marked if (problem := without_second_run(item))]
        if problems:
            report.outcome, report.longrepr, report.result = "failed", "\n".join(problems), []
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says which tests notice the fixes that are out for the whole session."""
    account: SessionAccount | None = config.pluginmanager.getplugin("prtoggle-account")
    if account is not None:
        ids = ", ".join(toggle.id for toggle in sys.modules["prtoggle.activation"].activated())
        failures = config.pluginmanager.getplugin("prtoggle-workers").failures()
        terminalreporter.section(f"prtoggle: {ids} {'not ' if failures else ''}reverted")
        for message in failures:
            terminalreporter.line(message, red=True)
        if not failures:
            account.tell(terminalreporter)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Takes out what the markers of test, class and module name, before the test's fixtures are set up."""
    ids = [toggle_id for marker in item.iter_markers("prtoggle") for toggle_id in _ids_of(marker, item)]
    if ids:
        from prtoggle import PrToggleError, revert  # noqa: PLC0415

        try:
            item.stash[_MARKED] = revert(*dict.fromkeys(ids))
        except PrToggleError as error:
            pytest.fail(f"{item.nodeid}: {error}", pytrace=False)


def _ids_of(marker: pytest.Mark, item: pytest.Item) -> tuple[int | str, ...]:
    if not marker.args or marker.kwargs or not all(type(arg) in {int, str} for arg in marker.args):
        pytest.fail(
            f"{item.nodeid}: the marker prtoggle takes ids and nothing else: prtoggle(26972)", pytrace=False
        )
    return marker.args


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Puts back what the markers took out, after the test's fixtures were torn down."""
    try:
        return (yield)
    finally:
        handle = item.stash.get(_MARKED, None)
        if handle is not None:
            del item.stash[_MARKED]
            handle.restore()
