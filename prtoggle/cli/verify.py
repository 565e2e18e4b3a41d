"""`prtoggle verify`: asks whether each toggle's guard passes with the fix and fails without it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prtoggle.catalog import Catalog
from prtoggle.catalogue_folders import PROJECT_ORIGINS
from prtoggle.cli import console
from prtoggle.cli.finite import Finite
from prtoggle.cli.interruption import Interruption, interruptible
from prtoggle.cli.output_file import OUTPUT, write_outputs
from prtoggle.cli.progress import progress_bar
from prtoggle.cli.verify_view import print_matrix, print_proofs
from prtoggle.errors import CatalogueError
from prtoggle.verify.entries import entry_of
from prtoggle.verify.fingerprint import fingerprint
from prtoggle.verify.guard_run import GuardRunner
from prtoggle.verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.spec import Toggle

FINDING = 1
_IN = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where results go beside the terminal; None for what was not asked for."""

    junit: Path | None
    json_file: Path | None
    html: Path | None
    catalogue: Path | None
    github: bool

    def files(self) -> dict[str, Path | None]:
        """The files, by the option that names each."""
        return {
            "--junit": self.junit,
            "--json": self.json_file,
            "--html": self.html,
            "--catalogue": self.catalogue,
        }


@click.command("verify")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--repeat", type=click.IntRange(1), default=1, help="Runs per guard and side, for flaky guards."
)
@click.option(
    "-j", "--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Processes at a time."
)
@click.option("--timeout", type=Finite(1), default=600.0, help="Seconds that one run may take.")
@click.option("--matrix", "with_matrix", is_flag=True, help="Every toggle against every guard.")
@click.option("--junit", type=OUTPUT, help="Write the verdicts as a JUnit file.")
@click.option("--json", "json_file", type=OUTPUT, help="Write verdicts, or the matrix, as JSON.")
@click.option("--html", type=OUTPUT, help="Write one self-contained page.")
@click.option("--github", is_flag=True, help="Print annotations for a GitHub workflow.")
@click.option("--catalogue", type=OUTPUT, help="With --matrix: write the catalogue as a Markdown page.")
@click.option(
    "--also", multiple=True, metavar="TESTS", help="With --matrix: who else notices, of these tests."
)
@click.option("--fresh", type=_IN, help="Only ask whether FILE was made from this state of the project.")
def verify_command(
    *,
    ids: tuple[str, ...],
    repeat: int,
    jobs: int,
    timeout: float,
    with_matrix: bool,
    fresh: Path | None,
    also: tuple[str, ...],
    **outputs: Path | bool | None,
) -> int:
    """Run each toggle's guards with the fix (must pass) and without it (must fail).

    Exit status 1 unless every toggle is caught; with --matrix, when a toggle breaks more than it declares.
    """
    catalog = Catalog.discover()
    toggles = _chosen(catalog, ids)
    if fresh is not None:
        return _compare(fresh, toggles, catalog.root)
    wanted = Outputs(**outputs)  # type: ignore[arg-type]  # click has checked each of them
    _refuse_idle_options(wanted, also, with_matrix=with_matrix)
    _refuse_one_file_for_two(wanted)
    runner = GuardRunner(
        catalog.root, tuple(str(folder.path.absolute()) for folder in catalog.folders), timeout
    )
    _refuse_tests_that_are_nowhere(also, runner)
    try:
        with interruptible():
            if with_matrix:
                return _matrix(toggles, runner, jobs, wanted, also)
            return _proofs(toggles, runner, repeat, jobs, wanted)
    except Interruption as request:
        console(stderr=True).print("stopped: all runs were ended, and no report is complete", style="yellow")
        return request.status


def _chosen(catalog: Catalog, ids: tuple[str, ...]) -> Sequence[Toggle]:
    """The toggles of these ids, or those of the project. Raises CatalogueError when that has none."""
    if ids:
        return catalog.select(ids)
    own = [folder for folder in catalog.folders if folder.origin in PROJECT_ORIGINS]
    if not own:
        raise CatalogueError(
            f"no toggle to verify: the project at {catalog.root} has no catalogue. Name the folder of its "
            'specs in pyproject.toml ([tool.prtoggle] catalogues = ["toggles"]) or in PRTOGGLE_PATH; toggles '
            "of installed packages are verified by id, and `prtoggle list --all` shows them"
        )
    toggles = catalog.project_toggles()
    if not toggles:
        folders = ", ".join(f"{folder.path} ({folder.origin})" for folder in own)
        raise CatalogueError(
            f"no toggle to verify: there is no spec in {folders}. Write one, ID.yaml, or have `prtoggle new` "
            "draft one from the fix"
        )
    return toggles


