"""Settings of the process and the thread: both runs begin with the same ones, and the program keeps its own."""

from __future__ import annotations

import contextlib
import decimal
import logging
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prtoggle.trace import process_state
from tests.prtoggle.made_modules import Modules, modules
from tests.prtoggle.traced_modules import traced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Setting = tuple[str, str, str, Callable[[], Any]]

__all__ = ["modules"]


def numpy() -> Any:
    return pytest.importorskip("numpy")


def torch() -> Any:
    return pytest.importorskip("torch")


#: How it is set with the fix and without it, what it is called, and what reads it.
SETTINGS: dict[str, Setting] = {
    "decimals": (
        "__import__('decimal').getcontext().prec = 5",
        "__import__('decimal').getcontext().prec = 6",
        "the context of decimals",
        lambda: decimal.getcontext().prec,
    ),
    "another context of decimals": (
        "__import__('decimal').setcontext(__import__('decimal').Context(prec=5))",
        "__import__('decimal').getcontext().capitals = 0",
        "the context of decimals",
        lambda: decimal.getcontext().prec,
    ),
    "filters of warnings": (
        "__import__('warnings').simplefilter('error', UserWarning)",
        "__import__('warnings').filters.clear()",
        "the filters of warnings",
        lambda: warnings.filters[0][:3],
    ),
    "working directory": (
        "__import__('os').chdir('..')",
        "__import__('os').chdir('/')",
        "the working directory",
        Path.cwd,
    ),
    "errors of numpy": (
        "__import__('numpy').seterr(divide='raise')",
        "__import__('numpy').seterr(divide='ignore')",
        "numpy.geterr()",
        lambda: numpy().geterr()["divide"],
    ),
    "default dtype": (
        "__import__('torch').set_default_dtype(__import__('torch').float64)",
        "__import__('torch').set_default_dtype(__import__('torch').float16)",
        "torch.get_default_dtype()",
        lambda: torch().ones(1).dtype,
    ),
    "gradients": (
        "__import__('torch').set_grad_enabled(False)",
        "pass",
        "torch.is_grad_enabled()",
        lambda: torch().is_grad_enabled(),
    ),
    "default device": (
        "pass",
        "__import__('torch').set_default_device('meta')",
        "torch.get_default_device()",
        lambda: torch().ones(1).device.type,
    ),
    "precision of products": (
        "__import__('torch').set_float32_matmul_precision('high')",
        "__import__('torch').set_float32_matmul_precision('medium')",
        "torch.get_float32_matmul_precision()",
        lambda: torch().get_float32_matmul_precision(),
    ),
}


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    arrays, tensors = numpy(), torch()
    monkeypatch.chdir(Path.cwd())
    with warnings.catch_warnings(), decimal.localcontext(), arrays.errstate():
        grads = tensors.is_grad_enabled()
        yield
    tensors.set_default_dtype(tensors.float32)
    tensors.set_grad_enabled(grads)
    tensors.set_default_device(None)
    tensors.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(("fixed", "reverted", "name", "read"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting_is_compared_and_the_program_keeps_its_own(
    modules: Modules, fixed: str, reverted: str, name: str, read: Callable[[], Any]
) -> None:
    text = f"def f():\n    {fixed}\n"
    plain: dict[str, Any] = {}
    exec(text, plain)
    with _restored(read):
        plain["f"]()
        expected = read()
    module, account = traced(modules, text, (fixed, reverted))

    module.f()

    assert read() == expected
    assert [place for place, _, _ in account.places] == [name], account.counts()


@contextlib.contextmanager
def _restored(read: Callable[[], Any]) -> Iterator[None]:
    """A block after which all settings are as before it."""
    before, value = process_state.settings(), read()
    yield
    process_state.put_back(before)
    assert read() == value


@pytest.mark.parametrize(("fixed", "reverted", "name", "read"), SETTINGS.values(), ids=SETTINGS)
def test_both_runs_begin_with_the_same_settings(
    modules: Modules, fixed: str, reverted: str, name: str, read: Callable[[], Any]
) -> None:
    del reverted, name
    text = f"def f(read):\n    before = str(read())\n    x = 1\n    {fixed}\n    return before\n"
    module, account = traced(modules, text, ("x = 1", "x = 2"))
    before = str(read())

    assert module.f(read) == before

    assert account.outcome() == (1, 0, 0), account.places


def test_a_gone_working_directory_is_none(modules: Modules, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    module, account = traced(modules, "def f():\n    x = 1\n    return 0\n", ("x = 1", "x = 2"))

    assert module.f() == 0
    assert account.outcome() == (1, 0, 0)


WARNING = "import warnings\n\n\ndef f():\n    x = 1\n    if x > 1:\n        warnings.warn('more', stacklevel=1)\n    return 0\n"


@pytest.mark.parametrize(("fixed", "heard"), [("x = 1", []), ("x = 2", ["more"])])
def test_the_program_hears_its_own_warnings_alone(modules: Modules, fixed: str, heard: list[str]) -> None:
    module, account = traced(modules, WARNING.replace("x = 1", fixed), (fixed, "x = 3"))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module.f()

    assert [str(warning.message) for warning in caught] == heard
    assert account.outcome() == (1, 0, 0)


def test_a_warning_of_the_other_run_is_not_taken_for_shown(modules: Modules) -> None:
    text = WARNING.replace("def f():\n    x = 1\n", "def f(x=0):\n    x = x + 0\n")
    module, account = traced(modules, text, ("x = x + 0", "x = x + 2"))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        module.f()
        assert caught == []
        module.f(2)

    assert [str(warning.message) for warning in caught] == ["more"]
    assert account.outcome() == (2, 0, 0)


def test_a_warning_that_is_an_error_is_told(modules: Modules) -> None:
    module, account = traced(modules, WARNING, ("x = 1", "x = 2"))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert module.f() == 0

    assert account.places == [("outcome", "0", "raises UserWarning('more')")]


def test_handlers_of_logging_get_the_programs_own_records(
    modules: Modules, caplog: pytest.LogCaptureFixture
) -> None:
    text = (
        "import logging\n\nLOG = logging.getLogger('prtoggle.test.records')\n\n\n"
        "def f():\n    x = 1\n    LOG.warning('got %s', x)\n"
    )
    module, account = traced(modules, text, ("x = 1", "x = 2"))

    with caplog.at_level(logging.INFO):
        module.f()

    assert caplog.messages == ["got 1"]
    assert account.outcome() == (1, 0, 0), account.counts()
