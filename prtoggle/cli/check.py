"""`prtoggle check`: whether every toggle still fits the code that is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prtoggle import __version__
from prtoggle.catalog import Catalog
from prtoggle.cli import console, search_project
from prtoggle.cli.show import short_path
from prtoggle.drift.classes import Drift
from prtoggle.drift.findings import label, sarif, workflow_commands
from prtoggle.drift.judged import Locks, judge, lock_toggle
from prtoggle.drift.lock_file import LOCK_NAME
from prtoggle.drift.source_tree import SourceTree
from prtoggle.drift.surroundings import Surroundings
from prtoggle.loader import load_file, load_python_constants

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from prtoggle.drift.classes import PatchDrift
    from prtoggle.drift.judged import Judged
    from prtoggle.spec import Toggle
    from prtoggle.static_check import PatchCheck

FINDING = 1


@click.command("check")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "--spec",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="Check this spec file (.yaml, or .py with constants) instead of catalogue entries; repeatable.",
)
@click.option(
    "--source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Check against this source tree instead of what is installed.",
)
@click.option("--all", "everything", is_flag=True, help="Also the toggles that installed packages bring.")
@click.option("--update", is_flag=True, help="Lock the code as it is now, for toggles that fit it.")
@click.option("--fix", is_flag=True, help="Rewrite the specs where it is certain how, and verify them.")
@click.option("--no-verify", is_flag=True, help="With --fix: do not run the guards of what was rewritten.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    show_default=True,
)
def check_command(
    *,
    ids: tuple[str, ...],
    files: tuple[Path, ...],
    source: Path | None,
    everything: bool,
    update: bool,
    fix: bool,
    no_verify: bool,
    as_json: bool,
    form: str,
) -> int:
    """Check that every edit of the toggles has exactly one place in its source. Imports none of the targets.

    Without IDs, all toggles of the project's catalogue. Exits with 1 when one does not fit, and says why and
    what the nearest text is. With a lock file beside the catalogue (--update writes it), it also says what
    became of the code under each toggle since.
    """
    form = "json" if as_json else form
    if (update or fix) and (form != "text" or (update and fix)):
        raise click.UsageError("--update and --fix stand alone, and without --format")
    if fix and source is not None and not no_verify:
        raise click.UsageError("guards cannot be run in a --source tree: give --no-verify with --fix")
    catalog = Catalog.discover()
    search_project(catalog.root)
    toggles = _chosen(catalog, ids, files, everything=everything)
    known = None if source is not None else [*catalog.ids(), *(toggle.id for toggle in toggles)]
    around, locks = Surroundings(None if source is None else SourceTree(source)), Locks()
    results = [judge(toggle, known, around, locks) for toggle in toggles]
    if form == "json":
        click.echo(json.dumps({"version": 1, "results": [_entry(judged) for judged in results]}, indent=2))
    elif form == "github":
        for line in workflow_commands(results, Path.cwd()):
            click.echo(line)
    elif form == "sarif":
        click.echo(json.dumps(sarif(results, Path.cwd(), __version__), indent=2))
    elif fix:
        from prtoggle.cli.check_fix import heal  # noqa: PLC0415 (only here are specs written)

        left = heal(console(), results, catalog, around, locks, verify=not no_verify)
        if left:
            _print(console(), left)
        return FINDING if left else 0
    else:
        _print(console(), results)
    if update:
        everywhere = not ids and not files
        results = _update(results, around, locks, catalog.ids() if everywhere else None)
    return FINDING if any(judged.is_finding for judged in results) else 0


def _update(
    results: Sequence[Judged], around: Surroundings, locks: Locks, ids: Sequence[str] | None
) -> list[Judged]:
    """Lock what fits, and say what does not. `ids`, where given, are all that there are: others are dropped.

    Returns what was left out. A drift that is a finding is only accepted for a toggle that was named.
    """
    left = []
    for judged in results:
        if judged.check.is_finding or (ids is not None and judged.is_finding):
            left.append(judged)
        elif judged.check.status == "ok":
            lock_toggle(judged.toggle, around, locks)
    folders = locks.write() if ids is None else locks.write(keep=ids)
    for judged in left:
        console().print(f"not locked: {judged.toggle.id}, {label(judged)}", style="yellow")
    for folder in folders:
        console().print(f"wrote {short_path(str((folder / LOCK_NAME).absolute()))}", soft_wrap=True)
    return left


def _chosen(catalog: Catalog, ids: Sequence[str], files: Sequence[Path], *, everything: bool) -> list[Toggle]:
    toggles = [toggle for toggle_id in dict.fromkeys(ids) for toggle in catalog.variants(toggle_id)]
    for file in files:
        toggles += load_python_constants(file) if file.suffix == ".py" else [load_file(file)]
    if ids or files:
        return toggles
    return catalog.toggles() if everything else catalog.project_toggles()


def _print(out: Console, results: Sequence[Judged]) -> None:
    for judged in results:
        check = judged.check
        style = "red" if judged.is_finding else "yellow" if check.status != "ok" else "green"
        title = f"{label(judged)}  {check.toggle.id}  {check.toggle.title}".rstrip()
        out.print(title, style=style, soft_wrap=True)
        drifts = judged.drifts or (None,) * len(check.patches)
        for patch, drift in zip(check.patches, drifts, strict=True):
            if drift is None or not drift.is_finding or patch.status == "ok":
                out.print(_patch_line(patch), soft_wrap=True)
            if drift is not None:
                for line in _drift_lines(drift):
                    out.print(line, soft_wrap=True)
        if check.message:
            out.print(_indented(check.message), soft_wrap=True)
        if judged.healed:
            out.print(_indented("`check --fix` rewrites the spec"), soft_wrap=True)
    findings = sum(judged.is_finding for judged in results)
    out.print(f"{len(results)} checked, {findings} with findings", style="bold red" if findings else "bold")


def _drift_lines(drift: PatchDrift) -> Iterator[str]:
    place = f"{drift.target}  " if drift.is_finding else ""
    if drift.drift is not Drift.UNCHANGED:
        yield _indented(f"{place}{drift.drift.value}: {drift.why}")
    if drift.decision:
        yield _indented(f"to decide: {drift.decision}")


def _patch_line(patch: PatchCheck) -> str:
    if patch.message:
        return _indented(patch.message)
    lines = f":{','.join(map(str, patch.lines))}" if patch.lines else ""
    place = f"{patch.target}  {short_path(patch.file)}{lines}" if patch.file else patch.target
    return "\n".join(_indented(text) for text in (place, *patch.notes, *patch.cautions))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _entry(judged: Judged) -> dict[str, Any]:
    check = judged.check
    drifts = judged.drifts or (None,) * len(check.patches)
    return {
        "id": check.toggle.id,
        "status": check.status,
        "message": next(iter(check.messages), ""),
        "spec": str(check.toggle.source) if check.toggle.source else None,
        "finding": judged.is_finding,
        "drift": None if judged.drift is None else judged.drift.drift.value,
        "fixable": bool(judged.healed),
        "patches": [
            {
                "target": patch.target,
                "mode": patch.mode,
                "status": patch.status,
                "file": patch.file,
                "lines": list(patch.lines),
                "message": patch.message,
                "notes": [*patch.notes, *patch.cautions],
                "drift": None if drift is None else _drift_entry(drift),
            }
            for patch, drift in zip(check.patches, drifts, strict=True)
        ],
    }


def _drift_entry(drift: PatchDrift) -> dict[str, Any]:
    return {
        "class": drift.drift.value,
        "why": drift.why,
        "decision": drift.decision,
        "candidates": [
            {"target": candidate.target, "evidence": [item.name.lower() for item in candidate.evidence]}
            for candidate in drift.candidates
        ],
    }
