"""A toggle that was asked for and cannot take effect ends the process: message, status 2, nothing run, nothing changed."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from prtoggle import report
from tests.prtoggle.programs import ROOT, Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN_IT = "from app.core import answer; print(answer())"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project whose files are compared after the test: a failure must leave them as they are."""
    made = Project(tmp_path / "project")
    yield made
    assert made.python("-c", RUN_IT).stdout == "42\n", "without the toggle the program runs as before"


def spec(edits: str, target: str = "app.core.answer") -> str:
    return f"patches:\n  - target: {target}\n    edits:\n      - {edits}\n"


both_moments = pytest.mark.parametrize("late", [False, True], ids=["at start", "at import"])


def refused(project: Project, *arguments: str, toggles: str = "3", late: bool = False) -> str:
    """Runs a program that must be stopped before it prints; returns the message."""
    sources = {path: path.read_bytes() for path in project.root.rglob("*.py")}
    run = project.python_that_finds_it_late if late else project.python

    done = run(*(arguments or ("-c", RUN_IT)), toggles=toggles)

    assert (done.returncode, done.stdout) == (2, ""), done
    assert f"PRTOGGLE={toggles} cannot be honoured" in done.stderr
    assert "ends here with status 2" in done.stderr
    assert {path: path.read_bytes() for path in project.root.rglob("*.py")} == sources
    return done.stderr


def test_an_unknown_id_is_refused_with_near_ones(project: Project) -> None:
    message = refused(project, toggles="1,11")

    assert "there is no toggle 11" in message
    assert str(project.root / "toggles") in message


@pytest.mark.parametrize("value", [",", "1,,2", " ", "1;2"])
def test_a_value_that_is_no_list_of_ids_is_refused(project: Project, value: str) -> None:
    done = project.python("-c", "print('ran')", toggles=value)

    assert (done.returncode, done.stdout) == (2, "")
    assert "prtoggle: PRTOGGLE=" in done.stderr


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("title: a\ntitle: b\npatches: []\n", "2:1", "title"),
        ("title: a\npatches:\n\t- target: x\n", "3:1", "tab"),
        ("title: a\ncolour: red\n" + spec("{match: value += 1, replacement: ''}"), "2:1", "colour"),
        ("title: [a]\n" + spec("{match: value += 1, replacement: ''}"), "1:8", "title"),
    ],
    ids=["duplicate key", "tab", "unknown key", "wrong type"],
)
def test_a_broken_spec_is_refused_with_its_place(project: Project, text: str, place: str, says: str) -> None:
    (project.root / "toggles/3.yaml").write_text(text)

    message = refused(project)

    assert f"{project.root / 'toggles/3.yaml'}:{place}:" in message
    assert says in message


def test_a_broken_spec_that_nobody_asked_for_does_no_harm(project: Project) -> None:
    (project.root / "toggles/3.yaml").write_text("title: [a\n")

    assert project.python("-c", RUN_IT, toggles="1").stdout == "41\n"


@both_moments
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("app.core.missing", "missing"),
        ("app.core.Nothing.method", "Nothing"),
        ("app.nowhere.answer", "nowhere"),
    ],
)
def test_a_target_that_does_not_exist_is_refused(
    project: Project, late: bool, target: str, says: str
) -> None:
    (project.root / "toggles/3.yaml").write_text(spec("{match: value += 1, replacement: ''}", target))

    message = refused(project, late=late)

    assert target in message
    assert says in message


@both_moments
def test_an_edit_that_matches_nothing_is_refused_with_the_nearest_text(project: Project, late: bool) -> None:
    (project.root / "toggles/3.yaml").write_text(spec("{match: value += 2, replacement: ''}"))

    message = refused(project, late=late)

    assert "value += 2" in message
    assert "value += 1" in message
    assert str(project.root / "app/core.py") in message


@both_moments
def test_an_edit_that_matches_twice_is_refused_with_both_lines(project: Project, late: bool) -> None:
    project.write({"app/twice.py": "def f():\n    x = 1\n    print(x)\n    x = 1\n    return x\n"})
    (project.root / "toggles/3.yaml").write_text(spec("{match: x = 1, replacement: x = 2}", "app.twice.f"))

    message = refused(project, "-c", "import app.twice; app.twice.f()", late=late)

    assert "2" in message
    assert "4" in message


