"""Source patches of a module that is not loaded: planned on its text alone, nothing imported."""

from __future__ import annotations

import ast
import importlib.util
import sys
from typing import TYPE_CHECKING

from prtoggle.code.quiet import compiling, parse
from prtoggle.code.value_source import plan_value
from prtoggle.edits import plan_patch
from prtoggle.errors import TargetModuleError, UnsupportedTargetError
from prtoggle.plans.module_code import ModuleEdits
from prtoggle.source.integrity import edit_module
from prtoggle.source.source_text import ModuleSource, decode_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.plans.slots import Slot
    from prtoggle.source.splices import Splice
    from prtoggle.spec import Patch
    from prtoggle.target import ResolvedTarget


def edits_source(patch: Patch) -> bool:
    """Whether the patch is made in the source when its module is loaded."""
    return patch.changes_source or patch.mode == "value"


def normalised(data: bytes, path: str) -> ModuleSource:
    """The file as the compiler sees it: decoded, every line end a newline. Raises UnsupportedTargetError."""
    source = decode_source(data, path)
    if "\r" not in source.text:
        return source
    return ModuleSource(path, source.text.replace("\r\n", "\n").replace("\r", "\n"), source.encoding)


def plan_file(
    name: str, source: ModuleSource, wanted: Sequence[tuple[Slot, ResolvedTarget, Patch]]
) -> ModuleEdits:
    """What all `wanted` patches make of a file. Raises a PrToggleError leaf naming target and toggles."""
    with compiling():
        return _planned(name, source, wanted)


def _planned(
    name: str, source: ModuleSource, wanted: Sequence[tuple[Slot, ResolvedTarget, Patch]]
) -> ModuleEdits:
    try:
        tree = ast.parse(source.text)
    except (SyntaxError, ValueError) as error:
        target = wanted[0][1].text
        raise UnsupportedTargetError(
            f"{target}: {source.path} is no valid Python: {error}", target=target
        ) from error
    splices: list[Splice] = []
    for slot, resolved, patch in wanted:
        plan = plan_value if patch.mode == "value" else plan_patch
        splices += plan(source, tree, resolved, patch, slot.id)
    done = edit_module(source, tree, splices)
    return ModuleEdits(name, source, done.splices, {slot.id: slot for slot, _, _ in wanted})


def refuse_missing_imports(source: ModuleSource, resolved: ResolvedTarget, target: str) -> None:
    """Raise TargetModuleError when the module could not be imported, for want of a module it needs.

    Looked at are the imports that surely run: those that stand in the module itself, not in a block.
    """
    for statement in parse(source.text).body:
        for name in _imported(statement):
            if name not in sys.modules and not _is_there(name):
                raise TargetModuleError(
                    f"{target}: module {resolved.module} cannot be imported: line {statement.lineno} of "
                    f"{source.path} imports {name}, and there is no module of that name",
                    target=target,
                    module=resolved.module,
                )


def _imported(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, ast.ImportFrom) and not statement.level and statement.module:
        return [statement.module.partition(".")[0]]
    return []


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        # A finder that fails says nothing about the module; its import will.
        return True
