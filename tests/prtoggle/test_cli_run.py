"""`prtoggle run`: the command's own status, unless a toggle was not what it was asked to be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from prtoggle import report
from tests.prtoggle.programs import MODULE, Project, heed_signals

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def summary_of(project: Project, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    file = project.root / "summary.json"
    done = project.prtoggle("run", "--json", str(file), *arguments)
    return done, json.loads(file.read_text())


def test_the_command_runs_reverted_and_a_summary_goes_to_stderr(project: Project) -> None:
    done = project.prtoggle("run", "1", "--", sys.executable, "-m", "app")

    assert (done.stdout, done.returncode) == ("41\n", 0)
    assert "active (at load)" in done.stderr
    assert "app.core.answer" in done.stderr


def test_the_json_summary_says_what_each_process_came_to(project: Project) -> None:
    done, summary = summary_of(project, "1,2", "--", sys.executable, "-m", "app")

    assert done.returncode == 0
    assert (summary["version"], summary["status"], summary["toggles"]) == (1, 0, ["1", "2"])
    (process,) = summary["processes"]
    assert process["argv"][1:] == ["-m", "app"]
    assert [
        (target["toggle"], target["state"], target["moment"], target["called"], target["reached"])
        for target in process["targets"]
    ] == [("1", "active", "at load", True, True), ("2", "active", "at load", False, False)]
    assert summary["unreached"] == [{"toggle": "2", "target": "app.core.other"}]


@pytest.mark.parametrize("status", [0, 1, 7])
def test_the_commands_own_status_is_returned(project: Project, status: int) -> None:
    assert (
        project.prtoggle("run", "1", "--", sys.executable, "-c", f"raise SystemExit({status})").returncode
        == status
    )


def test_a_command_that_a_signal_ended_has_the_shells_status_for_it(project: Project) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

    assert project.prtoggle("run", "1", "--", sys.executable, "-c", code).returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_command(project: Project, number: int) -> None:
    code = (
        f"import signal, sys, time\nsignal.signal({int(number)}, lambda *_: sys.exit(9))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    command = [sys.executable, "-m", "prtoggle", "run", "1", "--", sys.executable, "-c", code]
    with subprocess.Popen(
        command,
        cwd=project.root,
        env=project.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_signals,  # noqa: PLW1509
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(timeout=30) == 9


def test_an_interrupt_from_the_terminal_is_the_commands_to_handle(project: Project) -> None:
    code = (
        "import sys, time\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    print('handled', flush=True)\n    sys.exit(5)"
    )
    command = [sys.executable, "-m", "prtoggle", "run", "1", "--", sys.executable, "-c", code]
    with subprocess.Popen(
        command,
        cwd=project.root,
        env=project.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=heed_signals,  # noqa: PLW1509
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does for Ctrl-C
        assert process.stdout.readline() == b"handled\n"
        assert process.wait(timeout=30) == 5


def test_standard_input_is_the_commands(project: Project) -> None:
    command = [sys.executable, "-m", "prtoggle", "run", "1", "--", "cat"]

    done = subprocess.run(
        command,
        input="through\n",
        cwd=project.root,
        env=project.environ(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.returncode) == ("through\n", 0)


def refused(project: Project, *arguments: str) -> str:
    """Runs `prtoggle run` in a way that must start nothing; returns the message."""
    done = project.prtoggle("run", *arguments, "--", sys.executable, "-c", "open('started', 'w')")

    assert done.returncode == 2, done
    assert done.stdout == ""
    assert not (project.root / "started").exists()
    assert "Traceback" not in done.stderr
    return done.stderr


def test_an_unknown_id_starts_nothing(project: Project) -> None:
    assert "there is no toggle 11" in refused(project, "11")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("title: [a\n", "3.yaml:"),
        (
            "patches: [{target: app.core.answer, edits: [{match: value += 2, replacement: ''}]}]\n",
            "value += 1",
        ),
        ("patches: [{target: app.core.nothing, edits: [{match: value += 1, replacement: ''}]}]\n", "nothing"),
        ("patches: [{target: app.nowhere.f, edits: [{match: value += 1, replacement: ''}]}]\n", "nowhere"),
    ],
    ids=["broken spec", "no match", "no such name", "no such module"],
)
def test_a_toggle_that_does_not_fit_starts_nothing(project: Project, text: str, says: str) -> None:
    (project.root / "toggles/3.yaml").write_text(text)

    assert says in refused(project, "1,3")


@pytest.mark.parametrize("ids", ["", ",", "1,,2"])
def test_a_malformed_list_of_ids_starts_nothing(project: Project, ids: str) -> None:
    assert refused(project, ids)


def test_a_command_that_does_not_exist_is_wrong_use(project: Project) -> None:
    done = project.prtoggle("run", "1", "--", "no-such-command")

    assert done.returncode == 2
    assert "cannot start no-such-command" in done.stderr


def test_no_command_is_wrong_use(project: Project) -> None:
    assert project.prtoggle("run", "1").returncode == 2


def test_a_failure_that_the_command_hides_is_still_the_result(project: Project) -> None:
    # The spec fits what is found from here, but the command puts another package in front of it.
    project.write({"shadow/app/__init__.py": "", "shadow/app/core.py": "def answer():\n    return 42\n"})
    inner = f"{sys.executable} -c 'import sys; sys.path.insert(0, \"shadow\"); import app.core'"

    done, summary = summary_of(project, "1", "--", "sh", "-c", f"{inner} || true")

    assert done.returncode == 2
    assert summary["status"] == 0
    assert "value += 1" in summary["failures"][0]
    assert "value += 1" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tool.py"], "3 was not reverted: tool.helper was changed in no process."),
        (["-c", "pass"], "3 was never reached: no process loaded the module of tool.helper."),
        (
            ["-c", "import tool"],
            "3 was reverted, never reached: the reverted statement of tool.helper ran in no",
        ),
    ],
    ids=["refused", "not loaded", "loaded"],
)
def test_the_summary_says_how_far_a_toggle_came(project: Project, arguments: list[str], says: str) -> None:
    project.write({"tool.py": "def helper():\n    return 1\n"})
    spec = "patches: [{target: tool.helper, edits: [{match: return 1, replacement: return 2}]}]\n"
    (project.root / "toggles/3.yaml").write_text(spec)

    done = project.prtoggle("run", "3", "--", sys.executable, *arguments)

    assert done.returncode == (2 if arguments == ["tool.py"] else 0)
    assert done.stderr.splitlines()[-1].startswith(says)


def test_a_long_target_is_not_broken_over_lines_off_a_terminal(project: Project) -> None:
    name = "a_function_with_a_name_that_is_longer_than_any_column_of_a_table_of_eighty_letters"
    project.write({"app/long.py": f"def {name}():\n    return 1\n"})
    spec = f"patches: [{{target: app.long.{name}, edits: [{{match: return 1, replacement: return 2}}]}}]\n"
    (project.root / "toggles/3.yaml").write_text(spec)
    code = f"import app.long; app.long.{name}()"

    done = project.python("-m", "prtoggle", "run", "3", "--", sys.executable, "-c", code)

    (row,) = [line for line in done.stderr.splitlines() if "active (at load)" in line]
    assert f"app.long.{name}" in row


class TestRequireReach:
    """`--require-reach` ends with 3 when a reverted statement ran in no process."""

    def test_a_reached_statement_keeps_the_commands_status(self, project: Project) -> None:
        done = project.prtoggle("run", "--require-reach", "1", "--", sys.executable, "-m", "app")

        assert done.returncode == 0

    def test_a_function_that_is_called_past_the_statement_is_not_enough(self, project: Project) -> None:
        code = "import app.core; app.core.other(True)"

        done = project.prtoggle("run", "--require-reach", "2", "--", sys.executable, "-c", code)

        assert done.returncode == 3
        assert "never reached" in done.stderr

    def test_a_target_that_is_never_loaded_was_not_reached(self, project: Project) -> None:
        done = project.prtoggle("run", "--require-reach", "1", "--", sys.executable, "-c", "pass")

        assert done.returncode == 3
        assert "armed" in done.stderr

    def test_a_child_may_be_the_one_that_reaches(self, project: Project) -> None:
        command = f"{sys.executable} -c pass && {sys.executable} -m app"

        assert project.prtoggle("run", "--require-reach", "1", "--", "sh", "-c", command).returncode == 0

    def test_a_command_without_our_start_file_reverted_nothing(self, project: Project) -> None:
        done = project.prtoggle("run", "--require-reach", "1", "--", sys.executable, "-S", "-m", "app")

        assert (done.stdout, done.returncode) == ("42\n", 3)
        assert "NOTHING WAS REVERTED" in done.stderr


def test_a_run_without_reports_says_so_but_keeps_the_status(project: Project) -> None:
    done = project.prtoggle("run", "1", "--", "true")

    assert done.returncode == 0
    assert "NOTHING WAS REVERTED" in done.stderr


def test_toggles_of_the_environment_stay_asked_for(project: Project) -> None:
    code = "from app.core import *; print(answer(), other())"

    done = project.prtoggle("run", "2", "--", sys.executable, "-c", code, variables={"PRTOGGLE": "1"})

    assert (done.stdout, done.returncode) == ("41 old\n", 0)


def test_many_processes_that_only_waited_are_counted(project: Project) -> None:
    command = "for i in 1 2 3 4 5; do " + sys.executable + " -c pass; done; " + sys.executable + " -m app"

    done = project.prtoggle("run", "1", "--", "sh", "-c", command)

    assert "5 more processes" in done.stderr
    assert "active (at load)" in done.stderr


@pytest.mark.parametrize(
    ("patch", "called"),
    [
        ("{target: app.core.LIMIT, value: 5}", None),
        ("{target: app.core.LIMIT, edits: [{match: LIMIT = 3, replacement: LIMIT = 5}]}", None),
        ("{target: app.core.other, edits: [{match: flag=False, replacement: flag=True}]}", True),
        ("{target: app.core.answer, wrap: 'app.old:answer'}", True),
        ("{target: os.path.basename, wrap: 'app.old:answer'}", True),
        ("{target: os.curdir, value: ':'}", None),
    ],
    ids=["value", "constant", "default", "wrap", "wrap of a loaded module", "value of a loaded module"],
)
def test_every_kind_of_patch_can_be_reached(project: Project, patch: str, called: bool | None) -> None:
    project.write(
        {
            "app/core.py": "LIMIT = 3\n\n\n"
            + MODULE.replace("def other(flag=False):", "def other(\n    flag=False\n):"),
            "app/old.py": "def answer(wrapped, instance, args, kwargs):\n    return 1\n",
            "toggles/3.yaml": f"patches: [{patch}]\n",
        }
    )
    code = "import os.path; from app import core; core.answer(); core.other(); os.path.basename('a/b')"

    done, summary = summary_of(project, "--require-reach", "3", "--", sys.executable, "-c", code)

    assert done.returncode == 0, done.stderr
    (target,) = summary["processes"][0]["targets"]
    assert (target["state"], target["called"], target["reached"]) == ("active", called, True)


def test_a_target_in_the_module_that_m_runs_is_active(project: Project) -> None:
    project.write({"app/__main__.py": "def f():\n    return 1\n\n\nprint(f())\n"})
    spec = "patches: [{target: app.__main__.f, edits: [{match: return 1, replacement: return 2}]}]\n"
    (project.root / "toggles/3.yaml").write_text(spec)

    done, summary = summary_of(project, "--require-reach", "3", "--", sys.executable, "-m", "app")

    assert (done.stdout, done.returncode) == ("2\n", 0)
    (target,) = summary["processes"][0]["targets"]
    assert (target["state"], target["called"], target["reached"]) == ("active", True, True)


BOTH = "from app.core import answer, other; print(answer(), other())"


@pytest.mark.parametrize("inner", ["1", "2"])
def test_a_run_within_a_run_reports_to_both(project: Project, inner: str) -> None:
    own = ["-m", "prtoggle", "run", inner, "--require-reach", "--", sys.executable, "-c", BOTH]

    done = project.prtoggle("run", "1", "--require-reach", "--json", "outer.json", "--", sys.executable, *own)

    assert (done.returncode, done.stdout) == (0, "41 old\n" if inner == "2" else "41 fixed\n"), done.stderr
    summary = json.loads((project.root / "outer.json").read_text())
    assert summary["unreached"] == []
    assert {target["toggle"] for process in summary["processes"] for target in process["targets"]} == {"1"}
    assert any(process.names("reached", "1", "app.core.answer") for process in report.read(project.reports))


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("def d(f): return f\n@d\ndef f(): return 1\n", "@d"),
        ("def d(f): return f\n@d\ndef f():\n    return 1\n", "@d"),
        ('def f():\n    """Nothing."""\n    print("x")\n', 'print("x")'),
    ],
    ids=["decorator of a line", "decorator", "all but the docstring"],
)
def test_a_deletion_at_the_edge_of_a_function_is_reached(project: Project, text: str, gone: str) -> None:
    spec = f"patches: [{{target: edge.f, edits: [{{match: '{gone}', replacement: ''}}]}}]\n"
    project.write({"edge.py": text, "toggles/3.yaml": spec})
    code = "import edge; edge.f(); print(edge.f.__doc__)"

    done = project.prtoggle("run", "3", "--require-reach", "--", sys.executable, "-c", code)

    assert (done.returncode, done.stdout) == (0, "Nothing.\n" if "Nothing" in text else "None\n"), done.stderr


@pytest.mark.parametrize(
    ("match", "replacement", "statuses"),
    [
        ("assert x", "assert x > 0", (0, 3)),
        ("assert x\n    y = 1", "assert x > 0\n    y = 2", (0, 0)),
        ("y = 0\n", "", (0, 0)),
    ],
    ids=["the assertion alone", "what follows too", "what stood before it"],
)
def test_an_assertion_that_the_compiler_leaves_out_is_not_reached(
    project: Project, match: str, replacement: str, statuses: tuple[int, int]
) -> None:
    text = "def f(x=1):\n    y = 0\n    assert x\n    y = 1\n    return x\n"
    edit = {"match": match.replace("\n    ", "\n"), "replacement": replacement.replace("\n    ", "\n")}
    spec = json.dumps({"patches": [{"target": "edge.f", "edits": [edit]}]})
    project.write({"edge.py": text, "toggles/3.yaml": spec})
    command = ["run", "3", "--require-reach", "--", sys.executable]

    found = [
        project.prtoggle(*command, *options, "-c", "import edge; edge.f()").returncode
        for options in ([], ["-O"])
    ]

    assert tuple(found) == statuses
