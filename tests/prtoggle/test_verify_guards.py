"""What each guard of a toggle is worth by itself: which tests count, and what they have to have reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prtoggle.loader import load_text
from prtoggle.verify.entries import entries_of
from prtoggle.verify.guard_run import GuardRunner
from prtoggle.verify.matrix import Cell, build_matrix
from prtoggle.verify.proof import verify_toggles
from prtoggle.verify.verdict import GuardRun, Runs, TestOutcome, Verdict, judge
from tests.prtoggle.programs import Project

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from prtoggle.spec import Toggle
    from prtoggle.verify.proof import Proof

FILES = {
    "bounds/__init__.py": "",
    "bounds/core.py": """\
        SIZE = 9

        def first(n):
            n = max(n, 0)
            return n

        def second(n):
            n = min(n, SIZE)
            return n
        """,
    "bounds/limits.py": "LIMIT = 7\nLIMIT = LIMIT + 1\n",
    "guards/test_good.py": "from bounds.core import first\n\ndef test_it():\n    assert first(-1) == 0\n",
    "guards/test_second.py": "from bounds.core import second\n\ndef test_it():\n    assert second(11) == 9\n",
    "guards/test_vacuous.py": "def test_it():\n    assert True\n",
    "guards/test_some.py": """\
        from bounds.core import first

        def test_notices():
            assert first(-1) == 0

        def test_does_not():
            assert first(1) == 1

        class TestOther:
            def test_does_not_either(self):
                assert first(2) == 2
        """,
    "guards/test_elsewhere.py": """\
        import os
        from bounds.core import first

        def test_reaches():
            first(1)

        def test_fails_for_another_reason():
            assert "PRTOGGLE" not in os.environ
        """,
    "guards/test_child_elsewhere.py": """\
        import os
        import subprocess
        import sys

        def test_reaches():
            subprocess.run([sys.executable, "-c", "from bounds.core import first; first(1)"], check=True)

        def test_fails_for_another_reason():
            assert "PRTOGGLE" not in os.environ
        """,
    "guards/test_child.py": """\
        import subprocess
        import sys

        def test_it():
            code = "from bounds.core import first; print(first(-1))"
            assert subprocess.check_output([sys.executable, "-c", code]) == b"0\\n"
        """,
    "guards/test_late.py": """\
        def test_imports():
            import bounds.limits

        def test_finds_what_the_import_did():
            import bounds.limits
            assert bounds.limits.LIMIT == 8
        """,
    "guards/test_shared.py": """\
        import pytest
        from bounds.core import first

        @pytest.fixture(scope="module")
        def made():
            return first(-1)

        def test_a(request):
            first(1)
            assert request.getfixturevalue("made") < 1

        def test_b(made):
            assert made == 0
        """,
    "guards/test_needs_both.py": "from bounds.core import first\n\ndef test_it():\n    assert first(5) == 5\n",
    "guards/test_skips_with_the_fix.py": """\
        import os
        import pytest
        from bounds.core import first

        def test_passes():
            assert first(1) == 1

        @pytest.mark.skipif("PRTOGGLE" not in os.environ, reason="only without")
        def test_it():
            assert first(-1) == 0
        """,
    "guards/test_xfails.py": """\
        import pytest
        from bounds.core import first

        @pytest.mark.xfail(reason="not yet", strict=True)
        def test_it():
            assert first(-1) == 1
        """,
    "guards/test_subtests.py": """\
        from bounds.core import first

        def test_it(subtests):
            for value in (1, -1, 2):
                with subtests.test(value=value):
                    assert first(value) == abs(value) * (value > 0)
        """,
    "guards/test_marked.py": """\
        import pytest
        from bounds.core import first

        @pytest.mark.guards("several")
        @pytest.mark.parametrize("value", [1, 2])
        def test_it(value):
            assert first(value) == value
        """,
}

LOWER = "{target: bounds.core.first, edits: [{match: 'n = max(n, 0)', replacement: ''}]}"
UPPER = "{target: bounds.core.second, edits: [{match: 'n = min(n, SIZE)', replacement: ''}]}"
LATE = "{target: bounds.limits, edits: [{match: LIMIT = LIMIT + 1, replacement: ''}]}"
VALUE = "{target: bounds.core.SIZE, value: 12}"
NOTHING = "{target: bounds.core.first, edits: [{match: return n, replacement: return int(n)}]}"
MINUS = "{target: bounds.core.first, edits: [{match: return n, replacement: return n - 1}]}"

#: Id -> guards, patch, further keys.
TOGGLES = {
    "several": ("guards/test_good.py, guards/test_vacuous.py", LOWER, ""),
    "some": ("guards/test_some.py", LOWER, ""),
    "nodes": ("guards/test_some.py::test_notices, guards/test_some.py::TestOther", LOWER, ""),
    "no-node": ("guards/test_some.py::test_not", LOWER, ""),
    "elsewhere": ("guards/test_elsewhere.py", LOWER, ""),
    "child-elsewhere": ("guards/test_child_elsewhere.py", LOWER, ""),
    "child": ("guards/test_child.py", LOWER, ""),
    "late": ("guards/test_late.py", LATE, ""),
    "shared": ("guards/test_shared.py", LOWER, ""),
    "value": ("guards/test_second.py", VALUE, ""),
    "idle": ("guards/test_good.py", NOTHING, "requires: [some]"),
    "above": ("guards/test_needs_both.py", MINUS, "requires: [some]"),
    "chain": ("guards/test_second.py", UPPER, "requires: [above]"),
    "skips": ("guards/test_skips_with_the_fix.py", LOWER, ""),
    "xfails": ("guards/test_xfails.py", LOWER, ""),
    "subtests": ("guards/test_subtests.py", LOWER, ""),
    "marked": ("guards/test_marked.py", LOWER, ""),
}


def toggle_of(toggle_id: str, guards: str, patch: str, more: str = "") -> Toggle:
    text = f"id: {toggle_id}\nguards: [{guards}]\n{more}\npatches: [{patch}]\n"
    return load_text(text, f"{toggle_id}.yaml", default_id=None)


def runner_of(project: Project, *toggles: Toggle, timeout: float = 60) -> GuardRunner:
    """A runner that finds these toggles in the project's catalogue."""
    for toggle in toggles:
        (project.root / f"toggles/{toggle.id}.yaml").write_text(toggle.text, encoding="utf-8")
    catalogues = (str(project.root / "toggles"),)
    return GuardRunner(project.root, catalogues, timeout, ("-p", "no:hypothesispytest"))


