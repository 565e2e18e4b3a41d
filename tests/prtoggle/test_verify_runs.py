"""The processes of `verify`: what ends one early, what of the caller's settings gets into them, and that none is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from prtoggle.cli import main
from prtoggle.cli.interruption import interruptible
from prtoggle.verify.entries import entry_of
from prtoggle.verify.matrix import Cell, build_matrix
from prtoggle.verify.proof import verify_toggles
from prtoggle.verify.pytest_settings import settings_arguments
from prtoggle.verify.rounds import run_round
from prtoggle.verify.verdict import Verdict
from tests.prtoggle.programs import Project, heed_signals
from tests.prtoggle.test_verify_guards import FILES, LOWER, UPPER, runner_of, toggle_of

GOOD = "guards/test_good.py"
ENDS = {
    "guards/test_exits.py": (
        "import os\n\ndef test_before():\n    pass\n\ndef test_it():\n    os._exit(1)\n",
        "the process ended with status 1, while guards/test_exits.py::test_it ran",
    ),
    "guards/test_exits_well.py": (
        "import os\n\ndef test_it():\n    os._exit(0)\n",
        "the process ended with status 0, while guards/test_exits_well.py::test_it ran",
    ),
    "guards/test_exits_early.py": (
        "import os\nos._exit(5)\n",
        "the process ended with status 5, while guards/test_exits_early.py was imported",
    ),
    "guards/test_killed.py": (
        "import os\n\ndef test_it():\n    os.kill(os.getpid(), 11)\n",
        "the process was ended by signal 11 (SIGSEGV), while guards/test_killed.py::test_it ran",
    ),
    "guards/test_interrupts.py": (
        "def test_it():\n    raise KeyboardInterrupt\n",
        (
            "KeyboardInterrupt ended the session before all of its tests had run, while "
            "guards/test_interrupts.py::test_it ran"
        ),
    ),
    "guards/test_stops.py": (
        "def test_it(request):\n    request.session.shouldfail = 'enough'\n\ndef test_next():\n    pass\n",
        "the session ended before guards/test_stops.py::test_next had run",
    ),
}
#: Writes its own process id and that of a child, and then takes its time.
SLOW = """\
    import os
    import pathlib
    import subprocess
    import time

    def test_it():
        child = subprocess.Popen(["sleep", "300"])
        with pathlib.Path("pids").open("a") as file:
            file.write(f"{os.getpid()}\\n{child.pid}\\n")
        time.sleep(300)
    """


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project")
    made.write({name: text for name, text in FILES.items() if name.startswith("bounds/") or name == GOOD})
    return made


def test_what_ends_a_process_is_named_and_costs_the_other_guards_nothing(project: Project) -> None:
    project.write({name: text for name, (text, _) in ENDS.items()})
    entries = [entry_of(guard, project.root) for guard in (*ENDS, GOOD, "guards/test_nowhere.py")]

    done = run_round(runner_of(project), entries)

    told = {entry.name(project.root): done.parts[entry].trouble for entry in entries}
    assert told == {
        **{name: trouble for name, (_, trouble) in ENDS.items()},
        GOOD: "",
        "guards/test_nowhere.py": "there is no file guards/test_nowhere.py (is the guard's path right?)",
    }
    assert [test.kind for test in done.parts[entries[-2]].tests] == ["passed"]


def test_what_an_announcement_announces_is_told_too(project: Project) -> None:
    """Two guards of one name in folders that are no packages: pytest's first line alone helps nobody."""
    guards = ("one/test_same.py", "two/test_same.py")
    project.write(dict.fromkeys(guards, "def test_it():\n    pass\n"))
    entries = [entry_of(guard, project.root) for guard in guards]

    done = run_round(runner_of(project), entries)

    [first, second] = (done.parts[entry] for entry in entries)
    assert first.trouble == ""
    [told] = [test.message for test in second.tests]
    assert told.startswith("import file mismatch: imported module 'test_same'")
    assert told.endswith("use a unique basename for your test file modules")


