"""The marker `guards`: a test runs as written, and once more with the fix taken out, where it has to fail.

The second run is an item of its own, `test_x[reverted 26972]`. It passes when the test's body fails and the
reverted statement was reached in this process; a test that passes either way guards nothing.
"""

from __future__ import annotations

from traceback import extract_tb
from typing import TYPE_CHECKING, Final

import pytest

from prtoggle import reach
from prtoggle.catalog import Catalog
from prtoggle.engine import revert, states
from prtoggle.errors import PrToggleError

if TYPE_CHECKING:
    from collections.abc import Generator

    from prtoggle.handle import Handle
    from prtoggle.spec import Toggle

PARAMETER: Final = "_prtoggle_guarded"
_HANDLE: Final[pytest.StashKey[Handle]] = pytest.StashKey()


class GuardItems:
    """The hooks of the second runs; registered once a test has the marker."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Takes the fix out before the fixtures of the second run are set up."""
        toggle_id = _guarded(item)
        if toggle_id is not None:
            if any(state.toggle.id == toggle_id for state in states()):
                pytest.skip(f"{toggle_id} is reverted for the whole session already")
            reach.restart()
            try:
                item.stash[_HANDLE] = revert(_with_required(toggle_id), observe=True)
            except PrToggleError as error:
                pytest.fail(f"{item.nodeid}: {error}", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        """Turns the failure of the second run's body into a pass, and its pass into a failure."""
        toggle_id = _guarded(pyfuncitem)
        if toggle_id is None:
            return (yield)
        try:
            yield
        except (pytest.skip.Exception, pytest.exit.Exception, KeyboardInterrupt):
            raise
        except BaseException as failure:  # noqa: BLE001 (whatever fails a test is what it notices; SystemExit too)
            seen = failure
        else:
            # The lines that a traceback would show are the plugin's.
            message = f"the test passes with the fix of {toggle_id} taken out: it does not guard it"
            pytest.fail(message, pytrace=False)
        if not reach.reached(toggle_id):
            message = f"the test fails, but no reverted statement of {toggle_id} was reached: {seen!r}"
            pytest.fail(f"{message}\n{_place(seen, pyfuncitem)}", pytrace=False)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Puts the fix back after the fixtures were torn down."""
        try:
            return (yield)
        finally:
            handle = item.stash.get(_HANDLE, None)
            if handle is not None:
                del item.stash[_HANDLE]
                handle.restore()


def parametrize(metafunc: pytest.Metafunc, markers: list[pytest.Mark]) -> None:
    """Gives a test a run as written, under its own name, and one without each of the fixes that it names."""
    ids = list(dict.fromkeys(str(toggle_id) for marker in markers for toggle_id in _ids_of(marker, metafunc)))
    try:
        Catalog.discover().select(ids)
    except PrToggleError as error:
        raise pytest.Collector.CollectError(f"{metafunc.definition.nodeid}: {error}") from error
    # A name of the plugin's own, so that it takes no argument of the test's.
    metafunc.fixturenames.append(PARAMETER)
    as_written = pytest.param(None, id=getattr(pytest, "HIDDEN_PARAM", "as written"))
    runs = [pytest.param(toggle_id, id=f"reverted {toggle_id}") for toggle_id in ids]
    metafunc.parametrize(PARAMETER, [as_written, *runs], indirect=True)


def _place(error: BaseException, item: pytest.Function) -> str:
    """The line of the test at which it failed."""
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == str(item.path)] or frames
    return f"{own[-1].filename}:{own[-1].lineno}: {own[-1].line}"


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


def _ids_of(marker: pytest.Mark, metafunc: pytest.Metafunc) -> tuple[int | str, ...]:
    if not marker.args or marker.kwargs or not all(type(arg) in {int, str} for arg in marker.args):
        raise pytest.Collector.CollectError(
            f"{metafunc.definition.nodeid}: the marker guards takes ids and nothing else: guards(26972)"
        )
    return marker.args


def _guarded(item: pytest.Item) -> str | None:
    """The toggle that this run takes out; None for a run as written and for tests without the marker."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return None
    toggle_id = item.callspec.params.get(PARAMETER)
    return None if toggle_id is None else str(toggle_id)


def _with_required(toggle_id: str) -> list[Toggle]:
    catalog = Catalog.discover()
    toggle = catalog.get(toggle_id)
    return catalog.select([toggle_id, *toggle.requires])
