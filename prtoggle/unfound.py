"""Toggles that wait for a module which no finder knows.

A program may find its package only once it has completed `sys.path`, and a launcher may do without it, so
that a process does not end for this. But a package that is misspelt would be waited for to the end, so that
the end is when it has to be told.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from prtoggle import engine
from prtoggle.errors import TargetModuleError
from prtoggle.target import split_name

if TYPE_CHECKING:
    from collections.abc import Container

#: How a message begins, after the toggle's id, that says this of one.
AT_NO_TIME: Final = "was at no time in effect"


def unfound(ids: Container[str]) -> list[tuple[str, str]]:
    """Of the toggles `ids` those that wait for a module which is nowhere now, each with what is missing."""
    found = []
    for state in engine.states():
        for patch in state.patches if state.toggle.id in ids else ():
            if patch.state == "armed":
                try:
                    split_name(patch.target)
                except TargetModuleError as error:
                    found.append((state.toggle.id, str(error)))
    return found


def tell(ids: Container[str]) -> None:
    """Says on descriptor 2 which of the toggles `ids` were at no time in effect, now that a process ends."""
    for toggle_id, missing in unfound(ids):
        text = f"prtoggle: {toggle_id} {AT_NO_TIME} in process {os.getpid()}: {missing}\n"
        with contextlib.suppress(OSError):
            os.write(2, text.encode(errors="backslashreplace"))
