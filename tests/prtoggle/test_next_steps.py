"""What a message says to do next, and that it shows no code of prtoggle's own on the way there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import prtoggle
from tests.prtoggle.programs import Project

if TYPE_CHECKING:
    from pathlib import Path

RUN_IT = "from app.core import answer; print(answer())"
EDITS = "edits: [{match: value += 1, replacement: ''}]"
SPEC = f"patches: [{{target: app.core.answer, {EDITS}}}]\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def refused(project: Project, spec: str, *arguments: str, toggles: str = "3") -> str:
    """The message with which a process ends that was asked for toggle 3; nothing of the program ran."""
    (project.root / "toggles/3.yaml").write_text(spec)

    done = project.python(*(arguments or ("-c", RUN_IT)), toggles=toggles)

    assert (done.returncode, done.stdout) == (2, ""), done
    assert "prtoggle/prtoggle" not in done.stderr.replace(sys.executable, "")
    return done.stderr


class TestMain:
    """`__main__` names no file before a program runs."""

    SPEC = "patches: [{target: __main__.helper, edits: [{match: return 1, replacement: return 2}]}]\n"
    SAYS = "__main__.helper: __main__ is whatever program runs"
    DO = "as in `target: script.helper` for script.py, and start it as `python -m script`"

    @pytest.mark.parametrize("arguments", [("tool.py",), ("-m", "tool"), ("-c", "print(1)")])
    def test_a_process_is_told_what_to_name(self, project: Project, arguments: tuple[str, ...]) -> None:
        project.write({"tool.py": "def helper():\n    return 1\n\n\nprint(helper())\n"})

        message = refused(project, self.SPEC, *arguments)

        assert self.SAYS in message
        assert self.DO in message

    def test_check_does_not_look_into_its_own_program(self, project: Project) -> None:
        (project.root / "toggles/3.yaml").write_text(self.SPEC)

        done = project.prtoggle("check", "3")

        assert done.returncode == 1
        assert done.stdout.startswith("unsupported  3")
        assert self.SAYS in done.stdout
        assert "prtoggle/__main__.py" not in done.stdout


def test_what_a_toggle_requires_is_named_as_the_environment_would(project: Project) -> None:
    message = refused(project, f"requires: [1]\n{SPEC}".replace("value += 1", "value = 41"))

    assert "toggle 3 requires 1, which is not reverted: revert both, as in PRTOGGLE=3,1 or" in message


def test_a_required_toggle_that_no_catalogue_has_is_not_to_be_reverted_too(project: Project) -> None:
    message = refused(project, f"requires: [10]\n{SPEC}")

    assert "toggle 3 requires 10, and there is no toggle 10 in" in message
    assert "revert both" not in message


def test_a_required_toggle_may_come_from_no_catalogue() -> None:
    first = prtoggle.load("id: a\nrequires: [b]\npatches: [{target: colorsys.ONE_THIRD, value: 1.0}]\n")
    second = prtoggle.load("id: b\npatches: [{target: colorsys.ONE_SIXTH, value: 1.0}]\n")

    with prtoggle.reverted(first, second) as handle:
        assert [toggle.id for toggle in handle.toggles] == ["a", "b"]


def test_a_version_that_is_not_known_is_not_asked_for_a_variant(project: Project) -> None:
    spec = f"applies_to: '>=1'\n{SPEC}"

    message = refused(project, spec)

    do = "no installed distribution brings app: install it (`pip install -e .` for a work tree), or leave applies_to"
    assert do in message
    assert "variant" not in message
    assert do in project.prtoggle("check", "3").stdout


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (
            SPEC.replace("replacement: ''", "replacement: 'value +'"),
            "invalid syntax at line 3 of the edited text",
        ),
        ("patches: [{target: app.core.answer, wrap: 'app.nowhere:f'}]\n", "No module named 'app.nowhere'"),
        (SPEC.replace("app.core.answer", "app.core.anwser"), "did you mean answer"),
    ],
    ids=["invalid edit", "no wrapper", "no such name"],
)
def test_no_traceback_of_ours_stands_before_the_message(project: Project, spec: str, says: str) -> None:
    message = refused(project, spec)

    assert says in message
    assert "Traceback" not in message


def test_no_traceback_stands_before_the_message_on_a_broken_pyproject(project: Project) -> None:
    (project.root / "pyproject.toml").write_text("[tool\n")

    message = refused(project, SPEC)

    assert "pyproject.toml cannot be read" in message
    assert "Traceback" not in message


def test_a_wrapper_module_that_fails_shows_where_and_nothing_of_ours(project: Project) -> None:
    project.write({"app/old.py": "import app\nimport no_such_module_at_all\n"})

    message = refused(project, "patches: [{target: app.core.answer, wrap: 'app.old:f'}]\n")

    assert f'File "{project.root}/app/old.py", line 2' in message
    assert "importlib" not in message


@pytest.mark.parametrize(
    ("spec", "is_about_modules"),
    [
        (SPEC.replace("app.core", "appp.core"), True),
        (SPEC.replace("value += 1", "value += 7"), False),
        (SPEC.replace("replacement: ''", "replacement: 'value +'"), False),
    ],
    ids=["no module", "mismatch", "invalid edit"],
)
def test_run_says_where_modules_are_looked_for_when_one_is_not_found(
    project: Project, spec: str, is_about_modules: bool
) -> None:
    (project.root / "toggles/3.yaml").write_text(spec)

    done = project.prtoggle("run", "3", "touch", "started")

    assert done.returncode == 2
    assert "Nothing was started." in done.stderr
    assert ("Modules are looked for here" in done.stderr) == is_about_modules
    assert not (project.root / "started").exists()
