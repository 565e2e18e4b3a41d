"""What a user of the plugin reads when a test fails because of a toggle: the message, and no code of the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.prtoggle.test_pytest_plugin import Session

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "import pytest\nfrom app.core import answer, other\n\n"
MISMATCH = "patches: [{target: app.core.answer, edits: [{match: value += 7, replacement: ''}]}]\n"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    # pytest folds nothing where it takes itself to be in continuous integration.
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    return Session(tmp_path / "project")


def failing(session: Session, test: str) -> str:
    """The output of a session whose one test fails or cannot be collected; no file of ours is shown in it."""
    session.write({"test_it.py": HEAD, "toggles/3.yaml": MISMATCH})
    path = session.root / "test_it.py"
    path.write_text(HEAD + test)

    done = session.pytest()

    assert done.returncode in {1, 2}
    for shown in ("prtoggle/pytest_", "prtoggle/api.py", "prtoggle/catalog.py", "pluggy", "INTERNALERROR"):
        assert shown not in done.stdout
    assert done.stderr == ""
    return done.stdout


def test_a_guard_that_passes_without_its_fix(session: Session) -> None:
    out = failing(session, "@pytest.mark.guards(1)\ndef test_it():\n    assert answer()\n")

    assert "the test passes with the fix of 1 taken out: it does not guard it" in out
    assert len(out.splitlines()) < 12


def test_a_guard_that_fails_for_another_reason_shows_its_line(session: Session) -> None:
    test = (
        "SEEN = []\n\n@pytest.mark.guards(1)\ndef test_it():\n    SEEN.append(1)\n    assert len(SEEN) == 1\n"
    )

    out = failing(session, test)

    assert "the test fails, but no reverted statement of 1 was reached: AssertionError(" in out
    assert "test_it.py:9: assert len(SEEN) == 1" in out


@pytest.mark.parametrize("marker", ["guards", "prtoggle"])
@pytest.mark.parametrize(
    ("ids", "says"),
    [("11", "there is no toggle 11 in"), ("", "takes ids and nothing else"), ("3", "value += 7")],
    ids=["unknown", "empty", "mismatch"],
)
def test_a_marker_that_cannot_be_honoured(session: Session, marker: str, ids: str, says: str) -> None:
    out = failing(session, f"@pytest.mark.{marker}({ids})\ndef test_it():\n    assert answer() == 42\n")

    assert says in out
    assert "test_it.py::test_it" in out
    assert len(out.splitlines()) < 25, "a message of a mismatch has some 12 lines"


@pytest.mark.parametrize("ids", ["11", "3"], ids=["unknown", "mismatch"])
def test_the_fixture_shows_the_line_of_the_test(session: Session, ids: str) -> None:
    out = failing(session, f"def test_it(prtoggle):\n    prtoggle.revert({ids})\n")

    assert f">       prtoggle.revert({ids})" in out
    assert {"11": "there is no toggle 11 in", "3": "value += 7"}[ids] in out
