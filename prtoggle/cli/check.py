"""`prtoggle check`: whether every toggle still fits the code that is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prtoggle.catalog import Catalog
from prtoggle.cli import console
from prtoggle.cli.show import short_path
from prtoggle.loader import load_file, load_python_constants
from prtoggle.static_check import SourceCache, check_toggle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from prtoggle.spec import Toggle
    from prtoggle.static_check import PatchCheck, ToggleCheck

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
@click.option("--all", "everything", is_flag=True, help="Also the toggles that installed packages bring.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def check_command(ids: tuple[str, ...], files: tuple[Path, ...], *, everything: bool, as_json: bool) -> int:
    """Check that every edit of the toggles has exactly one place in its source. Imports none of the targets.

    Without IDs, all toggles of the project's catalogue. Exits with 1 when one does not fit, and says why and
    what the nearest text is.
    """
    catalog = Catalog.discover()
    toggles = _chosen(catalog, ids, files, everything=everything)
    known = [*catalog.ids(), *(toggle.id for toggle in toggles)]
    cache = SourceCache()
    checks = [check_toggle(toggle, known, cache) for toggle in toggles]
    if as_json:
        click.echo(json.dumps({"version": 1, "results": [_entry(check) for check in checks]}, indent=2))
    else:
        _print(console(), checks)
    return FINDING if any(check.is_finding for check in checks) else 0


def _chosen(catalog: Catalog, ids: Sequence[str], files: Sequence[Path], *, everything: bool) -> list[Toggle]:
    toggles = [toggle for toggle_id in dict.fromkeys(ids) for toggle in catalog.variants(toggle_id)]
    for file in files:
        toggles += load_python_constants(file) if file.suffix == ".py" else [load_file(file)]
    if ids or files:
        return toggles
    return catalog.toggles() if everything else catalog.project_toggles()


def _print(out: Console, checks: Sequence[ToggleCheck]) -> None:
    for check in checks:
        style = "red" if check.is_finding else "yellow" if check.status != "ok" else "green"
        out.print(
            f"{check.status}  {check.toggle.id}  {check.toggle.title}".rstrip(), style=style, soft_wrap=True
        )
        for patch in check.patches:
            out.print(_patch_line(patch), soft_wrap=True)
        if check.message:
            out.print(_indented(check.message), soft_wrap=True)
    findings = sum(check.is_finding for check in checks)
    out.print(f"{len(checks)} checked, {findings} with findings", style="bold red" if findings else "bold")


def _patch_line(patch: PatchCheck) -> str:
    if patch.message:
        return _indented(patch.message)
    lines = f":{','.join(map(str, patch.lines))}" if patch.lines else ""
    place = f"{patch.target}  {short_path(patch.file)}{lines}" if patch.file else patch.target
    return "\n".join(_indented(text) for text in (place, *patch.notes))


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _entry(check: ToggleCheck) -> dict[str, Any]:
    return {
        "id": check.toggle.id,
        "status": check.status,
        "message": check.message or next((patch.message for patch in check.patches if patch.message), ""),
        "spec": str(check.toggle.source) if check.toggle.source else None,
        "patches": [
            {
                "target": patch.target,
                "mode": patch.mode,
                "status": patch.status,
                "file": patch.file,
                "lines": list(patch.lines),
                "message": patch.message,
                "notes": list(patch.notes),
            }
            for patch in check.patches
        ],
    }
