"""Compares today's code under a patch with its locked text, and finds the patch that does the same today."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from prtoggle.drift.carried import carry_over
from prtoggle.drift.classes import Drift, PatchDrift
from prtoggle.drift.elsewhere import Lost, look_elsewhere
from prtoggle.drift.governed import creep
from prtoggle.drift.healed_patch import merged_patch, same_definition
from prtoggle.drift.locked_code import Today, named_definition, reverted_text
from prtoggle.drift.merging import Merged, changes, merge_lines, same_lines
from prtoggle.drift.moved_constant import is_constant, look_for_constant
from prtoggle.drift.passed_lines import passed
from prtoggle.errors import PrToggleError, UnsupportedTargetError
from prtoggle.source.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.drift.lock_file import LockedTarget
    from prtoggle.drift.surroundings import Surroundings
    from prtoggle.spec import Patch, Toggle
    from prtoggle.static_check import PatchCheck

_NOTHING: Final = "nothing"


def classify(
    toggle: Toggle, patch: Patch, check: PatchCheck, locked: LockedTarget | None, around: Surroundings
) -> PatchDrift:
    """What became of the code under `patch` since it was locked. `check` says whether its edits fit today."""
    if locked is None:
        return PatchDrift(
            patch.target, Drift.NOT_LOCKED, "the lock file has no entry: `check --update` makes one"
        )
    reverted = reverted_text(locked.text, locked.name, patch)
    if reverted is None:
        why = "the spec was changed since it was locked; `check --update` locks it anew once it fits"
        return PatchDrift(patch.target, Drift.SPEC_CHANGED, why)
    lost = Lost(toggle, patch, locked, reverted)
    if not _is_readable(patch, around):
        why = "its module is no valid Python today, so there is nothing to compare"
        return PatchDrift(patch.target, Drift.UNREADABLE, why)
    today = _today(patch, locked, around)
    if today is not None:
        return _compared(lost, today, check, around)
    return look_for_constant(lost, around) if is_constant(lost) else look_elsewhere(lost, around)


def _is_readable(patch: Patch, around: Surroundings) -> bool:
    """Whether the target's module, where there is one, is source that can be parsed."""
    try:
        around.cache.get(around.cache.resolve(patch.target))
    except UnsupportedTargetError:
        return False
    except PrToggleError:
        pass
    return True


def _compared(lost: Lost, today: Today, check: PatchCheck, around: Surroundings) -> PatchDrift:
    """The class of a definition that is where it was."""
    _, patch, locked, reverted = lost
    if today.text == locked.text:
        return PatchDrift(patch.target, Drift.UNCHANGED)
    if same_definition(today.text, locked.text):
        return _reflowed(lost, today, check)
    if same_definition(today.text, reverted):
        return _already(patch)
    merged = merge_lines(*map(split_lines, (locked.text, today.text, reverted)))
    if merged.clean:
        return _near(lost, today, check, merged)
    found = look_elsewhere(lost, around, bodies_only=True)
    return found if found.healed is not None else _on(lost, today, check, merged)


def _today(patch: Patch, locked: LockedTarget, around: Surroundings) -> Today | None:
    """The locked definition at its place today; None when it, or its module, is not there."""
    try:
        target = around.cache.resolve(patch.target)
        source, tree = around.cache.get(target)
    except PrToggleError:
        return None
    definition = named_definition(source, tree, locked.name, locked.text)
    if definition is None or (not target.qualname and locked.name):
        return None
    was_function = not locked.text.startswith("class ") and "def " in locked.text.split("\n", 1)[0]
    is_binding = isinstance(definition.node, (ast.Assign, ast.AnnAssign))
    if was_function and is_binding:
        # The name lives on as an alias: what it stands for is the definition that is looked for.
        return None
    return Today(target.module, source, tree, definition)


def _already(patch: Patch) -> PatchDrift:
    return PatchDrift(
        patch.target,
        Drift.ALREADY_REVERTED,
        "today's code is what the toggle would make of it: the fix was taken out of the code itself",
        decision="if that was meant, retire the toggle; else the fix has to come back",
    )


def _reflowed(lost: Lost, today: Today, check: PatchCheck) -> PatchDrift:
    """Only layout and comments differ: an edit whose own lines look different is carried over by token."""
    target = lost.patch.target
    why = "only layout, comments or docstrings changed"
    own = reverted_text(today.text, lost.locked.name, lost.patch)
    fits = own is not None and same_definition(own, lost.reverted)
    if fits and not check.notes:
        return PatchDrift(target, Drift.REFLOWED, why)
    wanted = own if fits and own is not None else carry_over(lost.locked.text, lost.reverted, today.text)
    healed = None if wanted is None else merged_patch(lost.patch, today, wanted, same_target=True)
    decision = (
        "" if healed or fits else "the edit cannot be carried over by token: write it for the new layout"
    )
    return PatchDrift(
        target, Drift.REFLOWED, f"{why}, the edit's own lines too", healed=healed, decision=decision
    )


