"""The marker `guards`, and the summary of who notices, in pytest sessions of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.prtoggle.programs import Project

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

TESTS = """\
import pytest
from app.core import answer

@pytest.mark.guards(1)
@pytest.mark.parametrize("extra", [0, 1])
def test_noticed(extra):
    assert answer() + extra == 42 + extra

@pytest.mark.guards(1)
def test_vacuous():
    assert answer() > 0

class TestOthers:
    @pytest.mark.guards(1)
    def test_fails_for_another_reason(self, request):
        assert "reverted" not in request.node.name

    @pytest.mark.guards(1, 2)
    def test_two_fixes_of_which_one_is_seen(self):
        assert answer() == 42

def test_unmarked():
    assert answer() == 42
"""


class Session(Project):
    """A project with a test file; `pytest` runs it in a process of its own."""

    def pytest(self, *arguments: str, toggles: str | None = None) -> subprocess.CompletedProcess[str]:
        left_out = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
        return self.python("-m", "pytest", *left_out, "-rA", "--tb=short", *arguments, toggles=toggles)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "project")


def outcomes(output: str) -> dict[str, str]:
    """Test name -> PASSED or FAILED, from the short summary."""
    lines = [line.split(" ", 1) for line in output.splitlines() if line.startswith(("PASSED ", "FAILED "))]
    return {rest.split("::", 1)[1].split(" - ")[0]: word for word, rest in lines}


def test_each_guard_gets_a_second_run_that_passes_where_it_notices(session: Session) -> None:
    session.write({"test_it.py": TESTS})

    done = session.pytest()

    assert outcomes(done.stdout) == {
        "test_noticed[0]": "PASSED",
        "test_noticed[1]": "PASSED",
        "test_noticed[reverted 1-0]": "PASSED",
        "test_noticed[reverted 1-1]": "PASSED",
        "test_vacuous": "PASSED",
        "test_vacuous[reverted 1]": "FAILED",
        "TestOthers::test_fails_for_another_reason": "PASSED",
        "TestOthers::test_fails_for_another_reason[reverted 1]": "FAILED",
        "TestOthers::test_two_fixes_of_which_one_is_seen": "PASSED",
        "TestOthers::test_two_fixes_of_which_one_is_seen[reverted 1]": "PASSED",
        "TestOthers::test_two_fixes_of_which_one_is_seen[reverted 2]": "FAILED",
        "test_unmarked": "PASSED",
    }
    assert "passes with the fix of 1 taken out: it does not guard it" in done.stdout
    assert "no reverted statement of 1 was reached" in done.stdout


def test_a_fixture_that_was_made_before_is_named(session: Session) -> None:
    session.write(
        {
            "test_it.py": "import pytest\nfrom app.core import answer\n"
            "@pytest.fixture(scope='module')\ndef given():\n    return answer()\n"
            "@pytest.mark.guards(1)\ndef test_late(given, tmp_path):\n    assert given == 42\n"
        }
    )

    done = session.pytest()

    assert outcomes(done.stdout) == {"test_late": "PASSED", "test_late[reverted 1]": "FAILED"}
    assert "does not guard it (given lives longer than one test" in done.stdout


def test_an_unknown_id_in_the_marker_is_wrong_use(session: Session) -> None:
    session.write({"test_it.py": "import pytest\n\n@pytest.mark.guards(77)\ndef test_it():\n    pass\n"})

    done = session.pytest()

    assert done.returncode == 2
    assert "77" in done.stdout + done.stderr


def test_a_session_without_the_fix_says_who_notices(session: Session) -> None:
    session.write(
        {
            "test_it.py": "from app.core import answer, other\n\n"
            "def test_sees():\n    assert answer() == 42\n\n"
            "def test_blind():\n    assert other() == 'fixed'\n"
        }
    )

    done = session.pytest("--prtoggle=1")

    assert done.returncode == 1
    assert "1 of 2 tests notices that 1 is reverted:\n  test_it.py::test_sees" in done.stdout


def test_a_session_in_which_nobody_notices_says_so(session: Session) -> None:
    session.write({"test_it.py": "from app.core import answer\n\ndef test_blind():\n    assert answer()\n"})

    done = session.pytest(toggles="1")

    assert done.returncode == 0
    assert "None of 1 tests notices that 1 is reverted." in done.stdout


def test_a_guard_of_a_fix_that_is_out_for_the_whole_session_has_one_run(session: Session) -> None:
    session.write(
        {
            "test_it.py": "import pytest\nfrom app.core import answer\n\n@pytest.mark.guards(1)\n"
            "def test_sees():\n    assert answer() == 42\n"
        }
    )

    done = session.pytest("--prtoggle=1")

    assert outcomes(done.stdout) == {"test_sees": "FAILED"}
    assert "1 is reverted for the whole session already" in done.stdout
    assert "1 of 1 tests notices that 1 is reverted:\n  test_it.py::test_sees" in done.stdout


NO_SECOND_RUN = {
    "test_unit.py": """\
        import unittest
        import pytest
        from app.core import answer

        class TestIt(unittest.TestCase):
            @pytest.mark.guards(1)
            def test_it(self):
                assert answer() == 42
        """,
    "test_doc.py": """\
        import pytest

        pytestmark = pytest.mark.guards(1)

        def example():
            \'\'\'
            >>> from app.core import answer
            >>> answer()
            42
            \'\'\'
        """,
}


@pytest.mark.parametrize("file", NO_SECOND_RUN)
def test_what_cannot_run_twice_is_wrong_use(session: Session, file: str) -> None:
    session.write(NO_SECOND_RUN)

    done = session.pytest("--doctest-modules", file)

    assert done.returncode == 2
    assert "the marker guards cannot give a" in done.stdout
    assert "passed" not in done.stdout


def test_a_body_that_ends_the_program_fails(session: Session) -> None:
    body = "import sys\nimport pytest\nfrom app.core import answer\n\n@pytest.mark.guards(1)\ndef test_it():\n    if answer() != 42:\n        sys.exit(3)\n"
    session.write({"test_it.py": body})

    done = session.pytest()

    assert outcomes(done.stdout) == {"test_it": "PASSED", "test_it[reverted 1]": "PASSED"}


@pytest.mark.parametrize("marker", ["guards", "prtoggle"])
def test_a_list_of_ids_is_wrong_use(session: Session, marker: str) -> None:
    session.write({"test_it.py": f"import pytest\n\n@pytest.mark.{marker}([1])\ndef test_it():\n    pass\n"})

    done = session.pytest()

    assert done.returncode in {1, 2}
    assert f"the marker {marker} takes ids and nothing else" in done.stdout
    assert "passed" not in done.stdout
