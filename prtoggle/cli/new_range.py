"""`prtoggle new --since`: a draft of every commit that can be a toggle, and a table of what came of each."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prtoggle.cli import console, print_table
from prtoggle.cli.output_file import OutputError
from prtoggle.cli.show import short_path
from prtoggle.forge.range_drafts import drafts_since

if TYPE_CHECKING:
    from pathlib import Path

    from prtoggle.forge.git_history import Repository
    from prtoggle.forge.range_drafts import RangeDraft


def draft_range(repository: Repository, since: str, folder: Path, *, force: bool) -> int:
    """Write the drafts into `folder` and print the table; a draft that is there is kept unless forced."""
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("commit", "subject", "draft", "what came of it"):
        table.add_column(column, overflow="fold")
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise OutputError(
            f"drafts cannot be written to {folder}: {there} is no folder that can be written to"
        )
    drafts = list(drafts_since(repository, since))
    written = 0
    for entry in drafts:
        if not entry.id:
            table.add_row(entry.commit.sha[:9], entry.commit.subject, "-", entry.reason)
            continue
        file = folder / f"{entry.id}.yaml"
        kept = file.exists() and not force
        if not kept:
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(entry.text, encoding="utf-8")
            written += 1
        table.add_row(entry.commit.sha[:9], entry.commit.subject, entry.id, _outcome(entry, kept=kept))
    out = console()
    print_table(out, table)
    possible = sum(bool(entry.id) for entry in drafts)
    where = f", {written} written to {short_path(str(folder.resolve()))}" if possible else ""
    out.print(f"{possible} of {len(drafts)} commits can be a toggle{where}", style="bold")
    return 0


def _outcome(entry: RangeDraft, *, kept: bool) -> str:
    assert entry.draft is not None
    moment = "at load only" if entry.draft.at_load_only else "at load or live"
    part = f"; a part of the fix only, it leaves {entry.draft.leaves[0]}" if entry.draft.leaves else ""
    return f"{moment}{part}{'; the file that is there was kept' if kept else ''}"
