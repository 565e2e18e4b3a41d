"""Changes that are made together, or not at all."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from prtoggle.plans.sites import Site
    from prtoggle.plans.slots import Slot


class Undo(list["Callable[[], object]"]):
    """What takes back the steps done so far; called in reverse, all of it, when the block fails."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            with contextlib.ExitStack() as stack:
                for action in self:
                    stack.callback(action)


def show(wanted: Mapping[Site, frozenset[Slot]], undo: Undo) -> None:
    """Let each function show its version under the given toggles."""
    for site, slots in wanted.items():
        before = site.shown
        site.show(slots)
        undo.append(partial(site.show, before))
