"""Checks toggles against the sources they are about, importing none of them."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from prtoggle.applies_to import applies, installed_version, why_no_version
from prtoggle.bindings import Fate, exported_names, of_module
from prtoggle.definitions import imported_module
from prtoggle.edits import compilable_module, plan_patch, read_source
from prtoggle.errors import (
    AlreadyRevertedError,
    AmbiguousMatchError,
    EditError,
    EditOverlapError,
    MatchError,
    PrToggleError,
    TargetError,
    TargetModuleError,
    UndefinedNameError,
    UnsupportedTargetError,
)
from prtoggle.missing import missing_target
from prtoggle.rebinding import may_be_rebound_at, rebound_at
from prtoggle.target import find_module, locate, refuse_main, split_name, split_target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from prtoggle.source.source_text import ModuleSource
    from prtoggle.source.splices import Splice
    from prtoggle.spec import Patch, Toggle
    from prtoggle.target import ResolvedTarget

Status = Literal[
    "ok",
    "not-applicable",
    "no-module",
    "no-target",
    "unsupported",
    "mismatch",
    "ambiguous",
    "already-reverted",
    "overlap",
    "undefined-name",
    "invalid-edit",
    "failed",
]

# The most special class comes first.
_STATUS: Final[tuple[tuple[type[PrToggleError], Status], ...]] = (
    (AmbiguousMatchError, "ambiguous"),
    (AlreadyRevertedError, "already-reverted"),
    (MatchError, "mismatch"),
    (TargetModuleError, "no-module"),
    (TargetError, "no-target"),
    (UnsupportedTargetError, "unsupported"),
    (EditOverlapError, "overlap"),
    (UndefinedNameError, "undefined-name"),
    (EditError, "invalid-edit"),
)


@dataclass(frozen=True, slots=True)
class PatchCheck:
    """What came of one patch: where its edits go (lines of `file`, from 1), or why they do not."""

    target: str
    mode: str
    status: Status
    file: str = ""
    lines: tuple[int, ...] = ()
    message: str = ""
    notes: tuple[str, ...] = ()
    #: What may keep the edits from being in force, which the text alone does not decide.
    cautions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToggleCheck:
    """What came of one toggle. `message` says what is wrong with the toggle as a whole."""

    toggle: Toggle
    patches: tuple[PatchCheck, ...]
    status: Status
    message: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether somebody has to look at it."""
        return self.status not in ("ok", "not-applicable")

    @property
    def messages(self) -> tuple[str, ...]:
        """What is wrong with the toggle as a whole, then with each of its patches; empty when nothing is."""
        return tuple(filter(None, (self.message, *(patch.message for patch in self.patches))))


@dataclass(frozen=True, slots=True)
class PlannedModule:
    """A module before and after a toggle's edits of it."""

    name: str
    source: ModuleSource
    edited: str


@dataclass(slots=True)
class SourceCache:
    """The sources that were read and parsed, each once however many toggles are about it."""

    _read: dict[Path, tuple[ModuleSource, ast.Module]] = field(default_factory=dict)
    #: How a target's text leads to its file: through sys.path, or in a folder that is not installed.
    resolve: Callable[[str], ResolvedTarget] = split_target
    #: Whether the versions that a spec applies to are asked of what is installed.
    installed: bool = True

    def get(self, target: ResolvedTarget) -> tuple[ModuleSource, ast.Module]:
        """The target's source and its syntax tree; UnsupportedTargetError when it is no valid Python."""
        if target.file not in self._read:
            source = read_source(target.file)
            try:
                tree = ast.parse(source.text)
            except (SyntaxError, ValueError) as error:
                raise UnsupportedTargetError(
                    f"{target.text}: {target.file} is no valid Python: {error}", target=target.text
                ) from error
            self._read[target.file] = (source, tree)
        return self._read[target.file]

    def brings(self, target: ResolvedTarget, node: ast.Import | ast.ImportFrom, name: str) -> bool | None:
        """Whether an import of the target's module binds the name; None where the text does not tell."""
        module = name
        if isinstance(node, ast.ImportFrom):
            module = imported_module(node, target.module, is_package=target.is_package)
        try:
            found = self.resolve(module)
            _, tree = self.get(found)
        except TargetModuleError:
            # A tree that is not installed does not say what it is installed beside.
            return False if self.installed else None
        except (PrToggleError, OSError):
            return None
        if found.qualname:
            # A module that another one holds as an attribute: os.path.
            return None
        if isinstance(node, ast.Import):
            return True
        starred = any(alias.name == "*" for alias in node.names)
        if starred and (exported := exported_names(tree)) is not None:
            return name in exported
        known = of_module(tree, name, lambda inner, wanted: self._brings_again(found, target, inner, wanted))
        return {Fate.GONE: True, Fate.KEPT: False if starred else None}.get(known)

    def _brings_again(
        self, found: ResolvedTarget, target: ResolvedTarget, node: ast.Import | ast.ImportFrom, name: str
    ) -> bool | None:
        """One star import further; modules that import each other end it."""
        return None if found.file == target.file else self.brings(found, node, name)


