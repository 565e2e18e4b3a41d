"""A toggle without guards stays in the matrix: nobody would notice if its fix were lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prtoggle.verify.catalogue_page import catalogue_page
from prtoggle.verify.matrix import Cell, build_matrix
from tests.prtoggle.programs import Project
from tests.prtoggle.test_verify_guards import FILES, LOWER, UPPER, runner_of, toggle_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_toggle_without_guards_is_a_finding_at_its_own_place(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    good = "guards/test_good.py"
    project.write({name: text for name, text in FILES.items() if name.startswith("bounds/") or name == good})
    toggles = [toggle_of("low", good, LOWER), toggle_of("high", "", UPPER)]

    matrix = build_matrix(toggles, runner_of(project, *toggles), jobs=2)
    page = catalogue_page(toggles, matrix, "mark", {})

    assert matrix.ids == ("low", "high")
    assert matrix.cells == {
        ("low", "low"): Cell.CAUGHT,
        ("low", "high"): Cell.QUIET,
        ("high", "low"): Cell.QUIET,
        ("high", "high"): Cell.ERROR,
    }
    assert matrix.findings == (("high", "high", Cell.ERROR),)
    assert matrix.trouble == {("high", "high"): "the spec names no guards"}
    assert "1 of 2 historical fixes have guards that fail when it is taken out." in page


def test_a_catalogue_of_such_toggles_alone_has_findings_only(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    toggles = [toggle_of("low", "", LOWER)]

    matrix = build_matrix(toggles, runner_of(project, *toggles))

    assert matrix.cells == {("low", "low"): Cell.ERROR}
    assert [finding[:2] for finding in matrix.findings] == [("low", "low")]
