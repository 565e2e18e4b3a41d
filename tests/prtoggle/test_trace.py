"""`prtoggle trace`: the command is what it is without tracing, and what differs is told of all its processes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prtoggle.cli import main
from tests.prtoggle.programs import Project

if TYPE_CHECKING:
    import subprocess

ROOT = Path(__file__).parents[2]

CORE = """
import functools

LIMIT = 3


def answer(x=1):
    value = x
    value += 1
    return value


def grow(rows):
    rows.append(1)


def steps(n):
    yield n


@functools.cache
def known(n):
    return n


class Pool:
    size = 4

    def take(self, n):
        return n
"""

SPECS = {
    "1": ("app.core.answer", "value += 1", ""),
    "2": ("app.core.grow", "rows.append(1)", "rows.append(2)"),
    "gen": ("app.core.steps", "yield n", "yield -n"),
    "limit": ("app.core", "LIMIT = 3", "LIMIT = 2"),
    "cached": ("app.core.known", "@functools.cache", "@functools.lru_cache(1)"),
    "body": ("app.core.Pool", "size = 4", "size = 2"),
    "main": ("app.__main__.run", "return 1", "return 2"),
}


def spec(target: str, match: str, replacement: str) -> str:
    return (
        f"patches:\n  - target: {target}\n    edits:\n      - match: '{match}'\n"
        f"        replacement: '{replacement}'\n"
    )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project")
    made.write(
        {"app/core.py": CORE, **{f"toggles/{name}.yaml": spec(*parts) for name, parts in SPECS.items()}}
    )
    made.write(
        {
            "toggles/value.yaml": "patches:\n  - target: app.core.LIMIT\n    value: 2\n",
            "toggles/wrap.yaml": "patches:\n  - target: app.core.answer\n    wrap: app.core:grow\n",
            "app/__main__.py": (
                "from app.core import answer\n\n\ndef run():\n    return 1\n\n\nprint(answer(), answer(5), run())\n"
            ),
        }
    )
    return made


@pytest.fixture
def here(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project as the working directory of this process, for commands that start nothing."""
    monkeypatch.chdir(project.root)
    monkeypatch.syspath_prepend(str(project.root))
    monkeypatch.delenv("PRTOGGLE", raising=False)
    return project


