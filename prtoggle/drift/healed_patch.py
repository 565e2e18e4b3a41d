"""The patch that leads from today's text of a definition to the text without the fix."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prtoggle.drift.edit_maker import edits_between, same_code
from prtoggle.drift.functions import parsed_block, shape
from prtoggle.drift.locked_code import reverted_text
from prtoggle.errors import PrToggleError
from prtoggle.spec import Patch
from prtoggle.target import ResolvedTarget

if TYPE_CHECKING:
    from prtoggle.drift.locked_code import Today


def same_definition(one: str, other: str) -> bool:
    """Whether two texts of a definition (or of a module) are the same program, whatever its name."""
    first, second = parsed_block([one]), parsed_block([other])
    if first is None or second is None:
        return same_code(one, other)
    return shape(first) == shape(second)


def spelled(like: str, module: str, qualname: str) -> str:
    """A target written as `like` is: with a colon or without."""
    if not qualname:
        return module
    return f"{module}{':' if ':' in like else '.'}{qualname}"


def moved_patch(patch: Patch, today: Today, reverted: str) -> Patch | None:
    """The patch as it is, of another target; None unless it does there what it did."""
    moved = replace(patch, target=spelled(patch.target, today.module, today.definition.qualname))
    done = reverted_text(today.text, today.definition.qualname, moved)
    return moved if done is not None and same_definition(done, reverted) else None


def merged_patch(patch: Patch, today: Today, wanted: str, *, same_target: bool) -> Patch | None:
    """Edits that give the definition the (dedented) text `wanted`; None when there are none for it.

    `same_target` keeps the spelling of the patch's own target, which may be another name of the definition.
    """
    text = today.with_text(wanted)
    try:
        ast.parse(text)
        target = ResolvedTarget(today.module, today.definition.qualname, Path(today.source.path))
        edits = edits_between(today.source, today.tree, target, text)
    except (PrToggleError, SyntaxError, ValueError):
        return None
    name = patch.target if same_target else spelled(patch.target, today.module, today.definition.qualname)
    return Patch(name, edits)
