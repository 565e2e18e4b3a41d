"""The at-load path: the import system gives edited code, from every way in, for the wanted module only."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import inspect
import linecache
import os
import py_compile
import subprocess
import sys
import threading
import traceback
import warnings
from pathlib import Path

import pytest

import prtoggle
from prtoggle import engine
from tests.prtoggle.made_modules import GROW, TEXT, Modules, modules, path
from tests.prtoggle.toggle_making import make_patch, make_toggle, toggle_of

__all__ = ["modules", "path"]


def test_arming_imports_nothing_and_verifies_at_once(modules: Modules) -> None:
    name = modules.write("import sys\nsys.made_was_loaded = True\n" + TEXT)
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        (state,) = prtoggle.active()
        assert (state.state, state.patches[0].module) == ("armed", name)
    with pytest.raises(prtoggle.MatchError, match=r"\.f"):
        prtoggle.revert(make_toggle(f"{name}.f", ("b = a + 7", "b = 0")))

    assert name not in sys.modules
    assert not hasattr(sys, "made_was_loaded")


def test_a_toggle_that_was_restored_before_the_load_leaves_the_module_alone(modules: Modules) -> None:
    name = modules.write(TEXT)
    prtoggle.revert(make_toggle(f"{name}.f", GROW)).restore()
    module = importlib.import_module(name)

    assert module.f(0) == 1
    assert module.f.__code__.co_filename == module.__file__


def test_calls_during_the_load_run_the_edit(modules: Modules) -> None:
    name = modules.write(TEXT)
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        assert importlib.import_module(name).START == 12


def test_lines_outside_of_the_edited_function_are_those_of_the_file(modules: Modules) -> None:
    name = modules.write(TEXT)
    with prtoggle.reverted(
        make_toggle(f"{name}.f", GROW), make_toggle(f"{name}.C.size", ("size = 4", "size = (\n5\n)"))
    ):
        module = importlib.import_module(name)
        lines = {}
        for function in (module.before, module.after):
            try:
                function()
            except ValueError:
                frame = traceback.extract_tb(sys.exc_info()[2])[-1]
                lines[function.__name__] = (frame.filename, frame.lineno, frame.line)

        assert lines == {
            "before": (module.__file__, 6, 'raise ValueError("before")'),
            "after": (module.__file__, 23, 'raise ValueError("after")'),
        }
        assert module.C.m.__code__.co_firstlineno == 18
        assert inspect.getsource(module.after) == 'def after():\n    raise ValueError("after")\n'
        assert inspect.getsource(module.f).count("b += 1") == 2
        assert module.f.__code__.co_firstlineno == 9


def test_the_loader_stays_the_original_one(modules: Modules) -> None:
    name = modules.write(TEXT)
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        module = importlib.import_module(name)
        assert module.__spec__ is not None
        assert type(module.__loader__) is type(module.__spec__.loader) is importlib.machinery.SourceFileLoader
        assert set(vars(module.__loader__)) == {"name", "path"}


def test_no_bytecode_of_edited_code_is_written_and_no_stale_one_is_used(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    name = modules.write(TEXT)
    source = importlib.util.find_spec(name)
    assert source is not None
    assert source.origin is not None
    cached = Path(py_compile.compile(source.origin) or "")
    written = cached.stat().st_mtime_ns
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        assert importlib.import_module(name).f(0) == 12
    assert cached.stat().st_mtime_ns == written
    cached.unlink()
    del sys.modules[name]
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        importlib.import_module(name)
    assert not cached.exists()
    del sys.modules[name]
    assert importlib.import_module(name).f(0) == 1


def test_a_reload_is_edited_while_the_toggle_is_on(modules: Modules) -> None:
    module = modules.load(TEXT)
    old = module.f
    with prtoggle.reverted(make_toggle(f"{module.__name__}.f", GROW)):
        assert module.f(0) == 12
        importlib.reload(module)
        assert module.f is not old
        assert (module.f(0), old(0), module.START) == (12, 12, 12)
    assert (module.f(0), old(0)) == (1, 1)
    importlib.reload(module)
    assert (module.f(0), module.START) == (1, 1)


def test_a_module_that_is_made_from_its_file_by_hand_is_edited(modules: Modules) -> None:
    name = modules.write(TEXT)
    found = importlib.util.find_spec(name)
    assert found is not None
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)) as handle:
        spec = importlib.util.spec_from_file_location("another_name", found.origin or "")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.f(0) == 12
        handle.restore()
        assert module.f(0) == 1


def test_early_bound_names_of_other_modules_follow(modules: Modules) -> None:
    name = modules.write(TEXT)
    user = modules.write("from {0} import f, LIMIT\nTABLE = {'f': f}\n")
    toggle = make_toggle(f"{name}.f", GROW)
    with prtoggle.reverted(toggle):
        module = importlib.import_module(user)
        assert module.TABLE["f"](0) == 12
    assert module.TABLE["f"](0) == 1


def test_an_edit_that_stopped_matching_fails_at_every_import(modules: Modules) -> None:
    name = modules.write(TEXT)
    spec = importlib.util.find_spec(name)
    assert spec is not None
    failures: list[str] = []
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        Path(spec.origin or "").write_text(TEXT.replace("b = a + 1", "b = a + 2"))

        def swallow() -> None:
            for _ in range(2):
                try:
                    importlib.import_module(name)
                except prtoggle.MatchError as error:
                    failures.append(str(error))

        swallow()
        thread = threading.Thread(target=swallow)
        thread.start()
        thread.join()
        (state,) = prtoggle.active()
        assert state.state == "failed"
        assert "b = a + 2" in state.patches[0].note
    assert len(failures) == 4
    assert name not in sys.modules
    assert importlib.import_module(name).f(0) == 2


def test_the_failure_hook_sees_the_error_before_the_importer(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = modules.write(TEXT)
    spec = importlib.util.find_spec(name)
    assert spec is not None
    seen: list[Exception] = []
    monkeypatch.setattr(engine, "on_load_failure", seen.append)
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        Path(spec.origin or "").write_text("x = 1\n")
        with pytest.raises(prtoggle.TargetError) as caught:
            importlib.import_module(name)
    assert seen == [caught.value]


def test_a_module_with_an_error_of_its_own_shows_that_error(modules: Modules) -> None:
    name = modules.write(TEXT + "\nimport os\nos.no_such_name_here\n")
    with (
        prtoggle.reverted(make_toggle(f"{name}.f", GROW)),
        pytest.raises(AttributeError, match="no_such_name_here"),
    ):
        importlib.import_module(name)


def test_a_missing_dependency_of_the_target_is_told_when_it_is_armed(modules: Modules) -> None:
    name = modules.write("import os, no_such_dependency\n" + TEXT)
    with pytest.raises(prtoggle.TargetModuleError, match="imports no_such_dependency"):
        prtoggle.revert(make_toggle(f"{name}.f", GROW))
    optional = modules.write("try:\n    import no_such_dependency\nexcept ImportError:\n    pass\n" + TEXT)
    with prtoggle.reverted(make_toggle(f"{optional}.f", GROW)):
        assert importlib.import_module(optional).f(0) == 12


def test_a_definition_that_is_replaced_while_the_module_runs_is_a_failure(modules: Modules) -> None:
    replaced = modules.write(TEXT + "\nfrom math import floor as f\n")
    with (
        prtoggle.reverted(make_toggle(f"{replaced}.f", GROW)),
        pytest.raises(prtoggle.TargetError, match="something else"),
    ):
        importlib.import_module(replaced)
    assert replaced not in sys.modules
    decorated = modules.write(
        "import functools\n@functools.lru_cache\ndef f(x):\n    return x\nfrom math import floor as f\n"
    )
    with (
        prtoggle.reverted(make_toggle(f"{decorated}.f", ("return x", "return -x"))),
        pytest.raises(prtoggle.TargetError, match="something else"),
    ):
        importlib.import_module(decorated)


def test_a_branch_that_does_not_run_is_a_failure(modules: Modules) -> None:
    text = "if {}:\n    def f():\n        return 1\nelse:\n    def f():\n        return 2\n"
    taken, other = modules.write(text.replace("{}", "True")), modules.write(text.replace("{}", "False"))
    with prtoggle.reverted(make_toggle(f"{taken}.f", ("return 1", "return 7"))):
        assert importlib.import_module(taken).f() == 7
    with (
        prtoggle.reverted(make_toggle(f"{other}.f", ("return 1", "return 7"))),
        pytest.raises(prtoggle.TargetError, match=r"edited at line 2"),
    ):
        importlib.import_module(other)


def test_other_modules_and_their_bytecode_are_not_disturbed(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    name, other = modules.write(TEXT), modules.write(TEXT)
    with prtoggle.reverted(make_toggle(f"{name}.f", GROW)):
        module = importlib.import_module(other)
        assert module.f(0) == 1
        assert Path(importlib.util.cache_from_source(module.__file__ or "")).exists()


PROGRAM = """
import sys, {name}
print({name}.f(0), {name}.__spec__.name, type(sys.modules["__main__"].__spec__.loader).__name__)
if __name__ == "__main__":
    print("main", f(0), vars(sys.modules["__main__"].__loader__).keys())
