"""`prtoggle show ID`: one toggle in full, and the difference it makes to the running code."""

from __future__ import annotations

import difflib
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prtoggle.applies_to import applies, installed_version
from prtoggle.catalog import Catalog
from prtoggle.cli import console, search_project
from prtoggle.errors import PrToggleError
from prtoggle.source.source_text import split_lines
from prtoggle.static_check import SourceCache, plan_modules, status_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from prtoggle.spec import Patch, Toggle
    from prtoggle.static_check import PlannedModule

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@click.command("show")
@click.argument("toggle_id", metavar="ID")
def show_command(toggle_id: str) -> int:
    """Show the spec of toggle ID, and the diff from the fixed code to the reverted one.

    Exits with 1 when the spec does not fit the code that is installed.
    """
    catalog = Catalog.discover()
    search_project(catalog.root)
    toggle = next(iter(_variant(catalog, toggle_id)))
    out = console()
    for name, value in _facts(toggle):
        out.print(_fact(name, value, out.width), soft_wrap=True)
    out.print()
    try:
        modules = plan_modules(toggle, SourceCache())
    except PrToggleError as error:
        out.print(f"{status_of(error)}: {error}", style="red", soft_wrap=True)
        return 1
    for module in modules:
        _print_diff(out, module)
    for patch in toggle.patches:
        if not patch.changes_source:
            out.print(_object_change(patch), soft_wrap=True)
    return 0


def _variant(catalog: Catalog, toggle_id: str) -> Iterator[Toggle]:
    """The variant for the installed version, else the first: a spec can be read whatever is installed."""
    variants = catalog.variants(toggle_id)
    yield from filter(applies, variants)
    yield variants[0]


def _facts(toggle: Toggle) -> Iterator[tuple[str, str]]:
    version = installed_version(toggle) if toggle.applies_to else None
    facts = {
        "toggle": f"{toggle.id}  {toggle.title}".rstrip(),
        "symptom": " ".join(toggle.symptom.split()),
        "links": ", ".join(toggle.links),
        "tags": ", ".join(toggle.tags),
        "guards": ", ".join(toggle.guards),
        "requires": ", ".join(toggle.requires),
        "conflicts": ", ".join(toggle.conflicts),
        "masks": ", ".join(toggle.masks),
        "applies to": f"{toggle.applies_to} (installed: {version or 'unknown'})" if toggle.applies_to else "",
        "env": ", ".join(f"{name}={value}" for name, value in toggle.env.items()),
        "targets": ", ".join(toggle.targets),
        "file": short_path(toggle.source.file) if toggle.source else "",
    }
    yield from ((name, value) for name, value in facts.items() if value)


def _fact(name: str, value: str, width: int) -> str:
    """One fact, its prose wrapped beside its name; names and paths are left whole."""
    return textwrap.fill(
        f"{name + ':':<12}{value}",
        width=max(width, 40),
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )


def short_path(path: str) -> str:
    """The path as seen from the working directory, where it lies below it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):
        # It lies elsewhere; or the working directory is gone.
        return path


def _print_diff(out: Console, module: PlannedModule) -> None:
    """The change of one module as a unified diff; its code lines are never wrapped."""
    lines = difflib.unified_diff(
        [line.rstrip("\r\n") for line in split_lines(module.source.text)],
        [line.rstrip("\r\n") for line in split_lines(module.edited)],
        f"{short_path(module.source.path)} (fixed)",
        f"{short_path(module.source.path)} (reverted)",
        lineterm="",
    )
    for number, line in enumerate(lines):
        style = "bold" if number < 2 else _STYLES.get(line[:1], "")
        out.print(line, style=style, soft_wrap=True)
    out.print()


def _object_change(patch: Patch) -> str:
    if patch.wrap is not None:
        return f"{patch.target}: every call goes through {patch.wrap}"
    return f"{patch.target}: has the value {patch.value!r}"