@pytest.fixture(scope="module")
def proofs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Proof]:
    project = Project(tmp_path_factory.mktemp("guards") / "project")
    project.write(FILES)
    toggles = [toggle_of(toggle_id, *rest) for toggle_id, rest in TOGGLES.items()]
    found = verify_toggles(toggles, runner_of(project, *toggles), jobs=2)
    return {proof.id: proof for proof in found}


@pytest.mark.parametrize(
    ("toggle_id", "verdict", "says"),
    [
        (
            "several",
            Verdict.VACUOUS,
            "guards/test_vacuous.py: vacuous: passes in 1 of 1 runs without the fix",
        ),
        ("some", Verdict.CAUGHT, "without the fix (1 of 3 tests): guards/test_some.py::test_notices"),
        ("nodes", Verdict.VACUOUS, "guards/test_some.py::TestOther: vacuous: passes"),
        ("no-node", Verdict.NO_TESTS, "no test ran: guards/test_some.py::test_not holds none"),
        ("elsewhere", Verdict.UNREACHED, "did not reach the reverted statement, which something else"),
        ("child-elsewhere", Verdict.UNREACHED, "did not reach the reverted statement, which something else"),
        ("child", Verdict.CAUGHT, "fails in 1 of 1 runs without the fix: guards/test_child.py::test_it"),
        ("late", Verdict.CAUGHT, "was reached when its module was loaded, or the tests were collected"),
        ("shared", Verdict.CAUGHT, "was reached in a fixture that several tests share"),
        ("value", Verdict.CAUGHT, "guards/test_second.py::test_it; it is a value, and who reads that"),
        ("idle", Verdict.VACUOUS, "does not pass either with only what the toggle requires taken out"),
        ("above", Verdict.CAUGHT, "fails in 1 of 1 runs without the fix: guards/test_needs_both.py"),
        ("chain", Verdict.CAUGHT, "fails in 1 of 1 runs without the fix: guards/test_second.py"),
        ("skips", Verdict.NO_TESTS, "guards/test_skips_with_the_fix.py::test_it was skipped with the fix"),
        ("xfails", Verdict.NO_TESTS, "with the fix: no test ran, 1 expected to fail"),
        (
            "subtests",
            Verdict.CAUGHT,
            "fails in 1 of 1 runs without the fix: guards/test_subtests.py::test_it",
        ),
        ("marked", Verdict.VACUOUS, "passes in 1 of 1 runs without the fix"),
    ],
)
def test_each_guard_is_judged_by_its_own_tests(
    proofs: Mapping[str, Proof], toggle_id: str, verdict: Verdict, says: str
) -> None:
    proof = proofs[toggle_id]

    assert proof.verdict is verdict, proof.detail
    assert says in proof.detail