@both_moments
def test_one_bad_toggle_leaves_the_good_one_out_as_well(project: Project, late: bool) -> None:
    (project.root / "toggles/3.yaml").write_text(spec("{match: value += 2, replacement: ''}"))

    refused(project, toggles="1,3")


FALLBACK = """\
    import time
    for attempt in range(3):
        try:
            from app.{module} import answer
            break
        except BaseException:
            time.sleep(0.01)
    else:
        def answer():
            return "fallback"
    print(answer())
    """


def test_an_importer_that_swallows_everything_and_tries_again_cannot_go_on(project: Project) -> None:
    (project.root / "toggles/3.yaml").write_text(spec("{match: value += 2, replacement: ''}"))
    project.write({"app/stubborn.py": FALLBACK.format(module="core")})

    assert "value += 2" in refused(project, "-m", "app.stubborn", late=True)


@both_moments
def test_a_target_module_that_fails_to_import_shows_its_own_error(project: Project, late: bool) -> None:
    broken = "def answer():\n    value = 1\n    return value\n\n\nraise RuntimeError('no device')\n"
    project.write({"app/broken.py": broken, "app/stubborn.py": FALLBACK.format(module="broken")})
    (project.root / "toggles/3.yaml").write_text(
        spec("{match: value = 1, replacement: value = 2}", "app.broken.answer")
    )

    message = refused(project, "-m", "app.stubborn", late=late)

    assert "RuntimeError: no device" in message
    assert f'{project.root / "app/broken.py"}", line 6' in message
    assert "app.broken" in message


@both_moments
def test_a_target_module_with_a_syntax_error_shows_it(project: Project, late: bool) -> None:
    project.write({"app/broken.py": "def answer(:\n    return 1\n"})
    (project.root / "toggles/3.yaml").write_text(
        spec("{match: return 1, replacement: return 2}", "app.broken.answer")
    )

    message = refused(project, "-c", "import app.broken", late=late)

    assert "app/broken.py" in message
    assert "syntax" in message.lower()


def test_a_failing_edit_in_a_thread_ends_the_whole_process(project: Project) -> None:
    (project.root / "toggles/3.yaml").write_text(spec("{match: value += 2, replacement: ''}"))
    threaded = """\
        import threading, time

        def work():
            try:
                import app.core
            except BaseException:
                pass

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        print("went on")
        """
    project.write({"app/threaded.py": threaded})

    assert "value += 2" in refused(project, "-m", "app.threaded", late=True)


def test_what_was_printed_before_a_late_failure_is_not_lost(project: Project) -> None:
    (project.root / "toggles/3.yaml").write_text(spec("{match: value += 2, replacement: ''}"))

    done = project.python_that_finds_it_late(
        "-c", "print('before'); import app.core; print('after')", toggles="3"
    )

    assert (done.returncode, done.stdout) == (2, "before\n")


def test_a_target_that_another_kind_of_loader_brings_in_is_refused(project: Project) -> None:
    archive = project.root / "archived.zip"
    project.write({"archived/__init__.py": "", "archived/inside.py": "def f():\n    return 1\n"})
    code = "import shutil; shutil.make_archive('archived', 'zip', '.', 'archived'); shutil.rmtree('archived')"
    subprocess.run([sys.executable, "-c", code], cwd=project.root, check=True)
    (project.root / "toggles/3.yaml").write_text(
        spec("{match: return 1, replacement: return 2}", "archived.inside.f")
    )

    message = refused(
        project, "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); import archived.inside"
    )

    assert "archived.inside" in message
    assert "zip" in message


