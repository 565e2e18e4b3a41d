"""`prtoggle verify` on a project whose guards are good, vacuous, broken, empty, erring, masked and too wide."""

from __future__ import annotations

import dataclasses
import json
import textwrap
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from prtoggle.loader import load_text
from prtoggle.verify.fingerprint import fingerprint
from prtoggle.verify.guard_run import GuardRunner
from prtoggle.verify.junit_report import junit_text
from prtoggle.verify.matrix import Cell, build_matrix
from prtoggle.verify.proof import verify_toggles
from prtoggle.verify.verdict import Verdict
from tests.prtoggle.programs import Project

if TYPE_CHECKING:
    from pathlib import Path

    from prtoggle.spec import Toggle

PACKAGE = {
    "app2/__init__.py": "",
    "app2/core.py": """
    def first(n):
        n = max(n, 0)
        return n


    def second(n):
        n = min(n, 9)
        return n


    def both(n):
        return second(first(n))
    """,
    "guards/test_good.py": "from app2.core import first\n\ndef test_it():\n    assert first(-1) == 0\n",
    "guards/test_second.py": "from app2.core import second\n\ndef test_it():\n    assert second(11) == 9\n",
    "guards/test_vacuous.py": "def test_it():\n    assert True\n",
    "guards/test_reaches_but_vacuous.py": "from app2.core import first\n\ndef test_it():\n    assert first(1) == 1\n",
    "guards/test_broken.py": "from app2.core import first\n\ndef test_it():\n    assert first(1) == 2\n",
    "guards/test_empty.py": "def helper():\n    pass\n",
    "guards/test_skips.py": "import pytest\n\ndef test_it():\n    pytest.skip('not here')\n",
    "guards/test_errs.py": "import no_such_module_at_all\n\ndef test_it():\n    pass\n",
    "guards/test_fixture_errs.py": "import pytest\n\n@pytest.fixture\ndef boom():\n    raise OSError('no disk')\n\n"
    "def test_it(boom):\n    pass\n",
    "guards/test_other_reason.py": "import os\n\ndef test_it():\n    assert 'PRTOGGLE' not in os.environ\n",
    "guards/test_exits.py": """
    import pytest

    from app2.core import first

    def test_good():
        assert first(-1) == 0

    def test_it():
        pytest.exit("enough", returncode=0)
    """,
    "guards/test_noisy.py": "def test_it():\n    raise RuntimeError('\\x1b[31m\\x07 \\ufffe')\n",
    "guards/test_dies.py": "import os\n\ndef test_it():\n    os.kill(os.getpid(), 9)\n",
    "suite/test_both.py": "from app2.core import both\n\ndef test_it():\n    assert both(-1) == 0\n",
    "elsewhere.py": """
    import unittest

    class Case(unittest.TestCase):
        def runTest(self):
            from app2.core import first
            assert first(-1) == 0
    """,
    "suite/test_inherits.py": "from elsewhere import Case\n\nclass TestMine(Case):\n    pass\n",
    "suite/test_late.py": """
    import pathlib

    def test_it():
        turn = pathlib.Path("turns")
        turn.write_text(turn.read_text() + "x" if turn.exists() else "x")
        assert turn.read_text() == "x"
    """,
    "suite/test_upper.py": "from app2.core import second\n\ndef test_it():\n    assert second(11) == 9\n",
    "suite/test_sick.py": "def test_it():\n    assert False\n",
    "guards/test_sometimes.py": """
    import os
    import pathlib

    from app2.core import first

    def test_it():
        seen = pathlib.Path("seen")
        turn = int(seen.read_text()) if seen.exists() else 0
        if "PRTOGGLE" in os.environ:
            seen.write_text(str(turn + 1))
        assert first(-1) == 0 or turn % 2
    """,
}


def spec(toggle_id: str, guard: str | None, *, edits: str = "", more: str = "") -> str:
    """A spec that takes the lower bound out of `first`, or does `edits`."""
    guards = f"guards: [{guard}]" if guard else ""
    lower = """
  - target: app2.core.first
    edits:
      - match: n = max(n, 0)
        replacement: ""
"""
    return f"id: {toggle_id}\ntitle: bounds\n{guards}\n{more}\npatches:{edits or lower}"


