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
        from prtoggle import revert  # noqa: PLC0415 (nothing of ours is loaded until it is used)

        handle = revert(*toggles)
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
    if not asked:
        return
    from prtoggle.activation import activate_session, parse_ids  # noqa: PLC0415
    from prtoggle.errors import PrToggleError  # noqa: PLC0415

    try:
        ids = [toggle_id for argument in asked for toggle_id in parse_ids(argument)]
        activate_session(ids)
    except PrToggleError as error:
        raise pytest.UsageError(f"--prtoggle: {error}") from error


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker, and lets a failing activation reach the terminal in spite of capturing."""
    config.addinivalue_line(
        "markers",
        "prtoggle(*ids): take the fixes with these ids out while the test runs, its fixtures included",
    )
    config.addinivalue_line(
        "markers",
        "guards(*ids): run the test as written, and once without each of these fixes, where it must fail",
    )
    # Output on descriptor 2 goes to a file while pytest captures, and would be lost with the process.
    if activation := sys.modules.get("prtoggle.activation"):
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            activation.before_exit.append(lambda: capture.suspend_global_capture(in_=True))
        if activation.activated():
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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives tests with the marker `guards` their second runs."""
    markers = list(metafunc.definition.iter_markers("guards"))
    if not markers:
        return
    from prtoggle.pytest_guards import GuardItems, parametrize  # noqa: PLC0415

    parametrize(metafunc, markers)
    if not metafunc.config.pluginmanager.has_plugin("prtoggle-guards"):
        metafunc.config.pluginmanager.register(GuardItems(), "prtoggle-guards")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says which tests notice the fixes that are out for the whole session."""
    account: SessionAccount | None = config.pluginmanager.getplugin("prtoggle-account")
    if account is not None:
        ids = ", ".join(toggle.id for toggle in sys.modules["prtoggle.activation"].activated())
        terminalreporter.section(f"prtoggle: {ids} reverted")
        account.tell(terminalreporter)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Takes out what the markers of test, class and module name, before the test's fixtures are set up."""
    ids = [toggle_id for marker in item.iter_markers("prtoggle") for toggle_id in _ids_of(marker, item)]
    if ids:
        from prtoggle import revert  # noqa: PLC0415

        item.stash[_MARKED] = revert(*dict.fromkeys(ids))


def _ids_of(marker: pytest.Mark, item: pytest.Item) -> tuple[int | str, ...]:
    if not marker.args or marker.kwargs:
        raise pytest.UsageError(
            f"{item.nodeid}: the marker prtoggle takes ids and nothing else: prtoggle(26972)"
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