@pytest.mark.parametrize("script", ["app/core.py", "tool.py"])
def test_a_script_that_holds_a_target_is_refused_with_the_advice_to_use_m(
    project: Project, script: str
) -> None:
    project.write({"tool.py": "def helper():\n    return 1\n\n\nprint(helper())\n"})
    target = "tool.helper" if script == "tool.py" else "app.core.answer"
    edit = (
        "{match: return 1, replacement: return 2}"
        if script == "tool.py"
        else "{match: value += 1, replacement: ''}"
    )
    (project.root / "toggles/3.yaml").write_text(spec(edit, target))

    message = refused(project, script)

    assert f"python -m {target.rpartition('.')[0]}" in message


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (["-m", "cProfile", "tool.py"], "cProfile -m tool"),
        (["-m", "cProfile", "-s", "time", "./tool.py", "more.py"], "cProfile -m tool"),
        (["-m", "pdb", "-c", "continue", "tool.py"], "pdb -m tool"),
        (["-m", "trace", "--count", "tool.py"], "trace --module tool"),
    ],
)
def test_a_script_with_a_target_that_a_profiler_runs_is_refused(
    project: Project, arguments: list[str], instead: str
) -> None:
    project.write({"tool.py": "def helper():\n    return 1\n\n\nprint(helper())\n"})
    (project.root / "toggles/3.yaml").write_text(
        spec("match: return 1\n        replacement: return 2", "tool.helper")
    )

    stderr = refused(project, *arguments)

    assert f"Start it as `{instead}` instead" in stderr


def test_a_module_that_a_profiler_runs_is_reverted(project: Project) -> None:
    project.write({"tool.py": "def helper():\n    return 1\n\n\nprint(helper())\n"})
    (project.root / "toggles/3.yaml").write_text(
        spec("match: return 1\n        replacement: return 2", "tool.helper")
    )

    done = project.python("-m", "cProfile", "-o", "profile", "-m", "tool", toggles="3")

    assert (done.stdout, done.returncode) == ("2\n", 0), done.stderr


def test_a_script_beside_the_target_runs(project: Project) -> None:
    project.write({"core.py": RUN_IT})

    assert project.python("core.py", toggles="1").stdout == "41\n"


def test_two_toggles_that_set_a_variable_differently_are_refused(project: Project) -> None:
    for number, match in (("3", "value = 41"), ("4", "value += 1")):
        text = f"env: {{APP_CACHE: '{number}'}}\n" + spec(f"{{match: {match}, prepend: pass}}")
        (project.root / f"toggles/{number}.yaml").write_text(text)

    message = refused(project, toggles="3,4")

    assert "APP_CACHE=3" in message
    assert "APP_CACHE=4" in message


def test_a_toggles_variables_reach_the_process_and_its_children(project: Project) -> None:
    text = "env: {APP_CACHE: 'off'}\n" + spec("{match: value += 1, replacement: ''}")
    (project.root / "toggles/3.yaml").write_text(text)
    code = "import os, subprocess; print(os.environ['APP_CACHE'], flush=True); subprocess.run(['sh', '-c', 'echo $APP_CACHE'])"

    done = project.python("-c", code, toggles="3")

    assert (done.stdout, done.stderr) == ("off\noff\n", "")


def test_a_failure_is_reported_for_the_summary_of_a_run(project: Project) -> None:
    refused(project, toggles="11")

    (process,) = report.read(project.reports)
    assert [event["event"] for event in process.events] == ["failed"]
    assert "there is no toggle 11" in str(process.events[0]["message"])


def test_without_our_dependencies_the_process_stops(project: Project) -> None:
    # -I hides PYTHONPATH, so that only a start file in site-packages could have run; this calls it as that does.
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.modules['wrapt'] = None; import _prtoggle_start as s; s.start()"

    done = project.python("-S", "-c", f"{code}; print('went on')", toggles="1")

    assert (done.returncode, done.stdout) == (2, "")
    assert "prtoggle cannot be imported" in done.stderr


def test_any_exception_out_of_the_activation_stops_the_process(project: Project) -> None:
    # Python prints an exception that a start file raises, and goes on with the program as it is.
    code = f"""\
        import sys, types
        sys.path.insert(0, {str(ROOT)!r})
        import _prtoggle_start
        broken = sys.modules["prtoggle.activation"] = types.ModuleType("prtoggle.activation")
        broken.activate_from_environment = lambda: 1 / 0
        _prtoggle_start.start()
        print("went on")
        """

    done = project.python("-S", "-c", textwrap.dedent(code), toggles="1")

    assert (done.returncode, done.stdout) == (2, "")
    assert "ZeroDivisionError('division by zero')" in done.stderr