"""


def test_python_m_runs_the_edited_main_module_and_its_other_copy(path: Path) -> None:
    (path / "made_program.py").write_text(TEXT + PROGRAM.format(name="made_program"))
    start = (
        f"import sys, runpy; sys.path[:0] = [{str(Path(__file__).parents[2])!r}, '.']; import prtoggle; "
        "from tests.prtoggle.toggle_making import make_toggle; "
        f"prtoggle.revert(make_toggle('made_program.f', {GROW!r})); "
        "runpy.run_module('made_program', run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", start], cwd=path, capture_output=True, text=True, check=False, timeout=60
    )

    assert done.stderr == ""
    assert "main 12 dict_keys(['name', 'path'])" in done.stdout
    assert "12 made_program SourceFileLoader" in done.stdout


def test_a_target_in_the_script_itself_is_edited_live(path: Path) -> None:
    script = path / "made_script.py"
    script.write_text(
        TEXT
        + f"""
sys.path[:0] = [{str(Path(__file__).parents[2])!r}]
import prtoggle
from tests.prtoggle.toggle_making import make_toggle
for target in ("__main__.f", "made_script.f"):
    handle = prtoggle.revert(make_toggle(target, {GROW!r}))
    print("MAIN", f(0), end=" ")
    handle.restore()
    print(f(0), "made_script" in sys.modules)
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=path, capture_output=True, text=True, check=False, timeout=60
    )

    assert done.stderr == ""
    assert done.stdout == "MAIN 12 1 False\nMAIN 12 1 False\n"


