"""The marker `guards` and `verify` give one answer for one guard, whatever pytest makes of its body."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prtoggle.verify.proof import verify_toggles
from prtoggle.verify.verdict import Verdict
from tests.prtoggle.programs import Project
from tests.prtoggle.test_verify_guards import FILES, LOWER, NOTHING, VALUE, runner_of, toggle_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HEAD = "import os\nimport pytest\nfrom bounds.core import first, second\n\npytestmark = pytest.mark.guards('{}')\n\n"

#: Guard -> its body, what its second run comes to, and its verdict.
GUARDS = {
    "notices": ("    assert first(-1) == 0", "passed", Verdict.CAUGHT),
    "vacuous": ("    assert first(1) == 1", "failed", Verdict.VACUOUS),
    "unreached": ("    assert second(1) and not reverted", "failed", Verdict.UNREACHED),
    "skips": ("    if first(-1) != 0:\n        pytest.skip('no')", "skipped", Verdict.NO_TESTS),
    "xfail": ("    if first(-1) != 0:\n        pytest.xfail('no')", "xfailed", Verdict.NO_TESTS),
    "exits": ("    if first(-1) != 0:\n        raise SystemExit(3)", "passed", Verdict.CAUGHT),
    "subtests": (
        "    for n in (1, -1):\n        with subtests.test(n=n):\n            assert first(n) >= 0",
        "passed",
        Verdict.CAUGHT,
    ),
    "vacuous_subtests": (
        "    for n in (1, 2):\n        with subtests.test(n=n):\n            assert first(n) == n",
        "failed",
        Verdict.VACUOUS,
    ),
    "skipped_subtests": (
        "    with subtests.test():\n        pytest.skip('no')\n    assert first(1) == 1",
        "failed",
        Verdict.VACUOUS,
    ),
    "torn_down_badly": ("    bad_end.append(first(-1))\n    assert first(-1) == 0", "passed", Verdict.CAUGHT),
}
#: Those that are expected to fail, at all or with the fix.
XFAILS = {
    "fails_anyhow": ("    assert first(-1) == 1", "xfailed", Verdict.NO_TESTS),
    "passes_anyhow": ("    assert first(1) == 1", "failed", Verdict.VACUOUS),
    "the_wrong_way": ("    assert first(-1) == -1", "failed", Verdict.NO_TESTS),
}
FIXTURES = """\
    import os
    import pytest

    @pytest.fixture
    def bad_end():
        seen = []
        yield seen
        assert all(value == 0 for value in seen)

    @pytest.fixture
    def reverted(request):
        return "reverted" in request.node.name or "PRTOGGLE" in os.environ
    """


def source(name: str, body: str, *, toggle: str, mark: str = "") -> str:
    arguments = [word for word in ("subtests", "bad_end", "reverted") if word in body]
    return f"{HEAD.format(toggle)}{mark}def test_{name}({', '.join(arguments)}):\n{body}\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("agree") / "project")
    made.write({name: text for name, text in FILES.items() if name.startswith("bounds/")})
    made.write({"conftest.py": FIXTURES})
    for name, (body, _, _) in (GUARDS | XFAILS).items():
        mark = "@pytest.mark.xfail(reason='not yet')\n" if name in XFAILS else ""
        file = f"guards/test_{name}.py"
        (made.root / "guards").mkdir(exist_ok=True)
        (made.root / file).write_text(source(name, body, toggle=f"t-{name}", mark=mark))
        toggle = toggle_of(f"t-{name}", file, LOWER)
        (made.root / f"toggles/t-{name}.yaml").write_text(toggle.text)
    return made


@pytest.fixture(scope="module")
def by_marker(project: Project) -> Mapping[str, str]:
    """Test name -> what its second run came to, of one session."""
    done = project.python(
        *("-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--tb=no"),
        *("-o", "verbosity_subtests=0", "guards"),
    )
    words = ("PASSED", "FAILED", "SKIPPED", "XFAIL", "ERROR")
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        name, _, rest = line.partition("[reverted ")
        outcome = next((word for word in words if word in rest), None)
        if outcome is not None and "::test_" in name:
            assert name.split("::test_")[1] not in found, f"{line}: more than one report"
            found[name.split("::test_")[1]] = outcome.lower().replace("xfail", "xfailed")
    return found


@pytest.fixture(scope="module")
def by_verify(project: Project) -> Mapping[str, Verdict]:
    toggles = [toggle_of(f"t-{name}", f"guards/test_{name}.py", LOWER) for name in GUARDS | XFAILS]
    found = verify_toggles(toggles, runner_of(project, *toggles), jobs=2)
    return {proof.id.removeprefix("t-"): proof.verdict for proof in found}


def test_one_guard_gets_one_answer(by_marker: Mapping[str, str], by_verify: Mapping[str, Verdict]) -> None:
    expected = {name: outcome for name, (_, outcome, _) in (GUARDS | XFAILS).items()}
    assert by_marker == expected
    assert by_verify == {name: verdict for name, (_, _, verdict) in (GUARDS | XFAILS).items()}
    good = {name for name, verdict in by_verify.items() if verdict is Verdict.CAUGHT}
    assert good == {name for name, outcome in by_marker.items() if outcome == "passed"}


def test_ids_begin_with_the_fix_whoever_gives_the_other_parameters(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.write(
        {
            "conftest.py": """\
                def pytest_generate_tests(metafunc):
                    if "late" in metafunc.fixturenames:
                        metafunc.parametrize("late", ["x"])
                """,
            "test_it.py": """\
                import pytest

                @pytest.fixture(params=["made"])
                def made(request):
                    return request.param

                @pytest.mark.parametrize("number", [10])
                @pytest.mark.guards(1)
                def test_it(number, late, made):
                    pass
                """,
        }
    )

    done = project.python("-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider")

    ids = [line for line in done.stdout.splitlines() if "::" in line]
    assert len(ids) == 2
    assert ids[1].startswith("test_it.py::test_it[reverted 1-")
    assert ids[1] == ids[0].replace("[", "[reverted 1-")


def test_what_a_fix_requires_is_taken_out_alone_in_a_third_run(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.write({name: text for name, text in FILES.items() if name.startswith("bounds/")})
    toggles = [
        toggle_of("low", "test_it.py", LOWER),
        toggle_of("idle", "test_it.py", NOTHING, "requires: [low]"),
        toggle_of("size", "test_it.py", VALUE),
    ]
    for toggle in toggles:
        (project.root / f"toggles/{toggle.id}.yaml").write_text(toggle.text)
    guard = "@pytest.mark.guards('idle')\ndef test_idle():\n    assert first(-1) == 0\n\n"
    value = "@pytest.mark.guards('size')\ndef test_size():\n    assert second(11) == 9\n"
    imports = "import pytest\nfrom bounds.core import first, second\n\n"
    (project.root / "test_it.py").write_text(imports + guard + value)

    done = project.python("-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")

    assert "test_it.py::test_idle[reverted idle] PASSED" in done.stdout
    assert "test_it.py::test_idle[required by idle] FAILED" in done.stdout
    assert "test_it.py::test_size[reverted size] PASSED" in done.stdout
    assert done.returncode == 1
