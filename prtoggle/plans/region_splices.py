"""The splices that a patch makes in one function's lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prtoggle.code.quiet import parse
from prtoggle.edits import plan_patch
from prtoggle.errors import EditError, PrToggleError
from prtoggle.line_edits import plan_lines
from prtoggle.source.source_text import ModuleSource
from prtoggle.source.splices import moved_splice

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from prtoggle.code.region import Region
    from prtoggle.source.splices import Splice
    from prtoggle.spec import Patch
    from prtoggle.target import ResolvedTarget


class Wanted(NamedTuple):
    """One patch of one toggle for one loaded module."""

    module: ModuleType
    resolved: ResolvedTarget
    patch: Patch
    toggle_id: str

    @property
    def target(self) -> str:
        """The target as the spec writes it."""
        return self.patch.target


def splices_in(region: Region, wanted: Wanted, *, nested: bool) -> tuple[Splice, ...]:
    """The patch's splices in one function's region."""
    target, patch, toggle_id = wanted.resolved.text, wanted.patch, wanted.toggle_id
    if not nested:
        found = plan_lines(region.lines, region.start + 1, region.end, target, patch, toggle_id)
        if found is not None:
            return found
    source = region.source
    first = None if nested else region.start + 1 - region.frame.shift
    try:
        splices = plan_patch(source, parse(source.text), *wanted[1:], firstlineno=first)
    except (PrToggleError, SyntaxError):
        return _splices_in_module(region, wanted, nested=nested)
    return tuple(moved_splice(splice, -len(region.frame.prefix)) for splice in splices)


def _splices_in_module(region: Region, wanted: Wanted, *, nested: bool) -> tuple[Splice, ...]:
    """The same, matched in the whole module: with the file's line numbers in what it raises."""
    source = ModuleSource(region.path, "".join(region.lines))
    first = None if nested else region.start + 1
    splices = plan_patch(source, parse(source.text), *wanted[1:], firstlineno=first)
    return within(region, source, splices, wanted.target)


def within(
    region: Region, source: ModuleSource, splices: Sequence[Splice], target: str
) -> tuple[Splice, ...]:
    """The module's splices, counted from the region's beginning; EditError when one lies beyond it."""
    begin, end = source.starts[region.start], source.starts[region.end]
    for splice in splices:
        if splice.start < begin or splice.end > end:
            raise EditError(
                f"{target}: an edit at line {source.line_of(splice.start)} of {region.path} reaches beyond "
                "the function that it is about; write one edit for each function",
                target=target,
            )
    return tuple(moved_splice(splice, -begin) for splice in splices)
