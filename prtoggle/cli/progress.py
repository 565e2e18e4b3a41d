"""A progress bar for whatever takes more than two seconds."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prtoggle.cli import console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a bar on stderr while the block runs, and none in a log; yields the function that advances it.

    That function takes what was just done, in a word.
    """
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.progress import Progress  # noqa: PLC0415 (a log needs none)

    with Progress(console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, advance=1, description=f"{title} {done}")