def test_a_forked_child_inherits_and_can_restore(modules: Modules) -> None:
    name = modules.write(TEXT)
    handle = prtoggle.revert(make_toggle(f"{name}.f", GROW))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            module = importlib.import_module(name)
            values = [module.f(0)]
            handle.restore()
            os.write(writer, repr([*values, module.f(0)]).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"[12, 1]"
    handle.restore()


def test_a_virtual_file_lives_as_long_as_its_code(modules: Modules) -> None:
    module = modules.load(TEXT)
    toggle = make_toggle(f"{module.__name__}.f", GROW)
    with prtoggle.reverted(toggle):
        file = module.f.__code__.co_filename
        assert linecache.getline(file, 11) == "    b = a + 10\n"
        linecache.clearcache()
    with prtoggle.reverted(toggle):
        assert linecache.getline(module.f.__code__.co_filename, 11) == "    b = a + 10\n"


def test_patches_of_one_toggle_in_several_modules_arrive_one_by_one(modules: Modules) -> None:
    first, second = modules.write(TEXT), modules.write(TEXT)
    toggle = toggle_of(make_patch(f"{first}.f", GROW), make_patch(f"{second}.f", GROW))
    with prtoggle.reverted(toggle):
        importlib.import_module(first)
        assert [patch.state for patch in prtoggle.active()[0].patches] == ["active", "armed"]
        assert prtoggle.active()[0].state == "armed"
        importlib.import_module(second)
        assert prtoggle.active()[0].state == "active"
    assert (sys.modules[first].f(0), sys.modules[second].f(0)) == (1, 1)


NOISY = 'def f(x):\n    a = "\\d" is x\n    b = 1\n    return b\n'


@pytest.mark.filterwarnings("error")
def test_the_compiler_does_not_warn_again_of_what_it_warned_of(modules: Modules) -> None:
    name = modules.write(NOISY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module(name)
    toggle = make_toggle(f"{name}.f", ("b = 1", "b = 2"))
    with prtoggle.reverted(toggle):
        assert module.f(1) == 2
    assert module.f(1) == 1
    later = modules.write(NOISY)
    with prtoggle.reverted(make_toggle(f"{later}.f", ("b = 1", "b = 2"))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(later)
        assert module.f(1) == 2
    assert module.f(1) == 1
