"""Takes a fix out of today's code, on paper: the edits, what they leave in, and what stands against them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from prtoggle.drift.candidates import Evidence, Wanted, package_files, search
from prtoggle.drift.edit_maker import edits_between
from prtoggle.drift.functions import Definition, definition_at
from prtoggle.drift.likeness import is_test_module, likeness
from prtoggle.drift.merging import changes, indented, merge_lines
from prtoggle.edits import compilable_module, merge, plan_patch
from prtoggle.errors import EditOverlapError, PrToggleError
from prtoggle.forge.ages import ages_of
from prtoggle.forge.draft_value import Draft, DraftPatch
from prtoggle.forge.files import files_around, surroundings_of
from prtoggle.forge.fix import LeftOut
from prtoggle.forge.function_merge import first_conflict, merged_function
from prtoggle.forge.later_use import still_used, used_later
from prtoggle.forge.moves import moved_between
from prtoggle.forge.places import Place, place_of
from prtoggle.forge.units import compare
from prtoggle.forge.whole_files import whole_file
from prtoggle.rebinding import in_a_branch, may_be_rebound_at, rebound_at
from prtoggle.source.source_text import ModuleSource, read_source, split_lines
from prtoggle.spec import Patch
from prtoggle.target import ResolvedTarget

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from prtoggle.drift.candidates import Candidate
    from prtoggle.forge.ages import LineAges
    from prtoggle.forge.fix import Fix, FixedFile
    from prtoggle.forge.standing import Surroundings
    from prtoggle.forge.units import Comparison, FunctionUnit
    from prtoggle.source.splices import Splice


#: A note on a function that stands in an `if` or a `try` beside another of its name.
IN_A_BRANCH: Final = "in effect only where its branch is the one that the module takes"


class _Today(NamedTuple):
    place: Place
    source: ModuleSource
    tree: ast.Module


def make_draft(fix: Fix, root: Path, renames: Mapping[str, str]) -> Draft:
    """The revert of `fix` in the files below `root`. Writes nothing; what fails is in `Draft.left_out`.

    An import that may run a module goes out with the fix; where later code needs it, it is left in, and
    `Draft.leaves` names it.
    """
    moved = moved_between(fix.files)
    if moved:
        why = "only moves code, and changes none of it: undone, it would hide what was changed there since"
        return Draft(
            fix, left_out=[*fix.left_out, LeftOut(f"the commit, between {' and '.join(moved)},", why)]
        )
    draft = _draft(fix, root, renames, lenient=False)
    if draft.possible:
        return draft
    partial = _draft(fix, root, renames, lenient=True)
    return partial if partial.possible else draft


def _draft(fix: Fix, root: Path, renames: Mapping[str, str], *, lenient: bool) -> Draft:
    draft = Draft(fix, left_out=list(fix.left_out))
    places: list[Place] = []
    ages = ages_of(fix, root)
    for file in fix.files:
        place = place_of(root, file.path_after, renames) if file.path_after else None
        if place is not None and file.before is not None and file.after is not None:
            places.append(place)
            _take_out(draft, file, surroundings_of(place, root, ages), place, lenient=lenient)
        else:
            draft.left_out.append(whole_file(file, place, root))
    if draft.patches:
        _prove(draft, places, root, ages)
    return draft


def _take_out(draft: Draft, file: FixedFile, around: Surroundings, place: Place, *, lenient: bool) -> None:
    assert file.before is not None
    assert file.after is not None
    try:
        comparison = compare(file.before, file.after, around, lenient=lenient)
        source = read_source(place.file)
        today = _Today(place, source, ast.parse(source.text))
    except (SyntaxError, ValueError, PrToggleError) as error:
        draft.left_out.append(LeftOut(file.path_after, f"cannot be parsed: {error}"))
        return
    draft.stays += [f"{place.module}.{name}" for name in comparison.stays]
    for name in comparison.leaves:
        effect = "run a module" if name.startswith(("import ", "from ")) else "have an effect"
        draft.leaves += (f"{place.module}.{name}, which may {effect}",)
    kept = list(draft.patches), list(draft.left_out)
    for unit in comparison.functions:
        _function(draft, unit, today)
    if not comparison.undone:
        return
    _loose(draft, comparison, file.after, today)
    if _overlap(draft, today):
        # What stands between two functions needs lines of theirs as context: then the module is one target.
        draft.patches[:], draft.left_out[:] = kept
        _loose(draft, comparison, file.after, today, functions=True)


def _overlap(draft: Draft, today: _Today) -> bool:
    """Whether the patches of the module want the same lines."""
    mine = [patch for patch in draft.patches if patch.target.file == today.place.file]
    try:
        merge([splice for item in mine for splice in _planned(item, today.source, today.tree)])
    except EditOverlapError:
        return True
    return False


def _planned(item: DraftPatch, source: ModuleSource, tree: ast.Module) -> tuple[Splice, ...]:
    return plan_patch(source, tree, item.target, item.patch, "draft")


def _function(draft: Draft, unit: FunctionUnit, today: _Today) -> None:
    """The patch of one function: three texts of it merged, wherever it stands today."""
    what = f"{today.place.module}.{unit.qualname}"
    found = definition_at(today.source, today.tree, unit.qualname, unit.number)
    notes: tuple[str, ...] = ()
    if found is None:
        today, found, notes = _elsewhere(unit, today)
    if found is None:
        draft.left_out.append(LeftOut(what, "is gone: " + notes[0]))
        return
    merged, base = merged_function(unit.after, found.lines, unit.before)
    if not merged.clean:
        draft.left_out.append(LeftOut(what, first_conflict(merged)))
        return
    if not merged.taken:
        draft.left_out.append(LeftOut(what, "is without the fix already in today's code", blocks=False))
        return
    if merged.there:
        draft.left_out.append(LeftOut(what, "was reworked: part of the fix is not in today's code any more"))
        return
    lines = today.source.lines
    end = found.first - 1 + len(found.lines)
    wanted = "".join([*lines[: found.first - 1], *indented(merged.lines, base), *lines[end:]])
    target = ResolvedTarget(today.place.module, found.qualname, today.place.file)
    if in_a_branch(today.tree, found.qualname, found.node.lineno):
        notes += (IN_A_BRANCH,)
    elif line := may_be_rebound_at(today.tree, found.qualname, [found.node.lineno]):
        notes += (f"in force only if line {line} does not give the name to something else",)
    _add(draft, today, [target], wanted, at_load_only=unit.at_load_only, notes=notes)


def _elsewhere(unit: FunctionUnit, today: _Today) -> tuple[_Today, Definition | None, tuple[str, ...]]:
    """The function under another name or in another module, where exactly one has its body or its name."""
    found = [
        candidate
        for candidate in search(Wanted(unit.qualname, unit.after), package_files(today.place.folder))
        if _is_evidence(candidate, unit) and not is_test_module(candidate.module)
    ]
    best = [candidate for candidate in found if candidate.best == found[0].best]
    if len(best) == 1:
        chosen = best[0]
        place = Place(chosen.module, today.place.file.__class__(chosen.source.path), today.place.folder)
        note = f"was {today.place.module}.{unit.qualname} when it was fixed"
        return _Today(place, chosen.source, chosen.tree), chosen.definition, (note,)
    named = ", ".join(candidate.target for candidate in best[:4])
    why = f"it may be any of {named}" if best else "nothing in the package has its body or its name"
    return today, None, (why,)


def _is_evidence(candidate: Candidate, unit: FunctionUnit) -> bool:
    """Whether body or name speak for the candidate; a name does with half of the function's other lines."""
    if candidate.best > Evidence.NAME:
        return True
    changed = [
        line for first, last, _, _ in changes(unit.after, unit.before) for line in unit.after[first:last]
    ]
    alike = likeness(unit.after, changed, candidate.definition.lines)
    return candidate.best is Evidence.NAME and alike.bears_a_name


