"""A constant that its module does not assign any more: where the module has it from now."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from prtoggle.definitions import imported_module, locate
from prtoggle.drift.candidates import cached_source
from prtoggle.drift.classes import Drift, PatchDrift
from prtoggle.drift.functions import of_node, parsed_block
from prtoggle.drift.healed_patch import moved_patch, spelled
from prtoggle.drift.locked_code import Today, named_definition
from prtoggle.errors import PrToggleError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prtoggle.drift.elsewhere import Lost
    from prtoggle.drift.surroundings import Surroundings


def is_constant(lost: Lost) -> bool:
    """Whether what was locked is an assignment."""
    return isinstance(parsed_block([lost.locked.text]), (ast.Assign, ast.AnnAssign))


def look_for_constant(lost: Lost, around: Surroundings) -> PatchDrift:
    """What became of it: imported from where it is assigned now, assigned elsewhere, or gone."""
    target, name = lost.patch.target, lost.locked.name
    imported = _imported_from(lost, around)
    homes = list(_homes(lost, around))
    chosen = [home for home in homes if home.module == imported]
    if len(chosen) == 1:
        new = spelled(target, imported, name)
        same = chosen[0].text == lost.locked.text
        healed = moved_patch(lost.patch, chosen[0], lost.reverted) if same else None
        why = f"is now {new}: the module imports it from there"
        decision = "" if healed else f"its text has changed: write the edit for {new} as it is today"
        return PatchDrift(target, Drift.MOVED, why, healed=healed, decision=decision)
    where = ", ".join(spelled(target, home.module, name) for home in homes[:4])
    if where:
        why = f"is not assigned there any more, and not imported either; it is assigned at {where}"
        return PatchDrift(
            target, Drift.GONE, why, decision="name the one that is meant, or retire the toggle"
        )
    return PatchDrift(
        target,
        Drift.GONE,
        f"is not assigned there any more, and no module of its package assigns {name}",
        decision="if the fix is no longer in the code, retire the toggle; else name its new target",
    )


def _imported_from(lost: Lost, around: Surroundings) -> str:
    """The module that the target's module has the name from, "" without one."""
    try:
        target = around.cache.resolve(lost.patch.target)
        _, tree = around.cache.get(target)
    except PrToggleError:
        return ""
    for node in reversed(tree.body):
        if isinstance(node, ast.ImportFrom) and any(
            alias.name == lost.locked.name and alias.asname in (None, alias.name) for alias in node.names
        ):
            return imported_module(node, target.module, is_package=target.is_package)
    return ""


def _homes(lost: Lost, around: Surroundings) -> Iterator[Today]:
    name = lost.locked.name
    for module, path in around.files_near(lost.patch.target):
        source = cached_source(path)
        try:
            tree = ast.parse(source.text) if source is not None and name in source.text else None
        except (SyntaxError, ValueError):
            continue
        if source is None or tree is None:
            continue
        nodes = [node for node in locate(tree, name) if node.kind == "assignment"]
        if nodes:
            definition = named_definition(source, tree, name, lost.locked.text)
            yield Today(module, source, tree, definition or of_node(source, nodes[0]))