def _near(lost: Lost, today: Today, check: PatchCheck, merged: Merged) -> PatchDrift:
    """The merge is clean: the function was edited beside the fix, or the fix is out already."""
    target, wanted = lost.patch.target, "".join(merged.lines)
    if not merged.taken:
        return _moved_within(lost) if _still_stands(lost, today, check) else _already(lost.patch)
    if merged.there:
        return PatchDrift(
            target,
            Drift.EDITED_ON,
            "part of the fix is not in today's code any more, the rest is: it was reworked",
            decision="what does the function have to look like without the fix as it is today?",
        )
    own = reverted_text(today.text, lost.locked.name, lost.patch) if check.status == "ok" else None
    healed = merged_patch(lost.patch, today, wanted, same_target=True)
    crept = _crept(lost, today, own or wanted) if own or healed else []
    if crept:
        return _creep(lost, crept)
    if own is not None and same_definition(own, wanted):
        return _beside(
            lost, today, own, "the function was edited; the edit changes the lines that it changed"
        )
    if own is not None:
        return PatchDrift(
            target,
            Drift.SCOPE_CREEP,
            "the edit still finds a place, but does something else there than taking the fix out",
            healed=healed,
        )
    why = "the function was edited beside the fix, which merges out of it cleanly"
    decision = "" if healed else "the merged text is no valid edit of the target: write the edit anew"
    return PatchDrift(
        target, Drift.EDITED_NEAR if healed else Drift.EDITED_ON, why, healed=healed, decision=decision
    )


def _on(lost: Lost, today: Today, check: PatchCheck, merged: Merged) -> PatchDrift:
    """The merge conflicts. An edit whose own lines stand where they stood is all right even so."""
    target = lost.patch.target
    own = reverted_text(today.text, lost.locked.name, lost.patch) if check.status == "ok" else None
    if own is not None and _same_place(lost, today.text, own):
        crept = _crept(lost, today, own)
        if crept:
            return _creep(lost, crept)
        return _beside(lost, today, own, "the lines beside the edit changed; its own lines did not")
    conflict = merged.conflicts[0]
    before = _shown(conflict.base, conflict.ours)
    if not any(line.strip() for line in conflict.ours):
        return PatchDrift(
            target,
            Drift.GONE,
            f"the lines of the fix are gone, and not because it was reverted: {before}",
            decision="if the fix is no longer needed, retire the toggle; else write the edit anew",
        )
    now = _shown(conflict.ours, conflict.base)
    what = f"{now} was put in among them" if before == _NOTHING else f"{before} now reads {now}"
    return PatchDrift(
        target,
        Drift.EDITED_ON,
        f"the fix's own lines were changed: {what}",
        decision="what do these lines have to be without the fix? with it taken out they were "
        f"{_shown(conflict.theirs, conflict.ours)}",
    )


def _still_stands(lost: Lost, today: Today, check: PatchCheck) -> bool:
    """Whether the lines that the edit takes out are all in today's text, and the edit has its place."""
    fixed, reverted = split_lines(lost.locked.text), split_lines(lost.reverted)
    there = {line.strip() for line in split_lines(today.text)}
    out = [line.strip() for first, last, _, _ in changes(fixed, reverted) for line in fixed[first:last]]
    out = [line for line in out if line]
    return check.status == "ok" and bool(out) and there.issuperset(out)


def _moved_within(lost: Lost) -> PatchDrift:
    return PatchDrift(
        lost.patch.target,
        Drift.EDITED_ON,
        "the fix's own lines stand elsewhere in the function now",
        decision="does the edit still take the fix out there? accept it with `check --update`, or rewrite it",
    )


def _beside(lost: Lost, today: Today, own: str, why: str) -> PatchDrift:
    """An edit that changes the lines which it changed; unless those have passed what they have to do with."""
    moved = passed((lost.locked.text, lost.reverted), (today.text, own))
    if not moved:
        return PatchDrift(lost.patch.target, Drift.EDITED_NEAR, why)
    return PatchDrift(
        lost.patch.target,
        Drift.EDITED_ON,
        f"the fix's own lines were moved past {_short(moved)}",
        decision="does the edit still take the fix out there? accept it with `check --update`, or rewrite it",
    )


def _short(lines: Sequence[str]) -> str:
    return f"`{' / '.join(lines[:3])}{' ...' if len(lines) > 3 else ''}`"


def _shown(lines: Sequence[str], other: Sequence[str]) -> str:
    """The lines that only one side of a conflict has, short enough for a sentence."""
    there = {line.strip() for line in other}
    own = [line.strip() for line in lines if line.strip() and line.strip() not in there]
    own = [line for line in own if not line.startswith("#")] or own
    text = " / ".join(own[:3]) + (" ..." if len(own) > 3 else "")
    return f"`{text}`" if own else _NOTHING


def _crept(lost: Lost, today: Today, own: str) -> list[str]:
    try:
        return creep((lost.locked.text, lost.reverted), (today.text, own))
    except SyntaxError:
        return []


def _creep(lost: Lost, lines: Sequence[str]) -> PatchDrift:
    shown = " / ".join(lines[:4]) + (" ..." if len(lines) > 4 else "")
    return PatchDrift(
        lost.patch.target,
        Drift.SCOPE_CREEP,
        f"the edit now also takes out what a later commit wrote: `{shown}`",
        decision="narrow the edit so that these lines stay, or accept them with `check --update`",
    )


def _same_place(lost: Lost, text: str, own: str) -> bool:
    """Whether the edit's lines today are, line for line, the ones that it was locked with."""
    fixed, now = split_lines(lost.locked.text), split_lines(text)
    place = same_lines(fixed, now)
    then = _touched(fixed, split_lines(lost.reverted))
    return {place.get(line) for line in then} == set(_touched(now, split_lines(own)))


def _touched(fixed: Sequence[str], edited: Sequence[str]) -> list[int]:
    """The lines that an edit changes; the one before an insertion."""
    return [
        line
        for first, last, _, _ in changes(fixed, edited)
        for line in (range(first, last) if first < last else [max(0, first - 1)])
    ]