def _loose(
    draft: Draft, comparison: Comparison, after: str, today: _Today, *, functions: bool = False
) -> None:
    """The patch of everything outside of functions (or of all), which goes in at load only."""
    names = [change.what for change in comparison.undone]
    names += [unit.qualname for unit in comparison.functions if functions]
    what = ", ".join(dict.fromkeys(names))
    base, theirs = _unix(after), _unix(comparison.loose_text(after, functions=functions))
    merged = merge_lines(base, _unix(today.source.text), theirs)
    if not merged.clean:
        draft.left_out.append(LeftOut(f"{today.place.module}: {what}", first_conflict(merged)))
        return
    if not merged.taken:
        draft.left_out.append(
            LeftOut(f"{today.place.module}: {what}", "is without the fix already", blocks=False)
        )
        return
    wanted = "".join(line.rstrip("\n") + today.source.newline for line in merged.lines)
    targets = [
        ResolvedTarget(today.place.module, name, today.place.file) for name in _scopes(comparison, today)
    ]
    _add(draft, today, targets, wanted, at_load_only=True, notes=(f"at load only: {what}",))


def _unix(text: str) -> list[str]:
    return [line.rstrip("\r\n") + "\n" for line in split_lines(text)]


def _scopes(comparison: Comparison, today: _Today) -> Iterator[str]:
    """The class that holds all the changes, where there is one, and the module."""
    names = {change.what.partition(",")[0].rpartition(".")[0] for change in comparison.undone}
    if len(names) == 1 and "" not in names:
        name = names.pop()
        if definition_at(today.source, today.tree, name) is not None:
            yield name
    yield ""