def findings(project: Project, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    file = project.root / "findings.json"
    done = project.prtoggle("trace", "--json", str(file), *arguments)
    return done, json.loads(file.read_text())


def code(text: str) -> list[str]:
    return ["--", sys.executable, "-c", text]


def test_the_command_is_as_it_is_and_the_findings_go_to_stderr(project: Project) -> None:
    done = project.prtoggle("trace", "1", "--", sys.executable, "-m", "app")

    assert (done.stdout, done.returncode) == ("2 6 1\n", 0)
    for shown in ("app.core.answer", "x 5", "fixed", "6", "reverted", "5"):
        assert shown in " ".join(done.stderr.split())
    assert "2 calls in 1 process; 2 of 2 compared differed" in done.stderr


def test_the_findings_as_json(project: Project) -> None:
    done, found = findings(project, "1", *code("from app.core import answer\nfor x in (1, 1, 2): answer(x)"))

    assert done.returncode == 0
    assert (found["version"], found["toggles"], found["status"]) == (1, ["1"], 0)
    assert (found["never_called"], found["failures"], found["continued_with"]) == ([], [], "fixed")
    (function,) = found["functions"]
    assert function["function"] == "app.core.answer"
    counted = {name: function[name] for name in ("calls", "equal", "differing", "not_compared", "complete")}
    assert counted == {"calls": 3, "equal": 0, "differing": 3, "not_compared": {}, "complete": True}
    first, second = function["differences"]
    assert (first["count"], first["call"], second["count"], second["call"]) == (2, 1, 1, 3)
    assert first["arguments"] == [{"name": "x", "value": "1"}]
    assert (first["fixed"], first["reverted"]) == ("2", "1")
    assert first["differences"] == [{"where": "result", "fixed": "2", "reverted": "1"}]


def test_equal_calls_are_said_to_be_equal(project: Project) -> None:
    text = "from app.core import grow\nclass Rows:\n    def append(self, x): pass\nfor _ in range(3): grow(Rows())"
    done = project.prtoggle("trace", "2", *code(text))

    assert "3 calls in 1 process; no call differed, of 3 compared" in done.stderr
    assert done.returncode == 0


def test_the_commands_own_status_is_returned(project: Project) -> None:
    text = "from app.core import answer\nanswer()\nraise SystemExit(7)"

    assert project.prtoggle("trace", "1", *code(text)).returncode == 7


def test_a_target_that_is_never_called_ends_with_3(project: Project) -> None:
    done, found = findings(project, "1", *code("import app.core"))

    assert done.returncode == 3
    assert "app.core.answer was never called: NOTHING IS KNOWN of it" in done.stderr
    assert "NOTHING WAS COMPARED" in done.stderr
    assert found["never_called"] == [{"toggle": "1", "target": "app.core.answer"}]


def test_one_target_of_several_that_is_never_called_is_named(project: Project) -> None:
    done, found = findings(project, "1,2", *code("from app.core import answer\nanswer()"))

    assert done.returncode == 0
    assert found["never_called"] == [{"toggle": "2", "target": "app.core.grow"}]
    assert "app.core.grow was never called" in done.stderr


def test_calls_of_which_none_can_be_compared_end_with_3(project: Project) -> None:
    text = (
        "import threading\nfrom app.core import answer\ntry: answer(threading.Lock())\nexcept TypeError: pass"
    )
    done = project.prtoggle("trace", "1", *code(text))

    assert done.returncode == 3
    assert "not compared: 1: argument x: _thread.lock cannot be copied" in done.stderr


def test_a_command_without_prtoggle_is_said_to_have_compared_nothing(project: Project) -> None:
    done = project.prtoggle("trace", "1", "--", "true")

    assert done.returncode == 3
    assert "NOTHING WAS COMPARED" in done.stderr


CHILDREN = """
import multiprocessing, os, subprocess, sys
from app.core import answer


def work(x):
    return answer(x)


if __name__ == "__main__":
    answer(0)
    subprocess.run([sys.executable, "-c", "from app.core import answer; answer(100)"], check=True)
    for start in ("fork", "spawn"):
        with multiprocessing.get_context(start).Pool(1) as pool:
            pool.map(work, range(3))
            pool.close()
            pool.join()
    if not os.fork():
        answer(200)
        os._exit(0)
    os.wait()
"""


def test_children_of_every_kind_are_traced(project: Project) -> None:
    project.write({"children.py": CHILDREN})

    done, found = findings(project, "1", "--limit", "20", "--", sys.executable, "children.py")

    assert done.returncode == 0, done.stderr
    (function,) = found["functions"]
    assert function["calls"] == 1 + 1 + 2 * 3 + 1
    assert function["differing"] == 9
    shown = {found["arguments"][0]["value"]: found["count"] for found in function["differences"]}
    assert shown == {"0": 3, "1": 2, "2": 2, "100": 1, "200": 1}
    # The child that ended by os._exit has told of its call, and could not say that it was the last.
    assert function["complete"] is False
    assert "there may have been more calls" in done.stderr


def test_limit_is_per_function_and_the_rest_is_counted(project: Project) -> None:
    text = "from app.core import answer\nfor x in range(9): answer(x)"

    done, found = findings(project, "1", "--limit", "2", *code(text))

    (function,) = found["functions"]
    assert [one["arguments"][0]["value"] for one in function["differences"]] == ["0", "1"]
    assert function["more_differing_calls"] == 7
    assert "9 of 9 compared differed, 7 of them not shown" in done.stderr


def test_calls_beyond_the_first_are_not_compared(project: Project) -> None:
    text = "from app.core import answer\nprint([answer(x) for x in range(4)])"

    done, found = findings(project, "1", "--calls", "1", *code(text))

    assert done.stdout == "[1, 2, 3, 4]\n"
    assert found["functions"][0]["differing"] == 1
    assert found["functions"][0]["not_compared"] == {"after the first 1 calls (--calls)": 3}


def test_a_call_with_more_than_max_copy_is_not_compared(project: Project) -> None:
    text = "from app.core import grow\ngrow(list(range(1000)))\ngrow([])"

    _, found = findings(project, "2", "--max-copy", "4K", *code(text))

    (function,) = found["functions"]
    assert (function["differing"], sum(function["not_compared"].values())) == (1, 1)
    assert "4096 bytes" in next(iter(function["not_compared"]))


def test_the_command_can_go_on_with_the_reverted_variant(project: Project) -> None:
    done = project.prtoggle("trace", "1", "--continue-with", "reverted", "--", sys.executable, "-m", "app")

    assert done.stdout == "1 5 1\n"
    assert "The command went on with the reverted variant" in done.stderr


def test_a_fix_that_is_out_already_stays_out_of_both_variants(project: Project) -> None:
    project.write({"toggles/zero.yaml": spec("app.core.answer", "value = x", "value = 0")})
    text = "from app.core import answer\nprint(answer(5))"

    done = project.prtoggle("trace", "1", *code(text), variables={"PRTOGGLE": "zero"})

    assert done.stdout == "1\n"
    assert "1 of 1 compared differed" in done.stderr
    assert "reverted 0" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("toggle", "why"),
    [
        ("value", "toggle value, app.core.LIMIT: a value: patch gives a name another value"),
        ("wrap", "toggle wrap, app.core.answer: a wrap: patch wraps whatever the name stands for"),
        ("gen", "toggle gen, app.core.steps: it is a generator or a coroutine"),
        ("limit", "toggle limit, app.core: an edit changes line 4, outside of functions"),
        ("cached", "toggle cached, app.core.known: an edit changes a decorator"),
        ("body", "toggle body, app.core.Pool: an edit changes line"),
    ],
)
def test_what_cannot_be_traced_is_refused_before_the_command_starts(
    here: Project, toggle: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", toggle, *code("open('started', 'w')")]) == 2

    message = capsys.readouterr().err
    assert why in message
    assert "Nothing was started." in message
    assert not (here.root / "started").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["unknown"], "unknown"),
        ([""], "IDS names no toggle"),
        (["1", "--max-copy", "many"], "'many' is no number of bytes"),
        (["1", "--limit", "0"], "--limit"),
    ],
)
def test_wrong_use(
    here: Project, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", *arguments, *code("open('started', 'w')")]) == 2

    assert message in capsys.readouterr().err
    assert not (here.root / "started").exists()


def test_a_toggle_that_is_reverted_already_has_nothing_to_compare(
    here: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRTOGGLE", "1")

    assert main(["trace", "1", *code("open('started', 'w')")]) == 2

    assert "PRTOGGLE takes 1 out of the command already" in capsys.readouterr().err
    assert not (here.root / "started").exists()


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        (
            {"PRTOGGLE_TRACE": "1"},
            "is set by `prtoggle trace` for the processes that it starts, and holds something",
        ),
        (
            {"PRTOGGLE_TRACE": '{"toggles": ["1"]}', "PRTOGGLE_REPORT": ""},
            "is set and PRTOGGLE_REPORT is not",
        ),
        ({"PRTOGGLE_TRACE": '{"toggles": ["none"]}'}, "none"),
    ],
)
def test_a_process_that_cannot_do_what_the_variable_says_ends(
    project: Project, variables: dict[str, str], why: str
) -> None:
    done = project.python("-c", "print('went on')", variables={"PRTOGGLE": "", **variables})

    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert f"PRTOGGLE_TRACE={variables['PRTOGGLE_TRACE']} cannot be honoured in process" in done.stderr


