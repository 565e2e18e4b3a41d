"""`prtoggle verify` as a command: the guilty guard in each report, projects without toggles, files it cannot write."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from prtoggle.cli import main
from prtoggle.cli.output_file import OutputError, why_not_writable, write_output, write_outputs
from tests.prtoggle.programs import Project
from tests.prtoggle.test_verify_guards import FILES, LOWER, toggle_of

if TYPE_CHECKING:
    from pathlib import Path

GUILTY = "guards/test_vacuous.py"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in the working directory whose only toggle has a good guard and a vacuous one."""
    made = Project(tmp_path / "project")
    made.write({name: text for name, text in FILES.items() if name.startswith(("bounds/", "guards/test_"))})
    for spec in (made.root / "toggles").iterdir():
        spec.unlink()
    toggle = toggle_of("low", f"guards/test_good.py, ./{GUILTY}", LOWER)
    (made.root / "toggles/low.yaml").write_text(toggle.text)
    made.enter(monkeypatch)
    return made


def test_every_report_names_the_guilty_guard_and_is_written_though_another_cannot_be(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.root / "full").symlink_to("/dev/full")

    status = main(["verify", "--github", "--junit", "full", "--json", "out.json", "--html", "out.html"])

    captured = capsys.readouterr()
    assert status == 2
    assert "full could not be written: No space left on device" in captured.err
    says = "passes in 1 of 1 runs without the fix; the reverted statement"
    assert f"low: vacuous: {GUILTY}: {says}" in captured.out
    assert f"::error file={GUILTY},title=prtoggle low%3A vacuous::{says}" in captured.out
    (result,) = json.loads((project.root / "out.json").read_text())["results"]
    assert (result["verdict"], result["fails_without_fix"]) == ("vacuous", [0, 1])
    assert [(guard["guard"], guard["verdict"]) for guard in result["judged"]] == [
        ("guards/test_good.py", "caught"),
        (GUILTY, "vacuous"),
    ]
    page = (project.root / "out.html").read_text()
    assert f"<code>{GUILTY}</code>: {says}" in page
    assert "<code>guards/test_good.py</code> <span class='verdict caught'>caught" in page

    assert main(["verify", "low", "--junit", "out.xml"]) == 1
    (case,) = ET.fromstring((project.root / "out.xml").read_text()).iter("testcase")
    (failure,) = case
    assert f"{GUILTY}: vacuous: {says}" in (failure.text or "")
    assert "test_good" not in failure.get("message", "")


@pytest.mark.parametrize(
    ("pyproject", "says"),
    [
        ("", "has no catalogue. Name the folder of its specs in pyproject.toml"),
        ('[tool.prtoggle]\ncatalogues = ["empty"]\n', "there is no spec in"),
    ],
    ids=["no catalogue", "an empty one"],
)
def test_a_project_without_toggles_is_told_what_to_do(
    project: Project, capsys: pytest.CaptureFixture[str], pyproject: str, says: str
) -> None:
    (project.root / "empty").mkdir()
    (project.root / "pyproject.toml").write_text(pyproject)
    before = sorted(project.root.rglob("*"))

    statuses = [main(["verify", "--json", "out.json"]), main(["verify", "--matrix"])]

    captured = capsys.readouterr()
    assert (statuses, captured.out) == ([2, 2], "")
    assert captured.err.count(says) == 2
    assert sorted(project.root.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--html", "/proc/x"), "/proc/x cannot be written"),
        (("--json", "x" * 300), "cannot be written: File name too long"),
        (("--html", "out", "--json", "./out"), "--json and --html name the same file"),
        (("--matrix", "--also", "guards/test_nowhere.py"), "guards/test_nowhere.py: there is no such file"),
    ],
    ids=["proc", "long name", "one file", "no tests"],
)
def test_what_cannot_be_written_or_asked_is_refused_before_a_guard_runs(
    project: Project, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    project.write({"guards/test_good.py": "open('started', 'w').close()\n"})
    before = sorted(project.root.rglob("*"))

    status = main(["verify", "low", *arguments])

    captured = capsys.readouterr()
    assert (status, captured.out) == (2, "")
    assert says in captured.err
    assert sorted(project.root.rglob("*")) == before


def test_a_report_is_written_in_full_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept"
    kept.write_text("before")
    kept.chmod(0o640)
    (tmp_path / "link").symlink_to(kept)
    (tmp_path / "dangling").symlink_to(tmp_path / "made")

    assert [why_not_writable(path) for path in (kept, tmp_path / "link", tmp_path / "dangling")] == [""] * 3
    assert (kept.read_text(), (tmp_path / "made").exists()) == ("before", False)
    write_output(tmp_path / "link", "after \udc80")
    write_output(tmp_path / "dangling", "new")
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("after \\udc80", 0o640)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "made").read_text() == "new"

    def full(_path: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OutputError, match=r"kept could not be written: No space left on device\n.*nowhere/x"):
        write_outputs({kept: "lost", tmp_path / "nowhere/x": "lost"})
    assert kept.read_text() == "after \\udc80"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "kept", "link", "made"]
