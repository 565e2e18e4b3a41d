"""Tracebacks, debuggers, coverage and profilers show the code that runs, at lines that can be looked up."""

from __future__ import annotations

import cProfile
import inspect
import io
import linecache
import pdb  # noqa: T100  # what is tested
import pstats
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import prtoggle
from tests.prtoggle.cases.moments import AT_LOAD, patch, toggle, world

if TYPE_CHECKING:
    from types import ModuleType

    from tests.prtoggle.cases.moments import World

__all__ = ["world"]

TEXT = '''\
# filler one
# filler two
A = 1


def g(x):
    return x - 1


def f(x):
    """Doc."""
    y = x + 1
    return boom(y)


def boom(y):
    raise ValueError("y=%d" % y)


class C:
    def m(self, x):
        k = [boom(v) for v in (x,)]
        return k
'''
LONGER = "y = x + 50\ny = y * 2\nif y < 0:\n    return None"


@pytest.fixture
def reverted(world: World) -> ModuleType:
    world.write({"case.py": TEXT})
    wanted = toggle(
        patch("case.f", "y = x + 1", LONGER),
        patch("case.C.m", "k = [boom(v) for v in (x,)]", "x += 1\nk = [boom(v) for v in (x, 2)]"),
    )
    module, _ = world.revert(wanted)
    return module


def frames(call: object, *arguments: object) -> list[traceback.FrameSummary]:
    try:
        call(*arguments)  # type: ignore[operator]
    except ValueError as error:
        return list(traceback.extract_tb(error.__traceback__))
    raise AssertionError


def test_a_traceback_shows_each_line_that_runs(reverted: ModuleType) -> None:
    _, f, boom = frames(reverted.f, 1)
    assert (f.name, f.line, boom.line) == ("f", "return boom(y)", 'raise ValueError("y=%d" % y)')
    assert linecache.getline(f.filename, f.lineno or 0) == "    return boom(y)\n"
    assert (boom.filename, boom.lineno) == (
        reverted.__file__,
        TEXT.splitlines().index('    raise ValueError("y=%d" % y)') + 1,
    )


def test_a_nested_function_and_a_comprehension_show_theirs(reverted: ModuleType) -> None:
    found = frames(reverted.C().m, 1)
    assert {frame.line for frame in found if frame.name in ("m", "<listcomp>")} == {
        "k = [boom(v) for v in (x, 2)]"
    }


def test_a_traceback_of_a_call_before_the_flip_is_still_right(world: World) -> None:
    world.write({"case.py": TEXT})
    wanted = toggle(patch("case.f", "y = x + 1", LONGER))
    module, handle = world.revert(wanted)
    try:
        module.f(1)
    except ValueError as error:
        kept = error.__traceback__
    handle.restore()
    assert [frame.line for frame in traceback.extract_tb(kept)][1] == "return boom(y)"
    linecache.checkcache()
    assert [frame.line for frame in traceback.extract_tb(kept)][1] == "return boom(y)"
    assert frames(module.f, 1)[1].lineno == 13


def test_getsource_gives_the_edited_function(reverted: ModuleType) -> None:
    assert inspect.getsource(reverted.f) == (
        'def f(x):\n    """Doc."""\n    y = x + 50\n    y = y * 2\n    if y < 0:\n        return None\n    return boom(y)\n'
    )
    assert "(x, 2)" in inspect.getsource(reverted.C.m)
    assert inspect.getsource(reverted.g) == "def g(x):\n    return x - 1\n"
    assert inspect.getsource(reverted.boom).startswith("def boom(y):")
    assert inspect.getsourcelines(reverted.f)[1] == 10


def test_getsource_after_restore(world: World) -> None:
    world.write({"case.py": TEXT})
    module, handle = world.revert(toggle(patch("case.f", "y = x + 1", LONGER)))
    handle.restore()
    assert inspect.getsource(module.f) == 'def f(x):\n    """Doc."""\n    y = x + 1\n    return boom(y)\n'
    assert (inspect.getsourcelines(module.f)[1], module.f.__code__.co_filename) == (10, module.__file__)


def test_pdb_lists_and_steps_the_edited_lines(reverted: ModuleType) -> None:
    out = io.StringIO()
    debugger = pdb.Pdb(
        stdin=io.StringIO("step\nnext\nnext\nnext\nlist\np y\ncontinue\n"),
        stdout=out,
        nosigint=True,
        readrc=False,
    )
    debugger.use_rawinput = False
    with pytest.raises(ValueError, match="y=102"):
        debugger.runcall(reverted.f, 1)
    shown = out.getvalue()
    assert "-> y = y * 2" in shown
    assert "y = x + 50" in shown
    assert "y = x + 1" not in shown


