"""A target that is not where it was: which definition it has become, on evidence only."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.definitions import imported_module, last_name
from prtoggle.drift.candidates import WORDS, Candidate, Evidence, Wanted, search
from prtoggle.drift.classes import Drift, PatchDrift
from prtoggle.drift.healed_patch import merged_patch, moved_patch
from prtoggle.drift.likeness import is_test_module, keeps_parameters, likeness
from prtoggle.drift.locked_code import Today, named_definition
from prtoggle.drift.merging import changes, merge_lines
from prtoggle.source.source_text import split_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.drift.lock_file import LockedTarget
    from prtoggle.drift.surroundings import Surroundings
    from prtoggle.spec import Patch, Toggle


class Lost(NamedTuple):
    """A patch whose definition is not at its place, its locked text, and that text without the fix."""

    toggle: Toggle
    patch: Patch
    locked: LockedTarget
    reverted: str


def look_elsewhere(lost: Lost, around: Surroundings, *, bodies_only: bool = False) -> PatchDrift:
    """Where the definition went.

    `bodies_only` is for a definition that is still there, with something else in it: then nothing but its
    exact body counts, in a function that its module calls.
    """
    found = search(wanted_of(lost), around.files_near(lost.patch.target))
    # What was there beside it when it was locked is something else, however alike.
    new = [candidate for candidate in found if candidate.target not in lost.locked.others]
    if not is_test_module(lost.patch.target.replace(":", ".")):
        new = [candidate for candidate in new if not is_test_module(candidate.module)]
    if bodies_only:
        new = [candidate for candidate in new if _is_called(lost, candidate, around)]
    for level, drift in ((Evidence.BODY_AND_NAME, Drift.MOVED), (Evidence.BODY, Drift.RENAMED)):
        same = _nearest(lost, [candidate for candidate in new if candidate.best == level])
        if len(same) == 1:
            return _pure(lost, same[0], drift, found)
        if same:
            return _several(lost, same, drift, "have the same body")
    if bodies_only:
        return PatchDrift(lost.patch.target, Drift.EDITED_ON)
    for level in (Evidence.NAME, Evidence.LINES):
        likely = [candidate for candidate in new if level in candidate.evidence]
        merged = _merged(lost, [candidate for candidate in likely if _bears_out(lost, candidate, level)])
        likely = _nearest(lost, [candidate for candidate, _ in merged])
        if len(likely) == 1:
            return _edited(lost, *next(pair for pair in merged if pair[0] is likely[0]), found)
        if likely:
            return _several(lost, likely, Drift.MOVED, "merge cleanly")
    named = _nearest(lost, [candidate for candidate in new if Evidence.NAME in candidate.evidence])
    return _changed(lost, named[0], found) if len(named) == 1 else _gone(lost, found)


def _bears_out(lost: Lost, candidate: Candidate, level: Evidence) -> bool:
    """Whether the rest of the text says what a name or the edited lines alone do not."""
    wanted = wanted_of(lost)
    alike = likeness(wanted.lines, wanted.edited, candidate.definition.lines)
    return alike.bears_a_name if level is Evidence.NAME else alike.is_near


def _is_conclusive(lost: Lost, candidate: Candidate) -> bool:
    """Whether more than a likeness says that an edited definition, without the fix by merge, is the target.

    That is a comment with the number of the pull request, every line of the locked text beside the edit, or
    the name together with the parameters.
    """
    wanted = wanted_of(lost)
    lines = candidate.definition.lines
    return (
        Evidence.MENTION in candidate.evidence
        or likeness(wanted.lines, wanted.edited, lines).is_whole
        or (Evidence.NAME in candidate.evidence and keeps_parameters(wanted.lines, lines))
    )


def _changed(lost: Lost, candidate: Candidate, found: Sequence[Candidate]) -> PatchDrift:
    """One definition has the name, and the fix does not merge out of it."""
    return PatchDrift(
        lost.patch.target,
        Drift.MOVED,
        f"seems to be {candidate.target} now ({WORDS[candidate.best]}), with the fix's own lines changed",
        tuple(found),
        decision=f"write the edit for {candidate.target} as it is today, or retire the toggle",
    )


def wanted_of(lost: Lost) -> Wanted:
    """What is known of the definition that is looked for."""
    fixed = split_lines(lost.locked.text)
    edited = [line for i, j, _, _ in changes(fixed, split_lines(lost.reverted)) for line in fixed[i:j]]
    return Wanted(lost.locked.name, fixed, edited, mentions(lost.toggle))


def _nearest(lost: Lost, same: list[Candidate]) -> list[Candidate]:
    """Of several that are as good, those with the whole qualified name, if there is one."""
    named = [candidate for candidate in same if candidate.definition.qualname == lost.locked.name]
    return named if len(named) == 1 else same


def _is_called(lost: Lost, candidate: Candidate, around: Surroundings) -> bool:
    """Whether what the target's name stands for today calls the candidate: it passed its work on to it."""
    target = around.cache.resolve(lost.patch.target)
    source, tree = around.cache.get(target)
    today = named_definition(source, tree, lost.locked.name, lost.locked.text)
    if today is None:
        return False
    name = candidate.definition.name
    own = candidate.module == target.module
    names = {name} if own and candidate.definition.qualname != lost.locked.name else set()
    owners = {"self", "cls", candidate.definition.qualname.rpartition(".")[0].rpartition(".")[2]} - {""}
    owners |= set() if own else {candidate.module.rpartition(".")[2]}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = imported_module(node, target.module, is_package=target.is_package)
            for alias in node.names:
                if module == candidate.module and alias.name == name:
                    names.add(alias.asname or name)
                elif f"{module}.{alias.name}" == candidate.module:
                    owners.add(alias.asname or alias.name)
        elif isinstance(node, ast.Import):
            owners |= {one.asname for one in node.names if one.name == candidate.module and one.asname}
    called = [node.func for node in ast.walk(today.node) if isinstance(node, ast.Call)]
    return any(
        (isinstance(item, ast.Name) and item.id in names)
        or (isinstance(item, ast.Attribute) and item.attr == name and last_name(item.value) in owners)
        for item in called
    )