def _add(
    draft: Draft,
    today: _Today,
    targets: Sequence[ResolvedTarget],
    wanted: str,
    *,
    at_load_only: bool,
    notes: tuple[str, ...] = (),
) -> None:
    """A patch of the first of the targets that it can be written for."""
    failed: PrToggleError | None = None
    for target in targets:
        try:
            edits = edits_between(today.source, today.tree, target, wanted)
        except PrToggleError as error:
            failed = error
            continue
        draft.patches.append(DraftPatch(Patch(target.text, edits), target, at_load_only, notes))
        return
    draft.left_out.append(LeftOut(targets[-1].text, str(failed)))


def _not_in_force(
    mine: Sequence[DraftPatch],
    planned: Mapping[int, Sequence[Splice]],
    source: ModuleSource,
    tree: ast.Module,
) -> Iterator[LeftOut]:
    """Functions whose name a later line gives to something else: a revert would change nothing."""
    for item in mine:
        lines = [source.line_of(splice.start) for splice in planned[id(item)]]
        line = 0 if item.at_load_only else rebound_at(tree, item.target.qualname, lines)
        if line:
            why = f"is not in force: line {line} of its module gives the name to something else"
            yield LeftOut(item.patch.target, why)


def _prove(draft: Draft, places: Sequence[Place], root: Path, ages: LineAges) -> None:
    """Do all patches together, compile what comes out, and look for names that others still use."""
    edited: dict[Path, str] = {}
    modules: dict[Path, str] = {}
    for file in dict.fromkeys(patch.target.file for patch in draft.patches):
        source = read_source(file)
        tree = ast.parse(source.text)
        mine = [patch for patch in draft.patches if patch.target.file == file]
        modules[file] = mine[0].target.module
        try:
            planned = {id(item): _planned(item, source, tree) for item in mine}
            draft.left_out += _not_in_force(mine, planned, source, tree)
            splices = [splice for item in mine for splice in planned[id(item)]]
            edited[file] = compilable_module(source, tree, splices).text
            compile(edited[file], str(file), "exec", dont_inherit=True)
        except (PrToggleError, SyntaxError, ValueError) as error:
            draft.left_out.append(LeftOut(modules[file], f"does not stand without the fix: {error}"))
            return
    files = [path for place in places for path in files_around(place.folder, root)]
    draft.used_still = still_used(draft.stays, edited, files)
    later = used_later(edited, modules, list(dict.fromkeys(files)), ages)
    draft.left_out += [LeftOut("later code:", sentence) for sentence in later]
