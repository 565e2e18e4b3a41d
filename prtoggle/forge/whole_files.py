"""Files that a fix added or removed as a whole, or that are gone today: a toggle leaves them as they are."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from prtoggle.drift.candidates import package_files
from prtoggle.errors import PrToggleError
from prtoggle.forge.fix import LeftOut
from prtoggle.source.source_text import read_source

if TYPE_CHECKING:
    from pathlib import Path

    from prtoggle.forge.fix import FixedFile
    from prtoggle.forge.places import Place


def whole_file(file: FixedFile, place: Place | None, root: Path) -> LeftOut:
    """Why nothing is done about a file that the fix added or removed, or that is gone today."""
    if file.before is None and place is not None:
        users = _importers(place.module, place.folder if place.folder != root else root)
        used = f"; {users[0]} imports it" if users else "; nothing of the package imports it"
        return LeftOut(file.path_after, f"is a module that the fix added: it stays{used}", blocks=False)
    if file.after is None:
        return LeftOut(file.path_before, "was removed by the fix, and a toggle cannot bring a module back")
    return LeftOut(file.path_after, "is gone from today's code")


def _importers(module: str, folder: Path) -> list[str]:
    name = module.rpartition(".")[2]
    found = []
    for other, path in package_files(folder):
        if other == module:
            continue
        try:
            text = read_source(path).text
            tree = ast.parse(text) if name in text else None
        except (PrToggleError, SyntaxError, ValueError, OSError):
            continue
        if tree is not None and any(_imports(node, module, name) for node in ast.walk(tree)):
            found.append(other)
    return found


def _imports(node: ast.AST, module: str, name: str) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name == module for alias in node.names)
    if not isinstance(node, ast.ImportFrom):
        return False
    return (node.module or "").rpartition(".")[2] == name or any(alias.name == name for alias in node.names)
