"""What restoring a toggle has to do in modules that were loaded with it."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from prtoggle.code.quiet import parse
from prtoggle.definitions import bound_in, bound_names
from prtoggle.errors import PrToggleError, RestoreError
from prtoggle.installers.value import plan_edited
from prtoggle.live import find_attribute, has_made_members
from prtoggle.peeling import functions_behind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.definitions import ScopeNode
    from prtoggle.installers.base import Observer, Step
    from prtoggle.plans.births import Birth, Births, Unit
    from prtoggle.plans.site_maker import SiteMaker
    from prtoggle.plans.sites import Site
    from prtoggle.plans.slots import Slot


def born_plan(last: Sequence[Slot], births: Births, maker: SiteMaker) -> tuple[list[Site], list[Step]]:
    """The functions that were born with one of the toggles, and the steps that put constants back.

    Raises RestoreError when a toggle changed a statement that has run and cannot be undone.
    """
    sites: list[Site] = []
    steps: list[Step] = []
    for slot in last:
        for birth in births.with_slot(slot):
            if slot in birth.put_back:
                continue
            for unit in birth.units:
                if slot in unit.slots:
                    sites += [site for site in _sites(birth, unit, births, maker) if slot in site.shown]
            if birth.outside_of(slot):
                steps += _constants(slot, birth)
    return sites, steps


def _sites(birth: Birth, unit: Unit, births: Births, maker: SiteMaker) -> list[Site]:
    """The sites of the functions that were made from one edited function; none for dead code."""
    target = f"{birth.name}.{unit.qualname}"
    if unit.code is None:
        if birth.rewritten:
            raise RestoreError(
                f"{target} was compiled by a loader that rewrites sources, and its code cannot be told from "
                "the module's; end the process, or leave the toggle on",
                target=target,
            )
        return []
    _refuse_members(birth, unit)
    try:
        made = maker.born_sites(birth, unit)
    except RestoreError:
        raise
    except PrToggleError as error:
        raise RestoreError(f"{target} cannot be restored in this process: {error}", target=target) from error
    # Of several definitions of one name, those in branches that did not run made nothing.
    if not made and [other.qualname for other in birth.units].count(unit.qualname) == 1:
        _refuse_exchanged(birth, unit, births)
    return made


def _refuse_members(birth: Birth, unit: Unit) -> None:
    """Raise RestoreError when the unit has made the members of an enumeration, which nothing makes anew."""
    module, (owner, _, name) = sys.modules.get(birth.name), unit.qualname.rpartition(".")
    if module is None or not owner:
        return
    target = f"{birth.name}.{unit.qualname}"
    try:
        made = has_made_members(find_attribute(module, owner, target).raw, name)
    except PrToggleError:
        # The name is gone, and whoever holds the class is found by its code.
        return
    if made:
        raise RestoreError(
            f"{target} made the members of {owner} when {birth.name} was loaded, and they cannot be put "
            "back; end the process, or leave the toggle on",
            target=target,
        )


def _refuse_exchanged(birth: Birth, unit: Unit, births: Births) -> None:
    """Raise RestoreError when nothing runs the unit's code, and the function that should runs other code."""
    module, target = sys.modules.get(birth.name), f"{birth.name}.{unit.qualname}"
    if module is None:
        return
    try:
        raw = find_attribute(module, unit.qualname, target).raw
        found = functions_behind(
            raw,
            target,
            lambda function: (
                # A wrapper has taken over the name, and is not the function.
                "__wrapped__" not in vars(function)
                and function.__qualname__ == unit.qualname
                and function.__globals__ is vars(module)
            ),
        )
        exchanged = any(births.of_code(peeled.function.__code__) is None for peeled in found)
    except PrToggleError:
        # The name is gone, and the function with it.
        return
    if unit.decorated and not callable(raw) and not hasattr(type(raw), "__get__"):
        raise RestoreError(
            f"{target}: a decorator called the reverted function while {birth.name} was loaded, and what it "
            f"made of the answer (a {type(raw).__name__}) cannot be put back; end the process, or leave the "
            "toggle on",
            target=target,
        )
    if exchanged:
        raise RestoreError(
            f"{target}: somebody else exchanged the function's code after it was loaded reverted; nothing "
            "was changed, so that their change is not lost. Undo theirs first",
            target=target,
        )


def _constants(slot: Slot, birth: Birth) -> list[Step]:
    """Steps that give module constants and class attributes their unedited values."""
    module = sys.modules.get(birth.name)
    tree = parse(birth.source.text)
    steps: dict[str, Step] = {}
    for splice in birth.outside_of(slot):
        line = birth.source.line_of(splice.start)
        name = _assigned_at(tree, line)
        try:
            if module is None or not name:
                raise RestoreError("It is no assignment of a constant in a loaded module.")
            target = f"{birth.name}.{name}"
            if name not in steps:
                steps[name] = plan_edited(module, name, target, birth.edited, birth.source.text)
        except PrToggleError as error:
            raise RestoreError(
                f"{splice.target}: toggle {slot.id} changed line {line} of {birth.path}, a statement that "
                f"ran when {birth.name} was loaded, and it cannot be put back. {error} End the process, or "
                "leave the toggle on",
                target=splice.target,
            ) from error
    return list(steps.values())


def _assigned_at(scope: ScopeNode, line: int, prefix: str = "") -> str:
    """The qualified name that an assignment at that line of a module or class body binds, or ""."""
    for node in bound_in(scope):
        if not node.lineno <= line <= (node.end_lineno or line):
            continue
        if isinstance(node, ast.ClassDef):
            return _assigned_at(node, line, f"{prefix}{node.name}.")
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            return prefix + bound_names(node, scope)[0]
    return ""


def prepare_restore(site: Site, slots: frozenset[Slot], observer: Observer | None) -> None:
    """Build and verify what the site shows under `slots`. Raises RestoreError, with nothing changed."""
    try:
        site.prepare(slots, observer)
    except RestoreError:
        raise
    except PrToggleError as error:
        # Only a function that was loaded reverted, whose def line or kind the edit changed, comes here.
        raise RestoreError(
            f"{site.basis.target} cannot be restored in this process: {error}", target=site.basis.target
        ) from error