def check_toggle(toggle: Toggle, known_ids: Sequence[str] | None, cache: SourceCache) -> ToggleCheck:
    """Whether every patch of the toggle has its place, and all together leave valid modules.

    `known_ids` are the ids that requires, conflicts and masks may name; None accepts any. Raises nothing.
    """
    if cache.installed and not applies(toggle):
        version = installed_version(toggle)
        found = version or f"not known, for {why_no_version(toggle)}"
        message = f"applies to {toggle.applies_to}; the installed version is {found}"
        return ToggleCheck(toggle, (), "not-applicable", message)
    planned: dict[Path, list[Splice]] = {}
    targets: dict[Path, ResolvedTarget] = {}
    patches = []
    for patch in toggle.patches:
        try:
            refuse_main(patch.target)
            if patch.changes_source:
                target = cache.resolve(patch.target)
                splices = plan_patch(*cache.get(target), target, patch, toggle.id)
                caution = _refuse_rebound(target, patch, cache, splices)
                planned.setdefault(target.file, []).extend(splices)
                targets.setdefault(target.file, target)
                fine = _fine(patch, target, cache.get(target)[0], splices)
                patches.append(replace(fine, cautions=(caution,) if caution else ()))
            else:
                patches.append(_check_object(patch, cache))
        except PrToggleError as error:
            patches.append(PatchCheck(patch.target, patch.mode, status_of(error), message=str(error)))
    failed = next((patch for patch in patches if patch.status != "ok"), None)
    if failed is not None:
        return ToggleCheck(toggle, tuple(patches), failed.status)
    try:
        for file, together in planned.items():
            compilable_module(*cache.get(targets[file]), together)
    except PrToggleError as error:
        return ToggleCheck(toggle, tuple(patches), status_of(error), str(error))
    return _check_references(toggle, tuple(patches), known_ids)


def _refuse_rebound(
    target: ResolvedTarget, patch: Patch, cache: SourceCache, splices: Sequence[Splice]
) -> str:
    """Raise TargetError for an edit of a function whose name a later line of the module gives to another.

    Returns a sentence about a later line that may do so, "" without one.
    """
    source, tree = cache.get(target)
    lines = [source.line_of(splice.start) for splice in splices]
    brings = partial(cache.brings, target)
    line = rebound_at(tree, target.qualname, lines, brings)
    if line:
        raise TargetError(
            f"{patch.target}: the edit would not be in force: {target.file}:{line} gives the name to "
            "something else afterwards; edit what is in force, or use wrap: on it",
            target=patch.target,
        )
    line = may_be_rebound_at(tree, target.qualname, lines, brings)
    return f"in force only if line {line} does not give the name to something else" if line else ""


def _fine(
    patch: Patch, target: ResolvedTarget, source: ModuleSource, splices: Sequence[Splice]
) -> PatchCheck:
    lines = tuple(dict.fromkeys(source.line_of(splice.start) for splice in splices))
    notes = tuple(dict.fromkeys(splice.note for splice in splices if splice.note))
    return PatchCheck(patch.target, patch.mode, "ok", str(target.file), lines, notes=notes)


def _check_object(patch: Patch, cache: SourceCache) -> PatchCheck:
    """A value or wrap patch: whether its module is there, and where it has source, the name too."""
    if not cache.installed:
        target = cache.resolve(patch.target)
        if patch.mode == "value" and not locate(cache.get(target)[1], target.qualname):
            raise missing_target(cache.get(target)[1], target)
        return PatchCheck(patch.target, patch.mode, "ok", str(target.file))
    module, qualname = split_name(patch.target)
    notes: tuple[str, ...] = ()
    if module.path is None:
        notes = (f"module {module.name} has no source, so the name is looked up when it is loaded",)
    else:
        target = split_target(patch.target)
        source, tree = cache.get(target)
        found = locate(tree, qualname)
        if not found and patch.mode == "value":
            raise missing_target(tree, target)
        if not found:
            notes = (f"{qualname} is not defined in {source.path}, so it is looked up when that is loaded",)
    if patch.wrap is not None:
        find_module(patch.wrap.partition(":")[0])
    return PatchCheck(patch.target, patch.mode, "ok", str(module.path or ""), notes=notes)


def _check_references(
    toggle: Toggle, patches: tuple[PatchCheck, ...], known_ids: Sequence[str] | None
) -> ToggleCheck:
    for name in ("requires", "conflicts", "masks"):
        unknown = [ref for ref in getattr(toggle, name) if known_ids is not None and ref not in known_ids]
        if unknown:
            message = f"{name} names {', '.join(unknown)}, which no catalogue has"
            return ToggleCheck(toggle, patches, "failed", message)
    return ToggleCheck(toggle, patches, "ok")


def status_of(error: PrToggleError) -> Status:
    """The status that stands for an error of this class."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), "failed")


def plan_modules(toggle: Toggle, cache: SourceCache) -> list[PlannedModule]:
    """The modules that the toggle edits, before and after. Raises the first PrToggleError that comes up."""
    planned: dict[Path, list[Splice]] = {}
    targets: dict[Path, ResolvedTarget] = {}
    for patch in toggle.patches:
        if patch.changes_source:
            target = cache.resolve(patch.target)
            targets.setdefault(target.file, target)
            planned.setdefault(target.file, []).extend(
                plan_patch(*cache.get(target), target, patch, toggle.id)
            )
    modules = []
    for file, splices in planned.items():
        source, tree = cache.get(targets[file])
        edited = compilable_module(source, tree, splices)
        modules.append(PlannedModule(targets[file].module, source, edited.text))
    return modules
