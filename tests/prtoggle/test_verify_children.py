"""Whose doing it is what processes reach that tests and fixtures start: that of one test, of several, or of none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prtoggle.verify.proof import verify_toggles
from prtoggle.verify.verdict import Verdict
from tests.prtoggle.programs import Project
from tests.prtoggle.test_verify_guards import FILES, LOWER, runner_of, toggle_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prtoggle.verify.proof import Proof

#: Processes that answer each line with what `first` gives for it, or do what their code says.
HEAD = """\
import atexit, multiprocessing, os, pytest, subprocess, sys
from bounds.core import first

SERVER = "import sys; from bounds.core import first\\nfor line in sys.stdin: print(first(int(line)), flush=True)"
PARENT = f"import os, subprocess, sys; os.read(0, 3); subprocess.run([sys.executable, '-c', {SERVER!r}])"

def start(code=SERVER):
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    atexit.register(process.kill)
    return process

def ask(process, number):
    process.stdin.write(f"{number}\\n")
    return int(process.stdout.readline())

def is_as_with_the_fix():
    return "PRTOGGLE" not in os.environ

left = []

@pytest.fixture(scope="module")
def server():
    process = start()
    yield process
    process.stdin.close()
    process.wait()

"""

GUARDS = {
    # What another test has left reached it before, does so now, or starts what does.
    "left": (
        (
            "def test_0():\n    left.append(start())\n    ask(left[0], 1)\n\n"
            "def test_a():\n    assert is_as_with_the_fix()\n"
        ),
        Verdict.UNREACHED,
        "test_left.py::test_a did not reach the reverted statement, which something else",
    ),
    "left_and_asked": (
        (
            "def test_0():\n    left.append(start())\n\n"
            "def test_a():\n    ask(left[0], 1)\n    assert is_as_with_the_fix()\n"
        ),
        Verdict.UNREACHED,
        "test_a did not reach",
    ),
    "left_and_starting": (
        (
            "def test_0():\n    left.append(start(PARENT))\n\n"
            "def test_a():\n    left[0].stdin.write('go\\n')\n    ask(left[0], 1)\n    assert is_as_with_the_fix()\n"
        ),
        Verdict.UNREACHED,
        "test_a did not reach",
    ),
    "class_that_is_over": (
        (
            "class TestOther:\n"
            "    @pytest.fixture(scope='class', autouse=True)\n"
            "    def other(self):\n        left.append(start())\n        ask(left[0], 1)\n\n"
            "    def test_b(self):\n        pass\n\n"
            "def test_a():\n    assert is_as_with_the_fix()\n"
        ),
        Verdict.UNREACHED,
        "test_a did not reach",
    ),
    # What several tests share may have told before; a test's own process tells now.
    "shared": (
        "def test_0(server):\n    ask(server, 1)\n\ndef test_a(server):\n    assert ask(server, -1) == 0\n",
        Verdict.CAUGHT,
        "test_a; the reverted statement was reached in a process that lives longer than the test",
    ),
    "shared_and_asked_first": (
        "def test_a(server):\n    assert ask(server, -1) == 0\n",
        Verdict.CAUGHT,
        "without the fix: guards/test_shared_and_asked_first.py::test_a",
    ),
    "from_a_fork_server": (
        (
            "def in_child():\n"
            "    with multiprocessing.get_context('forkserver').Pool(1) as pool:\n"
            "        return pool.apply(first, (-1,))\n\n"
            "def test_0():\n    in_child()\n\n"
            "def test_a():\n    assert in_child() == 0\n"
        ),
        Verdict.CAUGHT,
        "(1 of 2 tests): guards/test_from_a_fork_server.py::test_a",
    ),
}


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Proof]:
    project = Project(tmp_path_factory.mktemp("children") / "project")
    project.write({name: text for name, text in FILES.items() if name.startswith("bounds/")})
    (project.root / "guards").mkdir()
    for name, (tests, _, _) in GUARDS.items():
        (project.root / f"guards/test_{name}.py").write_text(HEAD + tests)
    toggles = [toggle_of(f"t-{name}", f"guards/test_{name}.py", LOWER) for name in GUARDS]
    found = verify_toggles(toggles, runner_of(project, *toggles), jobs=2)
    return {proof.id.removeprefix("t-"): proof for proof in found}


@pytest.mark.parametrize("name", GUARDS)
def test_a_process_counts_for_the_test_that_started_it_or_shares_it(
    proofs: Mapping[str, Proof], name: str
) -> None:
    _, verdict, says = GUARDS[name]
    proof = proofs[name]

    assert proof.verdict is verdict, proof.detail
    assert says in proof.detail
    assert proof.detail.endswith(("lives longer than the test", "::test_a", "in the run did"))
