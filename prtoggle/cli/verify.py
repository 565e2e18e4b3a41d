"""`prtoggle verify`: asks whether each toggle's guard passes with the fix and fails without it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

import click

from prtoggle.catalog import Catalog
from prtoggle.cli import console, print_table
from prtoggle.cli.output_file import OUTPUT, write_output
from prtoggle.cli.progress import progress_bar
from prtoggle.errors import SpecError
from prtoggle.verify.fingerprint import fingerprint
from prtoggle.verify.guard_run import GuardRunner
from prtoggle.verify.verdict import Proof, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.spec import Toggle
    from prtoggle.verify.matrix import Matrix

FINDING = 1
_IN = click.Path(exists=True, dir_okay=False, path_type=Path)
_COLOUR = {Verdict.CAUGHT: "green", Verdict.FLAKY: "yellow", Verdict.UNREACHED: "yellow"}


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where results go beside the terminal; None for what was not asked for."""

    junit: Path | None
    json_file: Path | None
    html: Path | None
    catalogue: Path | None
    github: bool


@click.command("verify")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--repeat", type=click.IntRange(1), default=1, help="Runs per guard and side, for flaky guards."
)
@click.option(
    "-j", "--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, help="Processes at a time."
)
@click.option("--timeout", type=click.FloatRange(1), default=600.0, help="Seconds that one run may take.")
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
    toggles = catalog.select(ids) if ids else catalog.project_toggles()
    if not toggles:
        raise SpecError("no toggle to verify: the project has no catalogue; see `prtoggle list --all`")
    if fresh is not None:
        return _compare(fresh, toggles, catalog.root)
    wanted = Outputs(**outputs)  # type: ignore[arg-type]  # click has checked each of them
    _refuse_idle_options(wanted, also, with_matrix=with_matrix)
    runner = GuardRunner(catalog.root, tuple(str(folder.path) for folder in catalog.folders), timeout)
    if with_matrix:
        return _matrix(toggles, runner, jobs, wanted, also)
    return _proofs(toggles, runner, repeat, jobs, wanted)


def _refuse_idle_options(outputs: Outputs, also: tuple[str, ...], *, with_matrix: bool) -> None:
    """Raise UsageError for an option that would be without effect."""
    if not with_matrix and (also or outputs.catalogue is not None):
        raise click.UsageError("--also and --catalogue need --matrix")
    if with_matrix and (outputs.junit is not None or outputs.github):
        raise click.UsageError("--junit and --github report verdicts; leave --matrix out")


def _proofs(toggles: Sequence[Toggle], runner: GuardRunner, repeat: int, jobs: int, outputs: Outputs) -> int:
    from prtoggle.verify.github_report import workflow_commands  # noqa: PLC0415 (--fresh needs none of these)
    from prtoggle.verify.html_report import html_page  # noqa: PLC0415
    from prtoggle.verify.json_report import proofs_document  # noqa: PLC0415
    from prtoggle.verify.junit_report import junit_text  # noqa: PLC0415
    from prtoggle.verify.proof import verify_toggles  # noqa: PLC0415

    guarded = sum(1 for toggle in toggles if toggle.guards)
    with progress_bar("verifying", guarded * repeat * 2) as advance:
        proofs = verify_toggles(toggles, runner, repeat=repeat, jobs=jobs, progress=advance)
    _print_proofs(proofs)
    if outputs.junit is not None:
        write_output(outputs.junit, junit_text(proofs))
    if outputs.json_file is not None:
        write_output(outputs.json_file, _as_json(proofs_document(proofs)))
    if outputs.html is not None:
        write_output(outputs.html, html_page(proofs))
    if outputs.github:
        for line in workflow_commands(proofs):
            click.echo(line)
    return 0 if all(proof.verdict is Verdict.CAUGHT for proof in proofs) else FINDING


def _matrix(
    toggles: Sequence[Toggle], runner: GuardRunner, jobs: int, outputs: Outputs, suite: tuple[str, ...]
) -> int:
    from prtoggle.verify.also_caught import also_caught_by  # noqa: PLC0415
    from prtoggle.verify.catalogue_page import catalogue_page  # noqa: PLC0415
    from prtoggle.verify.html_report import html_page  # noqa: PLC0415
    from prtoggle.verify.json_report import matrix_document  # noqa: PLC0415
    from prtoggle.verify.matrix import build_matrix  # noqa: PLC0415

    with progress_bar("every toggle against every guard", len(toggles)) as advance:
        matrix = build_matrix(toggles, runner, jobs=jobs, progress=advance)
    others: dict[str, list[str]] = {}
    if suite:
        with progress_bar("who else notices", len(toggles)) as advance:
            others = also_caught_by(toggles, suite, runner, jobs=jobs, progress=advance)
    mark = fingerprint(toggles, runner.root)
    _print_matrix(matrix)
    if outputs.json_file is not None:
        document = {**matrix_document(matrix, mark), "also_asked": list(suite), "also_caught": others}
        write_output(outputs.json_file, _as_json(document))
    if outputs.html is not None:
        write_output(outputs.html, html_page([], matrix))
    if outputs.catalogue is not None:
        write_output(outputs.catalogue, catalogue_page(toggles, matrix, mark, others, suite))
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


def _print_proofs(proofs: Sequence[Proof]) -> None:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    output = console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("toggle", "verdict", "with fix", "without"):
        table.add_column(column, no_wrap=True)
    table.add_column("what was seen", overflow="fold")
    # One line a toggle where there is room for it; a finding is read in full below the table.
    room = output.width - max(len(proof.id) for proof in proofs) - len("no tests ran  1/1 pass  1/1 fail") - 6
    for proof in proofs:
        table.add_row(
            proof.id,
            Text(proof.verdict.value, style=_COLOUR.get(proof.verdict, "red")),
            f"{proof.passes_with_fix}/{len(proof.fixed)} pass",
            f"{proof.fails_without_fix}/{len(proof.reverted)} fail",
            shorten(proof.symptom, max(room, 36), placeholder="...")
            if proof.verdict is Verdict.CAUGHT
            else "see below",
        )
    caught = sum(proof.verdict is Verdict.CAUGHT for proof in proofs)
    print_table(output, table)
    for proof in proofs:
        if proof.verdict is not Verdict.CAUGHT:
            output.print(f"{proof.id}: {proof.verdict}: {proof.detail}", style="red", soft_wrap=True)
    output.print(f"{caught} of {len(proofs)} caught", style="green" if caught == len(proofs) else "red")


def _print_matrix(matrix: Matrix) -> None:
    output = console()
    for reverted, trouble in matrix.trouble.items():
        output.print(
            f"{reverted} reverted: the guards could not be run: {trouble}", style="red", soft_wrap=True
        )
    for reverted, guarded, cell in matrix.findings:
        if reverted not in matrix.trouble:
            output.print(f"{reverted} reverted, guards of {guarded}: {cell.value}", style="red")
    for reverted, guarded in matrix.stale_masks:
        output.print(f"{reverted} declares to mask {guarded}, whose guards pass", style="yellow")
    size = len(matrix.ids)
    output.print(f"{size} x {size} cells, {len(matrix.findings)} findings")


def _as_json(document: dict[str, object]) -> str:
    return json.dumps(document, indent=2) + "\n"
