"""What a whole pytest session with a fix out says about its tests, and about a toggle that was not in effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.prtoggle.test_pytest_plugin import Session

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

EDITS = "edits: [{match: value += 1, replacement: ''}]"
PASSES = "def test_it():\n    assert True\n"

asked = pytest.mark.parametrize(
    ("by", "workers"),
    [("option", ()), ("environment", ("-n", "1"))],
    ids=["option", "environment and xdist"],
)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "project")


def run(session: Session, toggles: str, by: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    if by == "option":
        return session.pytest(f"--prtoggle={toggles}", *arguments)
    return session.pytest(*arguments, toggles=toggles)


@asked
def test_a_package_that_is_nowhere_is_wrong_use_and_no_verdict(
    session: Session, by: str, workers: tuple[str, ...]
) -> None:
    (session.root / "toggles/3.yaml").write_text(f"patches: [{{target: appp.core.answer, {EDITS}}}]\n")
    session.write(
        {"test_it.py": "from app.core import answer\n\ndef test_it():\n    assert answer() == 42\n"}
    )

    done = run(session, "3", by, *workers)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "3 was at no time in effect: appp.core.answer: there is no module named appp" in done.stdout
    assert "did you mean app" in done.stdout
    assert "notice" not in done.stdout
    assert done.stderr == "", "it is told once"


@asked
def test_a_package_that_only_a_test_finds_is_reverted(
    session: Session, by: str, workers: tuple[str, ...]
) -> None:
    late = "import sys\n\ndef test_it():\n    sys.path.insert(0, 'late')\n    import hidden\n    assert hidden.answer() == 1\n"
    (session.root / "toggles/3.yaml").write_text(f"patches: [{{target: hidden.answer, {EDITS}}}]\n")
    session.write(
        {
            "test_it.py": late,
            "late/hidden.py": "def answer():\n    value = 1\n    value += 1\n    return value\n",
        }
    )

    done = run(session, "3", by, *workers)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "None of 1 tests notices that 3 is reverted." in done.stdout


@asked
def test_a_toggle_that_no_test_loads_is_not_called_unnoticed(
    session: Session, by: str, workers: tuple[str, ...]
) -> None:
    session.write({"test_it.py": PASSES})

    done = run(session, "1", by, *workers)

    assert done.returncode == 0
    assert "1 was never loaded: no test imports the module of app.core.answer." in done.stdout
    assert "notices" not in done.stdout


@pytest.mark.parametrize("call", ["other()", "answer()"])
def test_loaded_reached_and_unnoticed_are_told_apart(session: Session, call: str) -> None:
    session.write({"test_it.py": f"from app.core import answer, other\n\ndef test_it():\n    {call}\n"})

    done = session.pytest("--prtoggle=1")

    assert done.returncode == 0
    assert ("None of 1 tests notices that 1 is reverted." in done.stdout) == (call == "answer()")
    assert (
        "1 was never reached: no test runs the reverted statement of app.core.answer." in done.stdout
    ) == (call == "other()")


def test_what_a_conftest_reached_stays_reached_through_a_guards_second_run(session: Session) -> None:
    guard = "import pytest\nfrom app.core import other\n\n@pytest.mark.guards(2)\ndef test_it():\n    assert other() == 'fixed'\n"
    session.write({"conftest.py": "from app.core import answer\nanswer()\n", "test_it.py": guard})

    done = session.pytest("--prtoggle=1")

    assert "None of 2 tests notices that 1 is reverted." in done.stdout, done.stdout


def test_a_test_that_fails_through_a_child_process_is_listed(session: Session) -> None:
    child = """\
        import subprocess
        import sys

        def test_it():
            assert subprocess.check_output([sys.executable, "-m", "app"]) == b"42\\n"
        """
    session.write({"test_it.py": child})

    done = session.pytest("--prtoggle=1")

    assert done.returncode == 1
    assert "1 of 1 tests notices that 1 is reverted:\n  test_it.py::test_it" in done.stdout


def test_a_test_is_counted_once_however_many_of_its_subtests_fail(session: Session) -> None:
    subtests = """\
        from app.core import answer

        def test_it(subtests):
            for value in (1, 2, 3):
                with subtests.test(value=value):
                    assert answer() == 42 or value == 3

        def test_other():
            pass
        """
    session.write({"test_it.py": subtests})

    done = session.pytest("--prtoggle=1")

    assert done.returncode == 1
    listed = "1 of 2 tests notices that 1 is reverted:\n  test_it.py::test_it\n"
    assert listed in done.stdout
    assert done.stdout.split(listed)[1].count("  test_it.py::test_it") == 0


@pytest.mark.parametrize("arguments", [("--collect-only",), ("-k", "nothing")])
def test_where_no_test_ran_nothing_is_said_of_what_they_reach(
    session: Session, arguments: tuple[str, ...]
) -> None:
    session.write({"test_it.py": PASSES})

    done = session.pytest("--prtoggle=1", *arguments)

    assert "No test ran that could notice." in done.stdout
    assert "never" not in done.stdout