def test_a_process_that_outlives_the_trace_goes_on_untraced(project: Project) -> None:
    gone = str(project.root / "gone")

    done = project.python(
        "-m",
        "app",
        variables={"PRTOGGLE": "", "PRTOGGLE_TRACE": '{"toggles": ["1"]}', "PRTOGGLE_REPORT": gone},
    )

    assert (done.returncode, done.stdout) == (0, "2 6 1\n")
    assert "this process does not report" in done.stderr


def test_a_function_of_the_program_itself_ends_it(project: Project) -> None:
    done = project.prtoggle("trace", "main", "--", sys.executable, "-m", "app")

    assert done.returncode == 2
    assert done.stdout == ""
    assert "`python -m app` runs: it is executed, not imported" in done.stderr


def test_a_module_that_nobody_could_watch_ends_the_process(project: Project) -> None:
    text = (
        "import sys, types\nmodule = types.ModuleType('app.core')\nimport app\n"
        "sys.modules['app.core'] = module\nmodule.__file__ = app.__path__[0] + '/core.py'"
    )

    done = project.prtoggle("trace", "1", *code(text))

    assert done.returncode == 2
    assert "its module was loaded in a way that nobody could watch" in done.stderr


def test_a_function_that_another_tool_rewrote_ends_the_process(project: Project) -> None:
    project.write({"app/core.py": f"{CORE}\nanswer.__code__ = (lambda x=1: x).__code__\n"})

    done = project.prtoggle("trace", "1", *code("import app.core\nprint('went on')"))

    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be honoured in process" in done.stderr
    assert "rather than run untraced" in done.stderr


def test_a_flip_of_the_traced_function_is_refused(project: Project) -> None:
    text = (
        "import prtoggle\nfrom app.core import answer\n"
        "try: prtoggle.revert(1)\nexcept prtoggle.PrToggleError as error: print(type(error).__name__)\n"
        "print(answer())"
    )

    done = project.prtoggle("trace", "1", *code(text))

    assert done.stdout == "StaleSourceError\n2\n"
    assert "1 of 1 compared differed" in done.stderr


def test_the_simulation_shows_the_settings_for_which_rows_are_wider(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "runs.sh"
    settings = ("--topk 1", "--topk 4")
    script.write_text("\n".join(f"python -m kvcore simulate --limit 1 {one} || exit" for one in settings))
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PRTOGGLE")}
    project = Project(tmp_path / "unused")

    done = project.run(
        [
            sys.executable,
            "-m",
            "prtoggle",
            "trace",
            "26972",
            "--json",
            str(tmp_path / "out.json"),
            "--",
            "sh",
            str(script),
        ],
        cwd=ROOT,
        variables={
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}",
            "COLUMNS": "200",
            "OMP_NUM_THREADS": "1",
        },
    )

    assert done.returncode == 0, done.stderr
    (function,) = json.loads((tmp_path / "out.json").read_text())["functions"]
    shown = [
        (found["arguments"][0]["value"], found["fixed"], found["reverted"], found["count"])
        for found in function["differences"]
    ]
    assert [(fixed, reverted, count) for _, fixed, reverted, count in shown] == [
        ("23", "8", 1),
        ("271", "12", 1),
    ]
    assert "speculative_eagle_topk=1" in shown[0][0]
    assert "speculative_eagle_topk=4" in shown[1][0]
    assert (function["calls"], function["equal"]) == (2, 0)
    assert "active toggles     │ none" in done.stdout