def test_a_conftest_that_fails_costs_the_guards_in_its_folder_only(project: Project) -> None:
    project.write(
        {
            "guards/sub/conftest.py": "raise OSError('no conftest')\n",
            "guards/sub/test_conftest.py": "def test_it():\n    pass\n",
            "guards/test_other.py": "def test_it():\n    pass\n",
        }
    )
    guards = ("guards/test_other.py", "guards/sub/test_conftest.py", GOOD)

    done = run_round(runner_of(project), [entry_of(guard, project.root) for guard in guards])

    other, below, good = done.parts.values()
    assert (other.trouble, good.trouble) == ("", "")
    assert (
        "pytest was called wrongly, or a conftest.py failed to import: E   OSError: no conftest"
        in below.trouble
    )
    assert [test.kind for part in (other, good) for test in part.tests] == ["passed", "passed"]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (
            {
                "guards/test_end.py": "import atexit, os\natexit.register(os._exit, 3)\n\ndef test_it():\n    pass\n"
            },
            "the process ended with status 3, after its last test: 1 passed",
        ),
        (
            {
                "guards/test_end.py": "def test_it():\n    pass\n",
                "conftest.py": "import os\n\ndef pytest_configure():\n    os._exit(7)\n",
            },
            "the process ended with status 7, before it came to a guard",
        ),
        (
            {
                "guards/test_end.py": "def test_it():\n    pass\n",
                "conftest.py": "def pytest_sessionfinish(session):\n    session.exitstatus = 1\n",
            },
            "pytest failed, and none of the tests that it ran did: 1 passed",
        ),
        (
            {
                "guards/test_end.py": "def test_it():\n    pass\n",
                "conftest.py": "def pytest_runtest_logfinish():\n    raise ValueError('a hook')\n",
            },
            "pytest reported an internal error: ",
        ),
    ],
    ids=["at exit", "at the start", "by status", "in a hook"],
)
def test_what_a_process_came_to_apart_from_its_tests_is_told(
    project: Project, files: dict[str, str], says: str
) -> None:
    project.write(files)
    entry = entry_of("guards/test_end.py", project.root)

    (part,) = run_round(runner_of(project), [entry]).parts.values()

    assert part.trouble.startswith(says), part.trouble