def test_the_process_stops_even_where_the_failure_cannot_be_told(project: Project) -> None:
    code = """\
        import prtoggle.activation as activation
        activation._message = lambda error: 1 / 0
        activation.fail(ValueError())
        """

    done = project.python(
        "-c", f"try:\n{textwrap.indent(textwrap.dedent(code), ' ')}\nfinally:\n print('went on')"
    )

    assert (done.returncode, done.stdout) == (2, "")


def test_a_toggle_that_the_program_itself_reverts_raises_to_the_program(project: Project) -> None:
    (project.root / "toggles/3.yaml").write_text(spec("{match: return 9, replacement: return 8}", "hidden.f"))
    project.write({"late/hidden.py": "def f():\n    return 1\n"})
    code = """\
        import sys
        import prtoggle
        from app.core import answer

        toggle = prtoggle.load("toggles/3.yaml")
        sys.path.insert(0, "late")
        try:
            prtoggle.revert(toggle)
            import hidden
        except prtoggle.PrToggleError as error:
            print(type(error).__name__, answer())
        """
    project.write({"app/own.py": code})

    done = project.python("-m", "app.own", toggles="1")

    assert (done.stdout, done.returncode, done.stderr) == ("MatchError 41\n", 0, "")


OWN_LOADER = """\
    import sys
    from importlib.machinery import SourceFileLoader
    from importlib.util import spec_from_file_location

    class Loader(SourceFileLoader):
        def get_code(self, name):
            return compile(self.get_data(self.path), self.path, "exec")

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "app.core":
                return spec_from_file_location(name, "app/core.py", loader=Loader(name, "app/core.py"))

    sys.meta_path.insert(0, Finder)
    """
BY_HAND = """\
    import sys, types
    sys.modules["app.core"] = types.ModuleType("app.core")
    """


def refused_past_us(project: Project, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 2
    assert "app.core was loaded by other means" in done.stderr
    (process,) = report.read(project.reports)
    assert process.events[-1]["event"] == "failed"


@pytest.mark.parametrize("end", ["", "os._exit(0)", "os.execv('/bin/true', ['true'])"])
def test_a_target_that_a_finder_in_front_of_ours_brings_in_is_an_error_at_once(
    project: Project, end: str
) -> None:
    text = f"{dedent(OWN_LOADER)}import os\nimport app.core\nprint('ran', flush=True)\n{end}\n"
    project.write({"app/past.py": text})

    done = project.python("-m", "app.past", toggles="1")

    refused_past_us(project, done)
    assert done.stdout == ""


def test_a_target_that_is_put_there_by_hand_is_an_error_at_the_end_of_the_process(project: Project) -> None:
    project.write({"app/past.py": dedent(BY_HAND) + "import app.core\nprint('ran')\n"})

    done = project.python("-m", "app.past", toggles="1")

    refused_past_us(project, done)
    assert done.stdout == "ran\n"


@pytest.mark.parametrize(
    "front", ["", "sys.meta_path.insert(0, Finder)"], ids=["Python's finders", "a finder in front"]
)
def test_a_wrapper_waits_for_a_module_that_nobody_knew_at_the_start(project: Project, front: str) -> None:
    own = (
        dedent(OWN_LOADER)
        .rpartition("sys.meta_path")[0]
        .replace("app.core", "late")
        .replace("app/core", "late")
    )
    project.write(
        {
            "late.py": "def f():\n    return 1\n",
            "wrapping.py": "def wrapped(inner, instance, args, kwargs):\n    return -inner()\n",
            "toggles/4.yaml": "patches: [{target: late.f, wrap: 'wrapping:wrapped'}]\n",
            "program.py": f"{own}import os\nos.chdir({str(project.root)!r})\n{front}\nfrom late import f\nprint(f())\n",
        }
    )
    start = f"import runpy; runpy.run_path({str(project.root / 'program.py')!r})"

    done = project.python_that_finds_it_late("-c", start, toggles="4")

    assert (done.stdout, done.stderr, done.returncode) == ("-1\n", "", 0)
    assert project.states("4", "late.f") == ["activated"]
