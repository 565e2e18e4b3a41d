"""`run`, `trace` and `bisect` without `--`: from the first word of COMMAND on, everything is the command's."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click
import pytest

from prtoggle.cli.bisect import bisect_command
from prtoggle.cli.run import run_command
from prtoggle.cli.trace import trace_command
from tests.prtoggle.programs import Project

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def parsed(command: click.Command, *words: str) -> dict[str, object]:
    """The parameters as click hands them to the command."""
    return command.make_context("prtoggle", list(words)).params


@pytest.mark.parametrize("own", [[], ["--require-reach"], ["--json", "F"], ["--json=F", "--require-reach"]])
@pytest.mark.parametrize("first", [True, False], ids=["options first", "ids first"])
@pytest.mark.parametrize("separator", [[], ["--"]], ids=["without", "with --"])
def test_options_of_ours_stand_in_front_of_the_command(
    own: list[str], first: bool, separator: list[str]
) -> None:
    theirs = ["python", "x.py", "--json", "G", "--require-reach", "-h", "-c", "--help", "--", "--json"]
    ours = [*own, "1,2"] if first else ["1,2", *own]

    found = parsed(run_command, *ours, *separator, *theirs)

    assert (found["ids"], found["command"]) == ("1,2", tuple(theirs))
    assert str(found["json_file"]) == ("F" if "F" in "".join(own) else "None")
    assert found["require_reach"] == ("--require-reach" in own)


@pytest.mark.parametrize(
    ("command", "ours"),
    [(trace_command, ["1", "--limit", "3"]), (bisect_command, ["-j", "2", "--unmask", "--toggles", "1"])],
)
def test_the_other_commands_do_the_same(command: click.Command, ours: list[str]) -> None:
    found = parsed(command, *ours, "python", "x.py", "--limit", "9", "--json", "-j", "7", "--help")

    assert found["command"] == ("python", "x.py", "--limit", "9", "--json", "-j", "7", "--help")
    assert found["limit" if command is trace_command else "jobs"] == (3 if command is trace_command else 2)


@pytest.mark.parametrize("words", [["1", "--jsn", "F", "true"], ["1"], ["1", "--"], ["1", "--json"], []])
def test_wrong_use_stays_wrong_use(words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        parsed(run_command, *words)


def test_the_command_gets_its_own_json_option(project: Project) -> None:
    code = "import sys; print(sys.argv[1:])"

    done = project.prtoggle("run", "1", sys.executable, "-c", code, "--json", "F", "--require-reach", "-h")

    assert (done.returncode, done.stdout) == (0, "['--json', 'F', '--require-reach', '-h']\n")
    assert not (project.root / "F").exists()


@pytest.mark.parametrize("command", ["run", "trace"])
@pytest.mark.parametrize("separator", [["--"], []])
def test_ids_that_are_no_comma_list_are_told_how_they_would_be(
    project: Project, command: str, separator: list[str]
) -> None:
    done = project.prtoggle(command, "1", "2", "1", *separator, "touch", "started")

    assert (done.returncode, done.stdout) == (2, "")
    assert "several ids are one comma list, 1,2\n" in done.stderr
    assert not (project.root / "started").exists()


def test_a_program_with_the_name_of_a_toggle_is_run(project: Project) -> None:
    project.write({"bin/2": "#!/bin/sh\necho ran\n"})
    (project.root / "bin/2").chmod(0o755)

    done = project.prtoggle("run", "1", "2", variables={"PATH": f"{project.root}/bin:{os.environ['PATH']}"})

    assert (done.returncode, done.stdout) == (0, "ran\n")