def test_what_the_caller_wants_of_pytest_at_other_times_is_no_part_of_a_proof(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x -k nothing --no-such-option")
    alone = "\ndef test_alone():\n    import os\n    assert 'PYTEST_XDIST_WORKER' not in os.environ\n"
    both = {f"guards/test_{name}.py": FILES[GOOD] + alone for name in ("a", "b")}
    # Of the project's own settings the number of workers and an early end are left out.
    project.write({**both, "pytest.ini": "[pytest]\naddopts = -x -n 2\n"})
    toggle = toggle_of("low", ", ".join(both), LOWER)

    (proof,) = verify_toggles([toggle], runner_of(project, toggle), jobs=2)

    assert proof.verdict is Verdict.CAUGHT, proof.detail
    assert proof.fails_without_fix == 1


@pytest.mark.parametrize(
    "settings",
    [
        "--lf --lfnf=none",
        "--ff --nf",
        "--sw --sw-skip",
        "--cache-clear -p cacheprovider",
        "-p no:cacheprovider",
    ],
)
def test_what_the_project_asks_of_earlier_runs_is_without_effect(project: Project, settings: str) -> None:
    early = "def test_early():\n    from bounds.core import first\n    assert first(-2) == 0\n\n"
    project.write(
        {
            "pytest.ini": f"[pytest]\naddopts = {settings} --strict-config\n",
            GOOD: early + FILES[GOOD],
        }
    )
    toggle = toggle_of("low", GOOD, LOWER)

    (proof,) = verify_toggles([toggle], runner_of(project, toggle), jobs=2)

    assert proof.verdict is Verdict.CAUGHT, proof.detail
    assert "(2 of 2 tests)" in proof.detail
    assert not (project.root / ".pytest_cache").exists()


def test_an_option_that_pytest_does_not_know_is_named(project: Project) -> None:
    project.write({"pytest.ini": "[pytest]\naddopts = --no-such-option\n"})
    toggle = toggle_of("low", GOOD, LOWER)

    (proof,) = verify_toggles([toggle], runner_of(project, toggle), jobs=2)

    assert proof.verdict is Verdict.ERROR
    assert proof.detail == (
        "with the fix: pytest was called wrongly, or a conftest.py failed to import: "
        "unrecognized arguments: --no-such-option"
    )


@pytest.mark.parametrize("own", ["pytest.ini", "pyproject.toml", ""])
def test_verdicts_and_matrix_judge_a_guard_by_the_settings_of_the_root(project: Project, own: str) -> None:
    deep = "deep/tests/test_deep.py"
    project.write(
        {
            deep: FILES[GOOD],
            "guards/test_second.py": FILES["guards/test_second.py"],
            "deep/pytest.ini": "[pytest]\naddopts = -k nothing\n",
        }
    )
    if own == "":
        (project.root / "pyproject.toml").unlink()
    elif own == "pytest.ini":
        project.write({own: "[pytest]\n"})
    toggles = [toggle_of("low", deep, LOWER), toggle_of("high", "guards/test_second.py", UPPER)]
    runner = runner_of(project, *toggles)

    proofs = verify_toggles(toggles, runner, jobs=2)
    matrix = build_matrix(toggles, runner, jobs=2)

    assert [(proof.verdict, proof.detail.split(": ")[-1]) for proof in proofs] == [
        (Verdict.CAUGHT, f"{deep}::test_it"),
        (Verdict.CAUGHT, "guards/test_second.py::test_it"),
    ]
    assert [matrix.cells[each, each] for each in matrix.ids] == [Cell.CAUGHT, Cell.CAUGHT]


@pytest.mark.parametrize(
    "files",
    [
        {
            "setup.cfg": "[tool:pytest]\n",
            "tox.ini": "[tox]\n",
            "pyproject.toml": "[tool.pytest.ini_options]\n",
        },
        {"setup.cfg": "[tool:pytest]\n", "tox.ini": "[pytest]\n", "pyproject.toml": "[project]\n"},
        {"setup.cfg": "[tool:pytest]\n", "tox.ini": "[tox]\n", "pyproject.toml": "[project]\n"},
        {"pytest.ini": "", "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ""\n'},
        {"setup.cfg": "[metadata]\n", "pyproject.toml": "[project]\n"},
        {"../tox.ini": "[pytest]\n", "setup.cfg": "[metadata]\n", "pyproject.toml": "[project]\n"},
        {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = ""\n', "tox.ini": "[pytest]\n"},
    ],
)
def test_the_settings_file_is_the_one_that_pytest_takes_in_the_root(
    project: Project, files: dict[str, str]
) -> None:
    project.write(files)
    told = project.python("-m", "pytest", "--collect-only", "-p", "no:cacheprovider", "bounds").stdout

    _, found = settings_arguments(project.root, project.root / "none.ini")

    says = {
        line.split(": ")[0]: line.split(": ")[1].split(" ")[0] for line in told.splitlines() if ": " in line
    }
    assert found == str(Path(says["rootdir"], says["configfile"]))
    assert not (project.root / "none.ini").exists()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


def pids_of(project: Project, least: int) -> list[int]:
    """The processes that the slow guard told of, once there are so many."""
    deadline = time.monotonic() + 60
    file = project.root / "pids"
    while time.monotonic() < deadline:
        found = [int(line) for line in file.read_text().splitlines()] if file.exists() else []
        if len(found) >= least:
            return found
        time.sleep(0.05)
    raise AssertionError("the guards did not begin")


def test_a_time_limit_ends_the_children_of_a_guard_too(project: Project) -> None:
    project.write({"guards/test_slow.py": SLOW})
    toggle = toggle_of("low", f"guards/test_slow.py, {GOOD}", LOWER)

    (proof,) = verify_toggles([toggle], runner_of(project, toggle, timeout=8), jobs=2)

    verdicts = {guard.guard: (guard.verdict, guard.detail) for guard in proof.judged}
    assert verdicts["guards/test_slow.py"] == (
        Verdict.ERROR,
        "with the fix: took longer than 8 s, while guards/test_slow.py::test_it ran",
    )
    assert verdicts[GOOD][0] is Verdict.CAUGHT, verdicts
    pids = pids_of(project, 4)
    assert all(map(is_gone, pids)), pids


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("mode", ["verdicts", "matrix"])
def test_a_request_to_end_ends_all_processes_and_leaves_no_report(
    project: Project, number: signal.Signals, mode: str
) -> None:
    # The second guard would be run again once the first has ended their process.
    project.write({"guards/test_slow.py": SLOW, "guards/test_slow_too.py": SLOW})
    for toggle_id in ("low", "other"):
        toggle = toggle_of(toggle_id, "guards/test_slow.py, guards/test_slow_too.py", LOWER)
        (project.root / f"toggles/{toggle_id}.yaml").write_text(toggle.text)
    verify = subprocess.Popen(
        [
            *(sys.executable, "-m", "prtoggle", "verify", "low", "other", "-j", "2"),
            *(("--matrix",) if mode == "matrix" else ()),
            *("--json", "out.json", "--html", "out.html"),
        ],
        cwd=project.root,
        env=project.environ(variables={"TMPDIR": str(project.reports), "PYTHONDONTWRITEBYTECODE": "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_signals,  # noqa: PLW1509
    )
    pids = pids_of(project, 4)
    verify.send_signal(number)
    out, err = verify.communicate(timeout=30)

    assert verify.returncode == 128 + number
    assert "stopped: all runs were ended" in err
    assert "Traceback" not in out + err
    assert all(map(is_gone, pids)), pids
    assert not [path for path in project.root.iterdir() if "out." in path.name]
    assert not list(project.reports.glob("prtoggle-verify-*"))


def test_the_first_request_to_end_is_heeded_and_those_after_it_wait_for_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    cleaned = []

    def command(**_options: object) -> None:
        with interruptible():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                signal.raise_signal(signal.SIGHUP)
                cleaned.append(True)

    monkeypatch.setattr("prtoggle.cli.list.list_command.callback", command)

    assert main(["list"]) == 128 + signal.SIGTERM
    assert cleaned == [True]
    assert {number: signal.getsignal(number) for number in before} == before
