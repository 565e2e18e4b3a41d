"""A session that cannot run without a fix as it was asked to: status 2, the reason, and no verdict on the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.prtoggle.test_pytest_plugin import Session

if TYPE_CHECKING:
    from pathlib import Path

HELPER = "def helper():\n    value = 1\n    value += 1\n    return value\n"
LATE = "import sys\nsys.path.insert(0, 'late')\nimport hidden\n"

workers = pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "xdist"])


@pytest.fixture
def session(tmp_path: Path) -> Session:
    made = Session(tmp_path / "project")
    helped = "patches: [{target: helping.helper, edits: [{match: value += 1, replacement: ''}]}]\n"
    misfit = "patches: [{target: hidden.answer, edits: [{match: value = 2, replacement: ''}]}]\n"
    made.write(
        {
            "toggles/3.yaml": helped,
            "toggles/4.yaml": misfit,
            "late/hidden.py": "def answer():\n    return 1\n",
        }
    )
    return made


@pytest.mark.parametrize(("asked", "workers"), [("option", ()), ("environment", ("-n", "1"))])
def test_a_target_that_pytest_itself_compiles_ends_the_session(
    session: Session, asked: str, workers: tuple[str, ...]
) -> None:
    session.write(
        {
            "helping.py": HELPER,
            "conftest.py": "import pytest\npytest.register_assert_rewrite('helping')\n",
            "test_it.py": "import helping\n\ndef test_it():\n    assert helping.helper() == 2\n",
        }
    )

    done = (
        session.pytest(*workers, "--prtoggle=3")
        if asked == "option"
        else session.pytest(*workers, toggles="3")
    )

    assert done.returncode == 2, done.stdout
    assert "helping" in done.stderr
    assert "AssertionRewritingHook" in done.stderr or "was loaded by other means" in done.stderr
    assert "notice" not in done.stdout
    assert "passed" not in done.stdout


@workers
def test_a_module_that_a_test_puts_there_by_hand_ends_it(session: Session, workers: tuple[str, ...]) -> None:
    by_hand = (
        "import sys, types\n\ndef test_it():\n    sys.modules['app.core'] = types.ModuleType('app.core')\n"
    )
    session.write({"test_it.py": by_hand})

    done = session.pytest(*workers, toggles="1")

    assert done.returncode == 2, done.stdout
    assert "app.core was loaded by other means" in done.stdout
    assert "1 passed" in done.stdout
    assert "notice" not in done.stdout


@pytest.mark.parametrize(
    ("asked", "where", "workers"),
    [
        ("option", "conftest.py", ()),
        ("environment", "conftest.py", ()),
        ("option", "test_it.py", ("-n", "1")),
        ("environment", "conftest.py", ("-n", "1")),
    ],
)
def test_an_edit_that_fails_at_an_import_ends_the_session_and_says_why(
    session: Session, asked: str, where: str, workers: tuple[str, ...]
) -> None:
    session.write({"test_it.py": "", where: f"{LATE}\ndef test_it():\n    pass\n"})

    done = (
        session.pytest(*workers, "--prtoggle=4")
        if asked == "option"
        else session.pytest(*workers, toggles="4")
    )

    assert done.returncode == 2, done.stdout
    assert "value = 2" in done.stderr
    assert "notice" not in done.stdout


@pytest.mark.parametrize("value", ["", " "])
def test_an_option_that_names_nothing_is_wrong_use(session: Session, value: str) -> None:
    session.write({"test_it.py": "def test_it():\n    open('ran', 'w')\n"})

    done = session.pytest(f"--prtoggle={value}")

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "names no toggle" in done.stderr
    assert not (session.root / "ran").exists()
