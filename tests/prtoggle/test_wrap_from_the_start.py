"""`wrap:` in the environment: the wrapper runs once a call, whoever loads the module, and however often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.prtoggle.programs import Project

if TYPE_CHECKING:
    from pathlib import Path

WRAPPER = """\
    CALLS = []

    def counted(wrapped, instance, args, kwargs):
        CALLS.append(args)
        return wrapped(*args, **kwargs)
    """


@pytest.mark.parametrize(
    ("load", "late"),
    [
        ("import app.core as core", False),
        ("import app.core as core", True),
        ("import app.core as core; from app.core import answer; import app.core", False),
        (
            "import threading, app.core as core; t = threading.Thread(target=lambda: __import__('app.core')); t.start(); t.join()",
            True,
        ),
        ("import importlib, app.core as core; importlib.reload(core)", False),
    ],
    ids=["import", "found late", "twice", "in a thread", "reload"],
)
def test_the_wrapper_runs_once_a_call(tmp_path: Path, load: str, late: bool) -> None:
    project = Project(tmp_path / "project")
    project.write(
        {
            "counting.py": WRAPPER,
            "toggles/3.yaml": "patches: [{target: app.core.answer, wrap: 'counting:counted'}]\n",
        }
    )
    code = f"{load}\nimport counting\nprint(core.answer(), len(counting.CALLS), core.answer(), len(counting.CALLS))"

    run = project.python_that_finds_it_late if late else project.python
    done = run("-c", code, toggles="3")

    assert (done.stdout, done.stderr, done.returncode) == ("42 1 42 2\n", "", 0)
