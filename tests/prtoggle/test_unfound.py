"""A target whose package is nowhere: it may be found later, so that nothing ends, but it is told in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.prtoggle.programs import ROOT, Project

if TYPE_CHECKING:
    from pathlib import Path

RUN_IT = "from app.core import answer; print(answer())"
EDITS = "edits: [{match: value += 1, replacement: ''}]"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.mark.parametrize(
    ("target", "patch", "offer"),
    [
        ("appp.core.answer", EDITS, "; did you mean app"),
        ("appp.core:answer", EDITS, "; did you mean app"),
        ("appp.core.LIMIT", "value: 1", "; did you mean app"),
        ("appp.core.answer", "wrap: 'app.old:f'", "; did you mean app"),
        ("zzyzx.core.answer", EDITS, ""),
    ],
)
def test_a_process_that_found_it_at_no_time_says_so(
    project: Project, target: str, patch: str, offer: str
) -> None:
    (project.root / "toggles/3.yaml").write_text(f"patches: [{{target: '{target}', {patch}}}]\n")

    done = project.python("-c", RUN_IT, toggles="1,3")

    assert (done.returncode, done.stdout) == (0, "41\n"), "a launcher may do without the package"
    assert done.stderr.startswith("prtoggle: 3 was at no time in effect in process ")
    assert f": there is no module named {target[: target.index('.')]} on sys.path{offer}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("code", "printed"), [(RUN_IT, "41\n"), ("pass", "")], ids=["imported", "not imported"]
)
def test_a_process_that_finds_it_later_says_nothing(project: Project, code: str, printed: str) -> None:
    done = project.python_that_finds_it_late("-c", code, toggles="1")

    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


def test_run_refuses_it_before_anything_is_started(project: Project) -> None:
    (project.root / "toggles/3.yaml").write_text(f"patches: [{{target: appp.core.answer, {EDITS}}}]\n")

    done = project.prtoggle("run", "3", "--", "touch", "started")

    assert done.returncode == 2
    assert "did you mean app" in done.stderr
    assert not (project.root / "started").exists()


def test_a_program_that_reverts_it_gets_an_error(project: Project) -> None:
    (project.root / "toggles/3.yaml").write_text(f"patches: [{{target: appp.core.answer, {EDITS}}}]\n")
    code = """\
import prtoggle
from app.core import answer
try:
    prtoggle.revert(1, 3)
except prtoggle.PrToggleError as error:
    print(type(error).__name__, "did you mean app" in str(error), answer(), prtoggle.active())
"""

    done = project.python("-c", code, variables={"PYTHONPATH": f"{project.root}:{ROOT}"})

    assert (done.stdout, done.returncode) == ("TargetModuleError True 42 []\n", 0)


def test_verify_says_what_is_missing(project: Project) -> None:
    project.write(
        {"test_it.py": "from app.core import answer\n\ndef test_it():\n    assert answer() == 42\n"}
    )
    spec = f"guards: [test_it.py]\npatches: [{{target: appp.core.answer, {EDITS}}}]\n"
    (project.root / "toggles/3.yaml").write_text(spec)

    done = project.prtoggle("verify", "3")

    assert done.returncode == 1
    assert "3: error: without it: 3 was at no time in effect: appp.core.answer: there is no" in done.stdout