def test_only_the_guilty_guard_is_named_and_all_of_them_share_two_processes(
    proofs: Mapping[str, Proof],
) -> None:
    proof = proofs["several"]

    assert [guard.guard for guard in proof.guilty] == ["guards/test_vacuous.py"]
    assert "test_good" not in proof.detail
    assert (proof.passes_with_fix, proof.fails_without_fix, proof.rounds) == (1, 0, 1)
    assert (len(proof.fixed), len(proof.reverted), len(proof.required)) == (1, 1, 0)
    assert len(proofs["idle"].required) == 1


def test_a_guard_is_the_same_however_its_path_is_written(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/x.py").touch()
    (tmp_path / "link.py").symlink_to("tests/x.py")
    written = ["tests/x.py", "./tests/x.py", "tests//x.py", "tests/../tests/x.py", f"{tmp_path}/tests/x.py"]

    (entry,) = entries_of(written, tmp_path)
    (node,) = entries_of(["./tests/x.py::TestA::test_b"], tmp_path)
    (link,) = entries_of(["link.py"], tmp_path)

    assert (entry.name(tmp_path), node.name(tmp_path)) == ("tests/x.py", "tests/x.py::TestA::test_b")
    file = tmp_path / "tests/x.py"
    assert entry.holds(file, "test_a[1]")
    assert link.holds(file, "test_a[1]")
    assert node.holds(file, "TestA::test_b[a::b]")
    assert not node.holds(file, "TestA::test_bc")
    assert not node.holds(file, "TestA::test_c")
    assert not entry.holds(tmp_path / "tests/y.py", "test_a")
    assert node.overlaps(file, "TestA")
    assert not node.overlaps(file, "TestB")


BY_NAME = {"p": "passed", "f": "failed", "s": "skipped", "e": "error"}


def run_of(kinds: str, *, reached: bool = True) -> GuardRun:
    """A run whose tests a, b, ... ended as the letters say; those that failed reached the toggle `t`."""
    seen = (("t", "in the test"),) if reached else ()
    tests = tuple(
        TestOutcome(f"x.py::{name}", BY_NAME[kind], "", seen if kind == "f" else ())
        for name, kind in zip("abc", kinds, strict=False)
    )
    return GuardRun((), 1, tests, 0.0, frozenset({"t"}))


@pytest.mark.parametrize(
    ("fixed", "reverted", "verdict", "says"),
    [
        ("p p p", "f f f", Verdict.CAUGHT, "fails in 3 of 3 runs"),
        ("p p p", "f p f", Verdict.FLAKY, "fails in 2 of 3 runs"),
        ("p p p", "f s f", Verdict.FLAKY, "fails in 2 of 3 runs"),
        ("p p p", "p s p", Verdict.VACUOUS, "passes in 2 of 3 runs"),
        ("p p p", "s s s", Verdict.NO_TESTS, "without it: no test ran, 1 skipped"),
        ("p s p", "f f f", Verdict.FLAKY, "with the fix: passes in 2 of 3 runs"),
        ("p f p", "f f f", Verdict.BROKEN, "fails in 1 of 3 runs with the fix"),
        ("p p p", "f e f", Verdict.ERROR, "without it: x.py::a"),
        ("pp pp", "fp pf", Verdict.FLAKY, "no test of it fails in all of them"),
        ("pp pp", "ff pf", Verdict.CAUGHT, "fails in 2 of 2 runs without the fix (1 of 2 tests): x.py::b"),
        ("ps pp", "pf pf", Verdict.NO_TESTS, "x.py::b was skipped with the fix"),
    ],
)
def test_several_runs_are_counted_and_one_that_does_not_fail_is_never_caught(
    fixed: str, reverted: str, verdict: Verdict, says: str
) -> None:
    runs = Runs("x.py", tuple(map(run_of, fixed.split())), tuple(map(run_of, reverted.split())))

    found, detail = judge("t", runs)

    assert found is verdict, detail
    assert says in detail


def test_a_test_that_reached_nothing_in_one_of_its_runs_is_not_counted() -> None:
    runs = Runs("x.py", (run_of("p"),) * 2, (run_of("f"), run_of("f", reached=False)))

    assert judge("t", runs)[0] is Verdict.UNREACHED


@pytest.mark.parametrize("required", ["f", "s"])
def test_what_does_not_pass_with_the_required_toggles_alone_says_nothing(required: str) -> None:
    runs = Runs("x.py", (run_of("pp"),), (run_of("ff"),), (run_of(f"p{required}"),))
    alone = Runs("x.py", (run_of("pp"),), (run_of("pf"),), (run_of(f"p{required}"),))

    assert judge("t", runs)[1] == "fails in 1 of 1 runs without the fix (1 of 2 tests): x.py::a"
    assert judge("t", alone)[0] is Verdict.VACUOUS


def test_a_guard_that_cannot_be_run_is_an_error_of_its_own_cells_only(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.write(
        {
            **{name: text for name, text in FILES.items() if name.startswith("bounds/")},
            "guards/test_good.py": FILES["guards/test_good.py"],
            "guards/test_second.py": FILES["guards/test_second.py"],
            "guards/test_missing.py": "import no_such_module_at_all\n\ndef test_it():\n    pass\n",
            "guards/test_ends.py": """\
                import os
                from bounds.core import first

                def test_it():
                    if first(-1) != 0:
                        os._exit(0)
                """,
        }
    )
    toggles = [
        toggle_of("missing", "guards/test_missing.py", UPPER),
        toggle_of("ends", "guards/test_ends.py", UPPER),
        toggle_of("low", "./guards//test_good.py", LOWER, "masks: [ends]"),
        toggle_of("high", "guards/test_second.py", UPPER, "masks: [missing]"),
    ]

    matrix = build_matrix(toggles, runner_of(project, *toggles), jobs=2)

    rows = {row: " ".join(matrix.cells[row, column] for column in matrix.ids) for row in matrix.ids}
    assert rows == {
        "missing": "error quiet quiet finding",
        "ends": "error missed quiet finding",
        "low": "error error caught quiet",
        "high": "error quiet quiet caught",
    }
    assert "no_such_module_at_all" in matrix.trouble["low", "missing"]
    assert matrix.trouble["low", "ends"] == (
        "the process ended with status 0, while guards/test_ends.py::test_it ran"
    )
    assert ("low", "low") not in matrix.trouble
    assert matrix.cells["low", "low"] is Cell.CAUGHT