def _refuse_idle_options(outputs: Outputs, also: tuple[str, ...], *, with_matrix: bool) -> None:
    """Raise UsageError for an option that would be without effect."""
    if not with_matrix and (also or outputs.catalogue is not None):
        raise click.UsageError("--also and --catalogue need --matrix")
    if with_matrix and (outputs.junit is not None or outputs.github):
        raise click.UsageError("--junit and --github report verdicts; leave --matrix out")


def _refuse_one_file_for_two(outputs: Outputs) -> None:
    """Raise UsageError when one report would be written over another."""
    places: dict[Path, str] = {}
    for option, path in outputs.files().items():
        if path is not None and not (path.exists() and not path.is_file()):
            other = places.setdefault(path.resolve(), option)
            if other != option:
                raise click.UsageError(f"{other} and {option} name the same file, {path}")


def _refuse_tests_that_are_nowhere(also: tuple[str, ...], runner: GuardRunner) -> None:
    """Raise UsageError for tests that are to be asked and are not there."""
    for tests in also:
        if not entry_of(tests, runner.root).file.exists():
            raise click.UsageError(f"--also {tests}: there is no such file below {runner.root}")


def _proofs(toggles: Sequence[Toggle], runner: GuardRunner, repeat: int, jobs: int, outputs: Outputs) -> int:
    from prtoggle.verify.github_report import workflow_commands  # noqa: PLC0415 (--fresh needs none of these)
    from prtoggle.verify.html_report import html_page  # noqa: PLC0415
    from prtoggle.verify.json_report import proofs_document  # noqa: PLC0415
    from prtoggle.verify.junit_report import junit_text  # noqa: PLC0415
    from prtoggle.verify.proof import num_rounds, verify_toggles  # noqa: PLC0415

    with progress_bar("verifying", num_rounds(toggles, runner, repeat)) as advance:
        proofs = verify_toggles(toggles, runner, repeat=repeat, jobs=jobs, progress=advance)
    print_proofs(proofs)
    if outputs.github:
        for line in workflow_commands(proofs):
            click.echo(line)
    made = {
        outputs.junit: junit_text(proofs),
        outputs.json_file: _as_json(proofs_document(proofs)),
        outputs.html: html_page(proofs),
    }
    write_outputs(made)
    return 0 if all(proof.verdict is Verdict.CAUGHT for proof in proofs) else FINDING


def _matrix(
    toggles: Sequence[Toggle], runner: GuardRunner, jobs: int, outputs: Outputs, suite: tuple[str, ...]
) -> int:
    from prtoggle.verify.also_caught import also_caught_by  # noqa: PLC0415
    from prtoggle.verify.catalogue_page import catalogue_page  # noqa: PLC0415
    from prtoggle.verify.html_report import html_page  # noqa: PLC0415
    from prtoggle.verify.json_report import matrix_document  # noqa: PLC0415
    from prtoggle.verify.matrix import build_matrix  # noqa: PLC0415

    others: dict[str, list[str]] = {}
    if suite:
        with progress_bar("who else notices", len(toggles)) as advance:
            others = also_caught_by(toggles, suite, runner, jobs=jobs, progress=advance)
    with progress_bar("every toggle against every guard", len(toggles)) as advance:
        matrix = build_matrix(toggles, runner, jobs=jobs, progress=advance)
    mark = fingerprint(toggles, runner.root)
    print_matrix(matrix)
    document = {**matrix_document(matrix, mark), "also_asked": list(suite), "also_caught": others}
    made = {
        outputs.json_file: _as_json(document),
        outputs.html: html_page([], matrix),
        outputs.catalogue: catalogue_page(toggles, matrix, mark, others, suite),
    }
    write_outputs(made)
    return FINDING if matrix.findings else 0


def _compare(file: Path, toggles: Sequence[Toggle], root: Path) -> int:
    """Exit status 1 when specs, guards or targets changed since `file` (JSON or Markdown) was made."""
    mark = fingerprint(toggles, root)
    if mark in file.read_text(encoding="utf-8"):
        click.echo(f"{file} was made from these specs, guards and targets.")
        return 0
    click.echo(f"{file} is out of date: specs, guards or targets have changed since. Make it anew with")
    click.echo("    python -m prtoggle verify --matrix --catalogue docs/catalogue.md")
    return FINDING


def _as_json(document: dict[str, object]) -> str:
    return json.dumps(document, indent=2) + "\n"