def mentions(toggle: Toggle) -> tuple[str, ...]:
    """How a comment would name the fix: its number behind a "#"."""
    numbers = [found[1] for link in toggle.links if (found := re.search(r"#(\d+)", link))]
    own = re.match(r"\d+", toggle.id)
    return tuple(dict.fromkeys(f"#{number}" for number in [*numbers, *([own[0]] if own else [])]))


def _today(candidate: Candidate) -> Today:
    return Today(candidate.module, candidate.source, candidate.tree, candidate.definition)


def _pure(lost: Lost, candidate: Candidate, drift: Drift, found: Sequence[Candidate]) -> PatchDrift:
    """The same body elsewhere: the patch goes with it as it is."""
    today = _today(candidate)
    healed = moved_patch(lost.patch, today, lost.reverted)
    if healed is None:
        merged = merge_lines(*(split_lines(text) for text in (lost.locked.text, today.text, lost.reverted)))
        if merged.clean:
            healed = merged_patch(lost.patch, today, "".join(merged.lines), same_target=False)
    why = f"is now {candidate.target}: {WORDS[candidate.best]}"
    decision = "" if healed else f"the edit has no single place in {candidate.target}; write it anew there"
    return PatchDrift(lost.patch.target, drift, why, tuple(found), healed, decision)


def _merged(lost: Lost, likely: Sequence[Candidate]) -> list[tuple[Candidate, str]]:
    """The candidates out of which the fix merges cleanly, with their text without it."""
    done = []
    for candidate in likely:
        texts = (lost.locked.text, _today(candidate).text, lost.reverted)
        merged = merge_lines(*map(split_lines, texts))
        if merged.clean and merged.taken and not merged.there:
            done.append((candidate, "".join(merged.lines)))
    return done


def _edited(lost: Lost, candidate: Candidate, wanted: str, found: Sequence[Candidate]) -> PatchDrift:
    """A definition that moved or was renamed, and edited: the merge decides."""
    named = Evidence.NAME in candidate.evidence
    evidence = " and ".join(WORDS[item] for item in candidate.evidence)
    if not _is_conclusive(lost, candidate):
        return PatchDrift(
            lost.patch.target,
            Drift.MOVED if named else Drift.RENAMED,
            f"may be {candidate.target} now, edited since: {evidence}, and much of the rest is alike",
            tuple(found),
            decision=f"if it is {candidate.target}, make that the target and fit the edit; "
            "else name the right one, or retire the toggle",
        )
    healed = merged_patch(lost.patch, _today(candidate), wanted, same_target=False)
    why = f"is now {candidate.target}, edited since: {evidence}, and the fix merges out of it cleanly"
    decision = "" if healed else f"the merged text of {candidate.target} cannot be written as edits"
    return PatchDrift(
        lost.patch.target, Drift.MOVED if named else Drift.RENAMED, why, tuple(found), healed, decision
    )


def _several(lost: Lost, same: Sequence[Candidate], drift: Drift, what: str) -> PatchDrift:
    names = ", ".join(candidate.target for candidate in same[:5])
    return PatchDrift(
        lost.patch.target,
        drift,
        f"is not there, and {len(same)} definitions {what}: {names}",
        tuple(same),
        decision=f"say which of them the target is: {names}",
    )


def _gone(lost: Lost, found: Sequence[Candidate]) -> PatchDrift:
    if not found:
        return PatchDrift(
            lost.patch.target,
            Drift.GONE,
            "is not there, and nothing in its package has its body, its name or the edited lines",
            decision="if the fix is no longer in the code, retire the toggle; else name its new target",
        )
    ranked = "; ".join(
        f"{candidate.target} ({', '.join(WORDS[item] for item in candidate.evidence)})"
        for candidate in found[:3]
    )
    return PatchDrift(
        lost.patch.target,
        Drift.GONE,
        f"is not there; what may have become of it, best first: {ranked}",
        tuple(found),
        decision="nothing there is conclusive: read the candidates, and write the edit for the right one",
    )
