"""Plans patches of source text for tests, without files and imports."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from prtoggle.edits import ModuleSource, apply_splices, edit_module, plan_patch
from prtoggle.spec import Edit, Patch
from prtoggle.target import ResolvedTarget

if TYPE_CHECKING:
    from prtoggle.source.splices import Splice


def make_source(text: str, path: str = "hc.py") -> ModuleSource:
    return ModuleSource(path, text)


def plan(
    text: str, qualname: str, patch: Patch, *, toggle_id: str = "1", line: int | None = None
) -> tuple[Splice, ...]:
    source = make_source(text)
    target = ResolvedTarget("hc", qualname, Path(source.path))
    return plan_patch(source, ast.parse(text), target, patch, toggle_id, firstlineno=line)


def edits(
    *pairs: tuple[str, str], mode: str = "replacement", preamble: str = "", occurrence: int | None = None
) -> Patch:
    made = tuple(Edit(match, text, mode, occurrence) for match, text in pairs)  # type: ignore[arg-type]
    return Patch("hc.f", made, preamble=preamble)


def edited(text: str, qualname: str, patch: Patch) -> str:
    """The text after the patch; it is checked as the product checks it."""
    source = make_source(text)
    splices = plan(text, qualname, patch)
    result = edit_module(source, ast.parse(text), splices).text
    assert result == apply_splices(text, splices)
    return result


def replaced(text: str, match: str, replacement: str, qualname: str = "f") -> str:
    return edited(text, qualname, edits((match, replacement)))
