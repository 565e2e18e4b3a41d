"""The pytest plugin, run in pytest sessions of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.prtoggle.programs import Project

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


class Session(Project):
    """A project with a test file; `pytest` runs it in a process of its own."""

    def pytest(self, *arguments: str, toggles: str | None = None) -> subprocess.CompletedProcess[str]:
        options = ("-q", "--no-header") if "--with-header" not in arguments else ()
        rest = [argument for argument in arguments if argument != "--with-header"]
        left_out = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")  # the latter starts slowly
        return self.python("-m", "pytest", *left_out, *options, *rest, toggles=toggles)

    def passes(self, *arguments: str, count: int, toggles: str | None = None) -> None:
        done = self.pytest(*arguments, toggles=toggles)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{count} passed" in done.stdout


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / "project")


def test_the_fixture_takes_a_fix_out_for_one_test(session: Session) -> None:
    session.write(
        {
            "test_it.py": """\
        import app.core
        from app.core import answer, other

        def test_reverted(prtoggle):
            assert answer() == 42
            handle = prtoggle.revert(1)
            assert answer() == 41
            assert [toggle.id for toggle in handle.toggles] == ["1"]

        def test_put_back():
            assert answer() == 42

        def test_several(prtoggle):
            prtoggle.revert("1")
            handle = prtoggle.revert(2)
            assert (answer(), other()) == (41, "old")
            handle.restore()
            assert (answer(), other()) == (41, "fixed")

        def test_put_back_again():
            assert (answer(), other()) == (42, "fixed")
        """
        }
    )

    session.passes(count=4)


def test_the_fixture_puts_back_what_a_failing_test_took_out(session: Session) -> None:
    session.write(
        {
            "test_it.py": """\
        from app.core import answer

        def test_fails(prtoggle):
            prtoggle.revert(1)
            assert answer() == 42

        def test_put_back():
            assert answer() == 42
        """
        }
    )

    assert "1 failed, 1 passed" in session.pytest().stdout


def test_a_wrong_id_in_a_test_fails_that_test_and_changes_nothing(session: Session) -> None:
    session.write(
        {
            "test_it.py": """\
        import pytest
        from app.core import answer
        from prtoggle import PrToggleError

        def test_fixture(prtoggle):
            with pytest.raises(PrToggleError, match="there is no toggle 11"):
                prtoggle.revert(1, 11)
            assert answer() == 42

        @pytest.mark.prtoggle(11)
        def test_marker():
            raise SystemExit("never run")

        def test_after():
            assert answer() == 42
        """
        }
    )

    done = session.pytest()

    assert "2 passed, 1 error" in done.stdout
    assert "there is no toggle 11" in done.stdout


def test_the_marker_covers_the_test_and_its_fixtures(session: Session) -> None:
    session.write(
        {
            "test_it.py": """\
        import pytest
        from app.core import answer, other

        @pytest.fixture
        def seen():
            yield answer()
            assert answer() == 41, "still reverted when fixtures are torn down"

        @pytest.mark.prtoggle(1)
        def test_marked(seen):
            assert (seen, answer(), other()) == (41, 41, "fixed")

        def test_put_back():
            assert answer() == 42

        @pytest.mark.prtoggle(1)
        class TestClass:
            @pytest.mark.prtoggle(2)
            def test_both(self):
                assert (answer(), other()) == (41, "old")

            def test_one(self):
                assert (answer(), other()) == (41, "fixed")
        """
        }
    )

    session.passes("--strict-markers", count=4)


@pytest.mark.parametrize("marker", ["prtoggle", "prtoggle()", "prtoggle(id=1)"])
def test_a_marker_without_ids_is_an_error(session: Session, marker: str) -> None:
    session.write({"test_it.py": f"import pytest\n\n@pytest.mark.{marker}\ndef test_it():\n    pass\n"})

    done = session.pytest()

    assert "1 error" in done.stdout
    assert "takes ids and nothing else" in done.stdout


REVERTED_ALL_OVER = """\
    import subprocess
    import sys

    from app.core import answer

    SEEN = answer()

    def test_at_collection():
        assert SEEN == 41

    def test_here():
        assert answer() == 41

    def test_in_a_child():
        done = subprocess.run([sys.executable, "-m", "app"], capture_output=True, text=True)
        assert done.stdout == "41\\n"
    """


@pytest.mark.parametrize(
    ("arguments", "toggles"),
    [
        (["--prtoggle=1"], None),
        (["--prtoggle", "2", "--prtoggle", "1"], None),
        (["--prtoggle=2"], "1"),
        (["--prtoggle=1,2", "-n", "2"], None),
        (["-n", "2"], "1"),
    ],
    ids=["option", "twice", "option and environment", "xdist", "environment and xdist"],
)
def test_a_session_is_reverted_from_collection_on(
    session: Session, arguments: list[str], toggles: str | None
) -> None:
    session.write({"test_it.py": REVERTED_ALL_OVER})

    session.passes(*arguments, count=3, toggles=toggles)


def test_the_first_conftest_imports_reverted_code(session: Session) -> None:
    session.write(
        {
            "conftest.py": "from app.core import answer\nSEEN = answer()\n",
            "test_it.py": "import sys\n\ndef test_it():\n    assert sys.modules['conftest'].SEEN == 41\n",
        }
    )

    session.passes("--prtoggle=1", count=1)


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["one process", "xdist"])
def test_the_header_names_what_is_reverted(session: Session, workers: list[str]) -> None:
    session.write({"test_it.py": "def test_it():\n    pass\n"})

    done = session.pytest("--with-header", "--prtoggle=1,2", *workers)

    assert "prtoggle: reverted 1 (answer is one more), 2\n" in done.stdout


def test_the_header_is_silent_when_nothing_is_reverted(session: Session) -> None:
    session.write({"test_it.py": "def test_it():\n    pass\n"})

    assert "prtoggle: reverted" not in session.pytest("--with-header").stdout


@pytest.mark.parametrize("value", ["11", "1,11", "1,,2"])
def test_a_wrong_id_is_a_usage_error_and_runs_nothing(session: Session, value: str) -> None:
    session.write({"test_it.py": "def test_it():\n    open('ran', 'w')\n"})

    done = session.pytest(f"--prtoggle={value}")

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--prtoggle" in done.stderr
    assert not (session.root / "ran").exists()


def test_an_edit_that_does_not_fit_is_a_usage_error_when_the_target_is_known(session: Session) -> None:
    spec = "patches: [{target: app.core.answer, edits: [{match: value += 2, replacement: ''}]}]\n"
    (session.root / "toggles/3.yaml").write_text(spec)
    session.write({"test_it.py": "def test_it():\n    open('ran', 'w')\n"})

    done = session.pytest("--prtoggle=3")

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "value += 2" in done.stderr
    assert not (session.root / "ran").exists()


@pytest.mark.parametrize("asked", ["option", "environment"])
def test_an_edit_that_fails_at_an_import_ends_the_session_and_says_why(session: Session, asked: str) -> None:
    # The package is found only once the test has put its folder on the path, with all output captured.
    spec = "patches: [{target: hidden.answer, edits: [{match: value = 2, replacement: ''}]}]\n"
    (session.root / "toggles/3.yaml").write_text(spec)
    session.write(
        {
            "late/hidden.py": "def answer():\n    return 1\n",
            "test_it.py": "import sys\n\ndef test_it():\n    sys.path.insert(0, 'late')\n    import hidden\n",
        }
    )

    done = session.pytest("--prtoggle=3") if asked == "option" else session.pytest(toggles="3")

    assert done.returncode == 2
    assert "value = 2" in done.stderr


def test_an_unused_plugin_loads_nothing_else_of_ours(session: Session) -> None:
    session.write(
        {
            "test_it.py": """\
        import sys

        def test_it():
            ours = {name for name in sys.modules if name.split(".")[0] in {"prtoggle", "wrapt", "yaml"}}
            assert ours == {"prtoggle", "prtoggle.pytest_plugin"}
        """
        }
    )

    session.passes(count=1)