UPPER = """
  - target: app2.core.second
    edits:
      - match: n = min(n, 9)
        replacement: ""
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project")
    project.write({name: textwrap.dedent(text).lstrip("\n") for name, text in PACKAGE.items()})
    return project


def runner_of(project: Project, *toggles: Toggle, timeout: float = 60) -> GuardRunner:
    """Put the specs into a catalogue folder of the project, and make a runner over it."""
    folder = project.root / "more_toggles"
    folder.mkdir(exist_ok=True)
    for toggle in toggles:
        (folder / f"{toggle.id}.yaml").write_text(toggle.text, encoding="utf-8")
    return GuardRunner(project.root, (str(folder),), timeout, ("-p", "no:hypothesispytest"))


def make(toggle_id: str, guard: str | None, **options: str) -> Toggle:
    return load_text(spec(toggle_id, guard, **options), f"{toggle_id}.yaml", default_id=None)


@pytest.mark.parametrize(
    ("guard", "verdict", "says"),
    [
        ("guards/test_good.py", Verdict.CAUGHT, "fails in 1 of 1 runs without the fix"),
        ("guards/test_vacuous.py", Verdict.VACUOUS, "the reverted statement was never reached"),
        ("guards/test_reaches_but_vacuous.py", Verdict.VACUOUS, "passes in 1 of 1 runs without the fix"),
        ("guards/test_broken.py", Verdict.BROKEN, "fails in 1 of 1 runs with the fix"),
        ("guards/test_empty.py", Verdict.NO_TESTS, "with the fix: no test ran"),
        ("guards/test_skips.py", Verdict.NO_TESTS, "1 skipped"),
        ("guards/test_errs.py", Verdict.ERROR, "no_such_module_at_all"),
        ("guards/test_fixture_errs.py", Verdict.ERROR, "no disk"),
        ("guards/test_nowhere.py", Verdict.ERROR, "is the guard's path right?"),
        ("guards/test_other_reason.py", Verdict.UNREACHED, "the reverted statement was never reached"),
        ("guards/test_dies.py", Verdict.ERROR, "ended by signal 9"),
        ("guards/test_exits.py", Verdict.ERROR, "pytest.exit ended the session"),
        (None, Verdict.NO_TESTS, "the spec names no guards"),
    ],
)
def test_the_verdict_tells_what_the_guard_is_worth(
    project: Project, guard: str | None, verdict: Verdict, says: str
) -> None:
    toggle = make("low", guard)

    (proof,) = verify_toggles([toggle], runner_of(project, toggle), jobs=2)

    assert proof.verdict is verdict, proof.detail
    assert says in proof.detail


def test_what_a_guard_prints_is_no_obstacle_to_the_junit_file(project: Project) -> None:
    toggle = make("low", "guards/test_noisy.py")
    proofs = verify_toggles([toggle], runner_of(project, toggle))
    (guard,) = proofs[0].judged
    loud = [
        dataclasses.replace(proofs[0], judged=(dataclasses.replace(guard, detail="\x1b[31m\x07 \ufffe red"),))
    ]

    (case,) = ET.fromstring(junit_text(loud)).iter("testcase")

    (failure,) = case
    assert failure.get("message") == "broken: [31m  red"
    assert "RuntimeError" in (failure.text or "")


def test_a_guard_that_notices_every_other_time_is_flaky(project: Project) -> None:
    toggle = make("low", "guards/test_sometimes.py")

    (proof,) = verify_toggles([toggle], runner_of(project, toggle), repeat=4)

    assert proof.verdict is Verdict.FLAKY
    assert (proof.passes_with_fix, proof.fails_without_fix, len(proof.reverted)) == (4, 2, 4)
    assert "fails in 2 of 4 runs" in proof.detail


def test_a_toggle_that_does_not_apply_is_an_error_that_says_why(project: Project) -> None:
    edits = (
        "\n  - target: app2.core.first\n    edits:\n      - match: n = max(n, 1)\n        replacement: ''\n"
    )
    toggle = make("stale", "guards/test_good.py", edits=edits)

    (proof,) = verify_toggles([toggle], runner_of(project, toggle))

    assert proof.verdict is Verdict.ERROR
    assert "stale" in proof.detail


def test_the_matrix_tells_what_a_toggle_breaks_beside_its_own_guard(project: Project) -> None:
    low = make("low", "guards/test_good.py")
    wide = make("wide", "guards/test_second.py", edits=UPPER + spec("x", None).split("patches:")[1])
    declared = make(
        "declared",
        "guards/test_second.py",
        edits=UPPER + spec("x", None).split("patches:")[1],
        more="masks: [low, wide]",
    )
    idle = make("idle", "guards/test_vacuous.py", more="masks: [wide]")
    toggles = [low, wide, declared, idle]

    matrix = build_matrix(toggles, runner_of(project, *toggles), jobs=2)

    assert matrix.cells["low", "low"] is Cell.CAUGHT
    assert matrix.cells["low", "wide"] is Cell.QUIET
    assert matrix.cells["wide", "low"] is Cell.FINDING
    assert matrix.cells["declared", "low"] is Cell.MASKED
    assert matrix.cells["idle", "idle"] is Cell.MISSED
    assert ("wide", "low", Cell.FINDING) in matrix.findings
    assert ("idle", "wide") in matrix.stale_masks


@pytest.mark.parametrize("broken", ["guards/test_broken.py", "guards/test_skips.py", "guards/test_errs.py"])
def test_a_guard_that_does_not_pass_with_the_fix_catches_nothing(project: Project, broken: str) -> None:
    """Such a guard is red in every row; declared as masked, or on its own diagonal, that explained nothing."""
    good = make("good", "guards/test_good.py", more="masks: [bad]")
    bad = make("bad", broken, more="masks: [good]")

    matrix = build_matrix([good, bad], runner_of(project, good, bad))

    assert matrix.cells["good", "good"] is Cell.CAUGHT
    assert [matrix.cells[row, "bad"] for row in ("good", "bad")] == [Cell.ERROR, Cell.ERROR]
    assert all(matrix.trouble[row, "bad"].startswith("with the fix: ") for row in ("good", "bad"))
    assert {column for _, column, _ in matrix.findings} == {"bad"}


def test_what_a_wrapper_does_belongs_to_the_proof(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(project.root)
    (project.root / "shop_rev.py").write_text("def old(wrapped, instance, args, kwargs):\n    return 0\n")
    toggle = load_text(
        "patches:\n  - target: app2.core.first\n    wrap: shop_rev:old\n", "w.yaml", default_id="w"
    )
    before = fingerprint([toggle], project.root)
    (project.root / "shop_rev.py").write_text("def old(wrapped, instance, args, kwargs):\n    return 1\n")

    assert fingerprint([toggle], project.root) != before


def test_the_command_reports_in_every_format_and_exits_1_for_a_finding(project: Project) -> None:
    folder = project.root / "more_toggles"
    folder.mkdir()
    (folder / "low.yaml").write_text(spec("low", "guards/test_good.py"), encoding="utf-8")
    (folder / "vain.yaml").write_text(spec("vain", "guards/test_vacuous.py"), encoding="utf-8")

    done = project.python(
        *("-m", "prtoggle", "verify", "low", "vain", "--github", "-j", "2"),
        *("--json", "out.json", "--junit", "out.xml", "--html", "out.html"),
        variables={"PRTOGGLE_PATH": str(folder)},
    )

    assert done.returncode == 1, done.stderr
    assert "1 of 2 caught" in done.stdout
    assert "::error file=guards/test_vacuous.py,title=prtoggle vain%3A vacuous::passes in" in done.stdout
    results = json.loads((project.root / "out.json").read_text())
    assert results["version"] == 1
    assert {entry["id"]: entry["verdict"] for entry in results["results"]} == {
        "low": "caught",
        "vain": "vacuous",
    }
    assert 'tests="2" failures="1" errors="0"' in (project.root / "out.xml").read_text()
    page = (project.root / "out.html").read_text()
    assert "1 of 2 caught" in page
    assert "http" not in page.replace("http-equiv", "")


def test_the_page_names_the_other_tests_that_notice_and_those_that_were_asked(project: Project) -> None:
    folder = project.root / "more_toggles"
    folder.mkdir()
    (folder / "low.yaml").write_text(spec("low", "guards/test_good.py"), encoding="utf-8")
    names = ["both", "inherits", "upper", "sick", "late"]
    asked = [*(f"suite/test_{name}.py" for name in names), "guards/test_good.py"]

    done = project.python(
        *("-m", "prtoggle", "verify", "low", "--matrix", "--json", "out.json", "--catalogue", "page.md"),
        *(word for tests in asked for word in ("--also", tests)),
        variables={"PRTOGGLE_PATH": str(folder)},
    )

    assert done.returncode == 0, done.stderr
    results = json.loads((project.root / "out.json").read_text())
    assert results["also_caught"] == {"low": ["suite/test_both.py", "suite/test_inherits.py"]}
    assert results["also_asked"] == asked
    page = (project.root / "page.md").read_text()
    assert "| `guards/test_good.py` | `suite/test_both.py`, `suite/test_inherits.py` |" in page
    assert (
        "* `suite`: `test_both.py`, `test_inherits.py`, `test_upper.py`, `test_sick.py`, `test_late.py`"
        in page
    )


def test_tests_that_end_the_process_are_not_asked_who_notices(project: Project) -> None:
    folder = project.root / "more_toggles"
    folder.mkdir()
    (folder / "low.yaml").write_text(spec("low", "guards/test_good.py"), encoding="utf-8")

    done = project.python(
        *("-m", "prtoggle", "verify", "low", "--matrix", "--json", "out.json"),
        *("--also", "suite/test_both.py", "--also", "guards/test_dies.py"),
        variables={"PRTOGGLE_PATH": str(folder)},
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "guards/test_dies.py cannot be asked who else notices" in done.stderr
    assert "ended by signal 9 (SIGKILL), while guards/test_dies.py::test_it ran" in done.stderr
    assert not (project.root / "out.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [("--also", "tests"), ("--catalogue", "x.md"), ("--matrix", "--junit", "x.xml"), ("nowhere",)],
)
def test_wrong_use_is_status_2_and_runs_nothing(project: Project, arguments: tuple[str, ...]) -> None:
    before = sorted(path.name for path in project.root.iterdir())

    done = project.python("-m", "prtoggle", "verify", *arguments)

    assert done.returncode == 2
    assert sorted(path.name for path in project.root.iterdir()) == before
