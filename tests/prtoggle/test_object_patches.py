"""`value:` and `wrap:` through the public verbs: at load, live, reloaded, refused."""

from __future__ import annotations

import importlib
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import prtoggle
from tests.prtoggle.made_modules import Modules, modules

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["modules"]
_serial = itertools.count()

TARGET = """
LIMIT = 128
DOUBLE = {double}


class Pool:
    page = 16

    def pages(self, n):
        return n // self.page


def f(x):
    return x + 1


def cap(n):
    return min(n, LIMIT)
"""
PLAIN = TARGET.replace("{double}", "256")
EAGER = TARGET.replace("{double}", "LIMIT * 2")
WRAPPERS = "def plus(wrapped, instance, args, kwargs):\n    return wrapped(*args, **kwargs) + 100\n"


def toggle(*patches: dict[str, Any]) -> prtoggle.Toggle:
    return prtoggle.load(json.dumps({"id": f"o{next(_serial)}", "patches": list(patches)}))


def everything(*owners: Any) -> list[dict[str, object]]:
    return [dict(vars(owner)) for owner in owners]


def in_a_process_of_its_own(folder: Path, script: str) -> None:
    """For what cannot be put back, or must not be loaded yet."""
    environ = {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_value_at_load_is_seen_by_everything_that_runs_while_loading(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(EAGER, encoding="utf-8")
    (tmp_path / "user.py").write_text("from made import LIMIT as MOST\nHALF = MOST // 2\n", encoding="utf-8")
    made = toggle({"target": "made.LIMIT", "value": 64}, {"target": "made.Pool.page", "value": 1})
    script = f"""
import prtoggle
handle = prtoggle.revert(prtoggle.load({made.text!r}))
import made, user
def all_reverted():
    return (made.DOUBLE, made.cap(999), made.Pool().pages(8), user.MOST, user.HALF) == (128, 64, 8, 64, 32)
assert all_reverted()
try:
    handle.restore()
except prtoggle.RestoreError as error:
    assert "HALF = MOST // 2" in str(error) and "DOUBLE = LIMIT * 2" in str(error), error
else:
    raise SystemExit("half restored")
assert all_reverted()
"""
    in_a_process_of_its_own(tmp_path, script)


def test_value_that_was_there_at_load_is_put_back_for_all_who_imported_it(modules: Modules) -> None:
    name = modules.write(PLAIN)
    user = modules.write("from {0} import LIMIT as MOST\n")
    handle = prtoggle.revert(toggle({"target": f"{name}.LIMIT", "value": 64}))
    module, other = importlib.import_module(name), importlib.import_module(user)
    assert (module.cap(999), other.MOST) == (64, 64)

    handle.restore()

    assert (module.cap(999), other.MOST) == (128, 128)


def test_value_and_edits_are_one_toggle_all_or_nothing(modules: Modules) -> None:
    module = modules.load(EAGER)
    before = everything(module, module.Pool)
    code = module.f.__code__

    with pytest.raises(prtoggle.UnsupportedTargetError, match=r"DOUBLE = LIMIT \* 2"):
        prtoggle.revert(
            toggle(
                {
                    "target": f"{module.__name__}.f",
                    "edits": [{"match": "return x + 1", "replacement": "return x"}],
                },
                {"target": f"{module.__name__}.Pool.page", "value": 1},
                {"target": f"{module.__name__}.LIMIT", "value": 64},
            )
        )

    assert everything(module, module.Pool) == before
    assert module.f.__code__ is code


def test_an_edit_of_a_literal_assignment_works_on_a_loaded_module(modules: Modules) -> None:
    module = modules.load(PLAIN)
    made = toggle(
        {
            "target": f"{module.__name__}.LIMIT",
            "edits": [{"match": "LIMIT = 128", "replacement": "LIMIT = 64"}],
        },
        {
            "target": f"{module.__name__}.Pool.page",
            "edits": [{"match": "page = 16", "replacement": "page = 1"}],
        },
    )

    with prtoggle.reverted(made):
        assert (module.cap(999), module.Pool().pages(8)) == (64, 8)

    assert (module.cap(999), module.Pool().pages(32)) == (128, 2)


@pytest.mark.parametrize("moment", ["at load", "live"])
def test_wrap_takes_effect_for_importers_and_goes_without_a_trace(modules: Modules, moment: str) -> None:
    wrappers = modules.write(WRAPPERS)
    name = modules.write(PLAIN)
    user = modules.write("from {1} import f as g\n")
    if moment == "live":
        importlib.import_module(user)
    handle = prtoggle.revert(toggle({"target": f"{name}.f", "wrap": f"{wrappers}:plus"}))
    module, other = importlib.import_module(name), importlib.import_module(user)

    assert (module.f(1), other.g(1)) == (102, 102)

    handle.restore()
    assert (module.f(1), other.g(1)) == (2, 2)
    assert module.f is other.g
    assert not hasattr(module.f, "__wrapped__")


def test_wrap_is_in_effect_again_after_a_reload(modules: Modules) -> None:
    wrappers, name = modules.write(WRAPPERS), modules.write(PLAIN)
    with prtoggle.reverted(toggle({"target": f"{name}.f", "wrap": f"{wrappers}:plus"})):
        module = importlib.import_module(name)
        assert module.f(1) == 102

        importlib.reload(module)
        assert module.f(1) == 102

    assert module.f(1) == 2
    importlib.reload(module)
    assert module.f(1) == 2


def test_wrap_that_cannot_reach_every_holder_fails_every_import(modules: Modules) -> None:
    wrappers = modules.write(WRAPPERS)
    name = modules.write(PLAIN + "\n\ndef late(x, call=f):\n    return call(x)\n")
    with prtoggle.reverted(toggle({"target": f"{name}.f", "wrap": f"{wrappers}:plus"})):
        for _ in range(2):
            with pytest.raises(prtoggle.UnsupportedTargetError, match=r"default argument of .*late"):
                importlib.import_module(name)
            assert name not in sys.modules

    assert importlib.import_module(name).late(1) == 2


def test_wrap_and_edits_on_one_function_go_on_and_off_in_any_order(modules: Modules) -> None:
    wrappers, module = modules.write(WRAPPERS), modules.load(PLAIN)
    original = module.f
    wrap = toggle({"target": f"{module.__name__}.f", "wrap": f"{wrappers}:plus"})
    edit = toggle(
        {"target": f"{module.__name__}.f", "edits": [{"match": "return x + 1", "replacement": "return x"}]}
    )

    for first, second in ((wrap, edit), (edit, wrap)):
        one, two = prtoggle.revert(first), prtoggle.revert(second)
        assert module.f(1) == 101
        one.restore()
        assert module.f(1) == (1 if first is wrap else 102)
        two.restore()
        assert module.f is original
        assert module.f(1) == 2


def test_wrap_reaches_c_functions(modules: Modules) -> None:
    import bisect

    wrappers = modules.write(WRAPPERS)
    original = bisect.bisect_right

    with prtoggle.reverted(toggle({"target": "bisect.bisect_right", "wrap": f"{wrappers}:plus"})):
        assert bisect.bisect_right([1, 2], 1) == 101

    assert bisect.bisect_right is original


def test_wrap_of_a_module_without_source_that_loads_later(tmp_path: Path) -> None:
    (tmp_path / "wrappers.py").write_text(WRAPPERS, encoding="utf-8")
    made = toggle({"target": "cmath.sqrt", "wrap": "wrappers:plus"})
    script = f"""
import sys
import prtoggle
handle = prtoggle.revert(prtoggle.load({made.text!r}))
assert "cmath" not in sys.modules
from cmath import sqrt
assert sqrt(4) == 102
handle.restore()
assert sqrt(4) == 2
assert type(sqrt) is type(len)
"""
    in_a_process_of_its_own(tmp_path, script)


@pytest.mark.parametrize("line", ["from {0} import f as g", "import {0}\ng = ({0}.f,)[0]\npair = ({0}.f,)"])
def test_who_bound_the_wrapped_function_meanwhile_gets_the_original_or_what_does_the_same(
    modules: Modules, line: str
) -> None:
    module, wrappers = modules.load(PLAIN), modules.write(WRAPPERS)
    original = module.f
    with prtoggle.reverted(toggle({"target": f"{module.__name__}.f", "wrap": f"{wrappers}:plus"})):
        user = modules.load(line + "\n")
        assert user.g(1) == 102

    assert module.f is original
    assert user.g is original
    assert [held(1) for held in getattr(user, "pair", ())] in ([], [2])


def test_who_bound_the_value_meanwhile_gets_the_old_one_or_restore_is_refused(modules: Modules) -> None:
    module = modules.load(PLAIN)
    handle = prtoggle.revert(toggle({"target": f"{module.__name__}.LIMIT", "value": 64}))
    user = modules.load("from {0} import LIMIT as MOST\n")
    eager = modules.load("from {0} import LIMIT\nHALF = LIMIT // 2\n")
    assert (user.MOST, eager.HALF) == (64, 32)

    with pytest.raises(prtoggle.RestoreError, match=r"HALF = LIMIT // 2"):
        handle.restore()
    assert (module.LIMIT, user.MOST) == (64, 64)

    del sys.modules[eager.__name__]
    handle.restore()
    assert (module.LIMIT, user.MOST) == (128, 128)


def test_a_wrapper_that_is_not_there_is_found_out_before_anything_changes(modules: Modules) -> None:
    module: ModuleType = modules.load(PLAIN)
    before = everything(module)

    with pytest.raises(prtoggle.TargetModuleError, match="no_such_module"):
        prtoggle.revert(toggle({"target": f"{module.__name__}.f", "wrap": "no_such_module:plus"}))

    assert everything(module) == before