def test_a_breakpoint_on_a_function_that_was_not_edited_stays_at_its_line(reverted: ModuleType) -> None:
    out = io.StringIO()
    debugger = pdb.Pdb(
        stdin=io.StringIO("continue\nwhere\ncontinue\n"), stdout=out, nosigint=True, readrc=False
    )
    debugger.use_rawinput = False
    line = TEXT.splitlines().index('    raise ValueError("y=%d" % y)') + 1
    assert debugger.set_break(reverted.__file__ or "", line) is None
    with pytest.raises(ValueError, match="y=102"):
        debugger.runcall(reverted.f, 1)
    assert f"case.py({line})boom()" in out.getvalue()
    assert "return boom(y)" in out.getvalue()
    debugger.clear_all_breaks()


def test_a_breakpoint_by_name_is_in_the_edited_function_and_one_by_line_is_in_the_file(
    reverted: ModuleType,
) -> None:
    line = TEXT.splitlines().index("    y = x + 1") + 1
    commands = f"break {reverted.__file__}:{line}\nbreak reverted.f\ncontinue\ncontinue\n"
    out = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=out, nosigint=True, readrc=False)
    debugger.use_rawinput = False

    def called() -> None:
        with pytest.raises(ValueError, match="y=102"):
            reverted.f(1)

    debugger.runcall(called)
    debugger.clear_all_breaks()
    shown = out.getvalue()
    assert re.findall(r"Breakpoint \d+ at (<prtoggle |/)", shown) == ["/", "<prtoggle "]
    # Once: at the breakpoint by name.
    assert re.findall(r"> .*\((\d+)\)f\(\)\n-> (.*)", shown) == [(str(line), "y = x + 50")]


def test_a_profiler_names_the_function(reverted: ModuleType) -> None:
    profile = cProfile.Profile()
    with pytest.raises(ValueError, match="y=102"):
        profile.runcall(reverted.f, 1)
    out = io.StringIO()
    pstats.Stats(profile, stream=out).print_stats()
    assert ":10(f)" in out.getvalue()
    assert "case.f" in out.getvalue()


def test_line_events_are_those_of_the_edited_text(reverted: ModuleType) -> None:
    seen: list[str] = []

    def trace(frame: object, event: str, argument: object) -> object:
        if event == "line" and frame.f_code.co_name == "f":  # type: ignore[attr-defined]
            seen.append(linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip())  # type: ignore[attr-defined]
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        with pytest.raises(ValueError, match="y=102"):
            reverted.f(1)
    finally:
        sys.settrace(before)
    assert seen == ["y = x + 50", "y = y * 2", "if y < 0:", "return boom(y)"]


def test_coverage_of_the_file_counts_everything_but_the_edited_function(world: World, tmp_path: Path) -> None:
    """The lines of an edited function are those of no file on disk: they are not counted as the fixed ones."""
    pytest.importorskip("coverage")
    world.write({"case.py": TEXT})
    moment = "" if world.moment == AT_LOAD else "import case\n"
    (tmp_path / "run.py").write_text(
        f"import sys\nsys.path[:0] = [{str(Path(__file__).parents[3])!r}, {str(tmp_path)!r}]\nimport prtoggle\n{moment}"
        "from tests.prtoggle.cases.moments import patch, toggle\n"
        f"prtoggle.revert(toggle(patch('case.f', 'y = x + 1', {LONGER!r})))\nimport case\n"
        "try:\n    case.f(1)\nexcept ValueError:\n    pass\ncase.g(1)\n"
    )
    run = [sys.executable, "-m", "coverage", "run", "--include=*/case.py", "run.py"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    assert done.stderr == ""
    report = subprocess.run(
        [sys.executable, "-m", "coverage", "report", "-m", "--include=*/case.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    ).stdout
    missing = report.splitlines()[2].split("%")[1].strip()
    assert missing == "12-13, 22-23"


def test_source_look_ups_hold_after_linecache_was_emptied_and_a_second_toggle_came(world: World) -> None:
    world.write({"case.py": TEXT})
    module, first = world.revert(toggle(patch("case.f", "y = x + 1", LONGER)))
    linecache.clearcache()
    second = prtoggle.revert(toggle(patch("case.f", "return boom(y)", "return boom(y + 1)")))
    source = inspect.getsource(module.f)
    assert "y = y * 2" in source
    assert "return boom(y + 1)" in source
    first.restore()
    assert "y = x + 1\n    return boom(y + 1)" in inspect.getsource(module.f)
    second.restore()
    assert "y = x + 1\n    return boom(y)\n" in inspect.getsource(module.f)
