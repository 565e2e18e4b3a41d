"""`prtoggle list`: the toggles there are, what they are about, and whether they are on."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from prtoggle.applies_to import applies
from prtoggle.catalog import Catalog
from prtoggle.cli import console, print_table

if TYPE_CHECKING:
    from rich.table import Table

    from prtoggle.spec import Toggle


_ID_WIDTH = 18
_TARGET_WIDTH = 80 - _ID_WIDTH - 4


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Also the toggles that installed packages bring.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def list_command(*, everything: bool, as_json: bool) -> int:
    """List the toggles of the project's catalogue; without one, all there are."""
    catalog = Catalog.discover()
    toggles = catalog.toggles() if everything else catalog.project_toggles()
    states = toggle_states()
    if as_json:
        click.echo(json.dumps(_document(catalog, toggles, states), indent=2))
        return 0
    out = console()
    if toggles:
        print_table(out, _table(toggles, states, whole=not out.file.isatty()))
    for shadowed in catalog.shadowed:
        out.print(
            f"{shadowed.id} in {shadowed.file} is shadowed by {shadowed.by}", style="yellow", soft_wrap=True
        )
    out.print(_summary(catalog, toggles, everything=everything), style="dim", soft_wrap=True)
    return 0


def toggle_states() -> dict[str, str]:
    """Id to the state in this very process; empty unless PRTOGGLE asked for something."""
    asked = [part.strip() for part in os.environ.get("PRTOGGLE", "").split(",") if part.strip()]
    states: dict[str, str] = dict.fromkeys(asked, "not active")
    # Whoever activated something has loaded the engine; loading it here would only slow the listing down.
    if "prtoggle.engine" in sys.modules:
        from prtoggle import engine  # noqa: PLC0415

        states.update({state.toggle.id: state.state for state in engine.states()})
    return states


def _document(catalog: Catalog, toggles: list[Toggle], states: dict[str, str]) -> dict[str, Any]:
    return {
        "version": 1,
        "toggles": [_entry(toggle, states) for toggle in toggles],
        "shadowed": [
            {"id": shadowed.id, "file": str(shadowed.file), "by": str(shadowed.by)}
            for shadowed in catalog.shadowed
        ],
        "folders": [{"path": str(folder.path), "origin": folder.origin} for folder in catalog.folders],
    }


def _entry(toggle: Toggle, states: dict[str, str]) -> dict[str, Any]:
    return {
        "id": toggle.id,
        "title": toggle.title,
        "targets": list(toggle.targets),
        "tags": list(toggle.tags),
        "guards": list(toggle.guards),
        "state": states.get(toggle.id),
        "links": list(toggle.links),
        "symptom": toggle.symptom,
        "requires": list(toggle.requires),
        "conflicts": list(toggle.conflicts),
        "masks": list(toggle.masks),
        "applies_to": toggle.applies_to,
        "applies": applies(toggle),
        "file": toggle.source.file if toggle.source else None,
    }


def _table(toggles: list[Toggle], states: dict[str, str], *, whole: bool) -> Table:
    """One row a toggle: what it is over where it is, so that 80 columns hold most names without a break.

    `whole` leaves long targets on one line.
    """
    from rich.table import Table  # noqa: PLC0415 (a third of the start-up time; --json needs none of it)
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False, header_style="bold")
    table.add_column("id", style="bold cyan", no_wrap=True)
    table.add_column("title / targets / tags / guards", overflow="fold")
    if states:
        table.add_column("state", no_wrap=True)
    for toggle in toggles:
        what = Text(toggle.title or "(no title)")
        for target in toggle.targets:
            what.append(f"\n{target if whole else _folded(target)}", style="dim")
        facts = [", ".join(toggle.tags), *toggle.guards]
        if toggle.applies_to:
            facts.append(
                f"applies to {toggle.applies_to}{'' if applies(toggle) else ': not what is installed'}"
            )
        for fact in filter(None, facts):
            what.append(f"\n{fact}", style="green")
        state = states.get(toggle.id, "-")
        row = [Text(toggle.id), what, Text(state, style="bold red" if state != "-" else "")]
        table.add_row(*row[: len(table.columns)])
    return table


def _folded(target: str) -> str:
    """The target, on two lines when it is too long for what 80 columns leave beside the id."""
    owner, dot, name = target.rpartition(".")
    return target if len(target) <= _TARGET_WIDTH else f"{owner}\n  {dot}{name}"


def _summary(catalog: Catalog, toggles: list[Toggle], *, everything: bool) -> str:
    searched = catalog.folders if everything else catalog.project_folders
    folders = ", ".join(f"{folder.path} ({folder.origin})" for folder in searched)
    if not folders:
        return (
            "No catalogue: set PRTOGGLE_PATH to a folder of specs, or name one in pyproject.toml as "
            '[tool.prtoggle] catalogues = ["toggles"].'
        )
    hidden = len(catalog.ids()) - len(toggles)
    more = f"; {hidden} more of installed packages with --all" if hidden and not everything else ""
    return f"{len(toggles)} toggle{'' if len(toggles) == 1 else 's'} in {folders}{more}"
