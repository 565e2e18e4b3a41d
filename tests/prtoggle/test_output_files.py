"""A file that cannot be written is refused before anything is run, and nothing is made on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prtoggle.cli import main
from tests.prtoggle.programs import Project

if TYPE_CHECKING:
    from pathlib import Path

GUARD = "from pathlib import Path\n\ndef test_it():\n    Path('started').touch()\n    assert False\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path / "project")
    spec = (made.root / "toggles/1.yaml").read_text()
    (made.root / "toggles/1.yaml").write_text(f"guards: [test_it.py]\n{spec}")
    made.write({"test_it.py": GUARD})
    made.enter(monkeypatch)
    return made


COMMANDS = {
    "verify --json": ["verify", "1", "--json"],
    "verify --junit": ["verify", "1", "--junit"],
    "verify --html": ["verify", "1", "--html"],
    "verify --matrix --json": ["verify", "1", "--matrix", "--json"],
    "verify --matrix --catalogue": ["verify", "1", "--matrix", "--catalogue"],
    "run": ["run", "1", "--json", "FILE", "touch", "started"],
    "trace": ["trace", "1", "--json", "FILE", "touch", "started"],
    "bisect": ["bisect", "--json", "FILE", "touch", "started"],
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("nope/deep/x", "there is no folder nope/deep"),
        ("app", "app"),
        ("pyproject.toml/x", "no folder pyproject.toml"),
    ],
    ids=["no folder", "a folder", "below a file"],
)
def test_nothing_is_started_for_a_file_that_cannot_be_written(
    project: Project, capsys: pytest.CaptureFixture[str], name: str, place: str, says: str
) -> None:
    before = sorted(project.root.rglob("*"))
    words = COMMANDS[name]
    arguments = [place if word == "FILE" else word for word in words] if "FILE" in words else [*words, place]

    status = main(arguments)

    captured = capsys.readouterr()
    assert (status, captured.out) == (2, "")
    assert says in captured.err
    assert sorted(project.root.rglob("*")) == before


def test_a_disk_that_is_full_when_the_work_is_done_is_told_without_a_traceback(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["run", "1", "--json", "/dev/full", "touch", "started"])

    assert status == 2
    assert "/dev/full could not be written: No space left on device" in capsys.readouterr().err
    assert (project.root / "started").exists()
