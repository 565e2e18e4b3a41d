"""Where a command writes: to nobody, to a full disk, to a terminal that knows ASCII only, to a program."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from tests.prtoggle.programs import Project

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

PRTOGGLE = shlex.join([sys.executable, "-m", "prtoggle"])
ASCII_ONLY = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project")
    made.write(
        {"toggles/1.yaml": (made.root / "toggles/1.yaml").read_text().replace("one more", "one größer")}
    )
    return made


def shell(project: Project, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return project.run(["bash", "-c", line], variables=variables)


@pytest.mark.parametrize("command", ["list", "list --json", "show 1", "check"])
def test_a_reader_that_has_gone_is_no_finding(project: Project, command: str) -> None:
    done = shell(project, f"set -o pipefail; (sleep 0.2; {PRTOGGLE} {command}) | true")

    assert (done.returncode, done.stderr) == (141, "")


def test_a_standard_output_that_is_closed_does_no_harm(project: Project) -> None:
    done = shell(project, f"{PRTOGGLE} check >&-")

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["list", "check --json"])
def test_a_full_disk_is_told(project: Project, command: str) -> None:
    done = shell(project, f"{PRTOGGLE} {command} > /dev/full")

    assert done.returncode == 2
    assert done.stderr == "prtoggle: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("command", ["list", "show 1"])
def test_what_cannot_be_encoded_is_escaped(project: Project, command: str) -> None:
    done = shell(project, f"{PRTOGGLE} {command}", **ASCII_ONLY)

    assert (done.returncode, done.stderr) == (0, "")
    assert "answer is one gr\\xf6\\xdfer" in done.stdout


def test_a_working_directory_that_is_gone_has_no_catalogue(project: Project) -> None:
    folder = str(project.root / "toggles")
    line = f"mkdir gone; cd gone; rmdir ../gone; {PRTOGGLE} check 1"

    done = shell(project, line, PRTOGGLE_PATH=folder)

    assert (done.returncode, done.stderr) == (0, "")
    assert "1 checked, 0 with findings" in done.stdout


@pytest.mark.parametrize("columns", ["0", "1"])
def test_a_terminal_without_columns_gets_the_table_all_the_same(project: Project, columns: str) -> None:
    done = shell(project, f"{PRTOGGLE} list", COLUMNS=columns)

    assert "answer is one" in done.stdout


@pytest.mark.parametrize(
    ("command", "kind", "says"),
    [
        ("check --json 77", "UnknownToggleError", "there is no toggle 77"),
        ("check --format json 77", "UnknownToggleError", "there is no toggle 77"),
        ("check --format=json --update", "UsageError", "--update and --fix stand alone"),
        ("list --json", "CatalogueError", "nowhere"),
        ("list --json --no-such-option", "NoSuchOption", "No such option"),
    ],
)
def test_wrong_use_is_json_where_json_was_asked_for(
    project: Project, command: str, kind: str, says: str
) -> None:
    variables = {"PRTOGGLE_PATH": "nowhere"} if kind == "CatalogueError" else {}

    done = shell(project, f"{PRTOGGLE} {command}", **variables)

    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert (document["version"], document["error"]["type"]) == (1, kind)
    assert says in document["error"]["message"]
    assert says in done.stderr
