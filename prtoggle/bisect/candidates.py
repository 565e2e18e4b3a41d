"""The toggles of a search: which are asked for, what they pull in, which are left out and why."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.bisect.refusals import BisectError
from prtoggle.bisect.space import Space
from prtoggle.edits import compilable_module, merge, plan_patch
from prtoggle.errors import EditOverlapError, PrToggleError
from prtoggle.spelling import near_names, or_none
from prtoggle.static_check import SourceCache, check_toggle

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from prtoggle.bisect.space import ToggleSet
    from prtoggle.catalog import Catalog
    from prtoggle.edits import Splice
    from prtoggle.spec import Toggle
    from prtoggle.target import ResolvedTarget

EVERYTHING = "all"
TAG = "tag:"


class LeftOut(NamedTuple):
    """A toggle that is not searched, and the reason."""

    id: str
    reason: str


@dataclass(frozen=True)
class Candidates:
    """The toggles that are searched, by id, and how they go together; `pulled_in` is only required."""

    toggles: Mapping[str, Toggle]
    space: Space
    left_out: tuple[LeftOut, ...]
    pulled_in: tuple[str, ...]
    texts: ModuleTexts

    def digests(self) -> dict[str, str]:
        """A digest of each spec, by id."""
        return {toggle_id: _digest(toggle.text.encode()) for toggle_id, toggle in self.toggles.items()}

    def source_digests(self) -> dict[str, str]:
        """A digest of each file that a target is in, by path."""
        files = sorted({file for splices in self.texts.of.values() for file in splices})
        return {str(file): _digest(file.read_bytes()) for file in files}


@dataclass
class ModuleTexts:
    """What the toggles do to the modules' texts, planned once; tells whether a set of them goes together."""

    cache: SourceCache = field(default_factory=SourceCache)
    of: dict[str, dict[Path, list[Splice]]] = field(default_factory=dict)
    _targets: dict[Path, ResolvedTarget] = field(default_factory=dict)
    _known: dict[frozenset[str], str] = field(default_factory=dict)

    def add(self, toggle: Toggle) -> None:
        """Plan a toggle that was checked."""
        planned = self.of.setdefault(toggle.id, {})
        for patch in toggle.patches:
            if patch.changes_source:
                target = self.cache.resolve(patch.target)
                self._targets.setdefault(target.file, target)
                splices = plan_patch(*self.cache.get(target), target, patch, toggle.id)
                planned.setdefault(target.file, []).extend(splices)

    def overlap(self, one: str, other: str) -> bool:
        """Whether two toggles want the same lines of a module."""
        try:
            for file in self.of[one].keys() & self.of[other].keys():
                merge([*self.of[one][file], *self.of[other][file]])
        except EditOverlapError:
            return True
        return False

    def refusal(self, toggles: ToggleSet) -> str:
        """Why the edited modules would not be valid with all of these toggles; "" when they are."""
        for file, target in self._targets.items():
            here = frozenset(toggle_id for toggle_id in toggles if file in self.of[toggle_id])
            if len(here) < 2:
                continue
            if here not in self._known:
                together = [splice for toggle_id in sorted(here) for splice in self.of[toggle_id][file]]
                self._known[here] = ""
                try:
                    compilable_module(*self.cache.get(target), together)
                except PrToggleError as error:
                    self._known[here] = str(error)
            if self._known[here]:
                return self._known[here]
        return ""


def choose(catalog: Catalog, selection: str, excluded: Iterable[str] = ()) -> Candidates:
    """The candidates of `--toggles`: "all", or a comma list of ids and tag:NAME; `excluded` are such items.

    Raises UnknownToggleError for an id that no catalogue has, BisectError for a tag that no toggle has, for
    an empty choice, and for a toggle that was asked for by name and cannot be reverted.
    """
    named: list[str] = []
    chosen: dict[str, Toggle] = {}
    for item in (part.strip() for part in selection.split(",")):
        if item == EVERYTHING:
            chosen |= {toggle.id: toggle for toggle in catalog.project_toggles()}
        elif item.startswith(TAG):
            chosen |= {toggle.id: toggle for toggle in _tagged(catalog, item.removeprefix(TAG))}
        elif item:
            toggle = catalog.get(item)
            named.append(toggle.id)
            chosen[toggle.id] = toggle
    out = _excluded(catalog, excluded)
    chosen = {toggle_id: toggle for toggle_id, toggle in chosen.items() if toggle_id not in out}
    if not chosen:
        raise BisectError(f"--toggles {selection} leaves no toggle to search; see `prtoggle list`")
    return gather(chosen, named=named, catalog=catalog, excluded=out)


def gather(
    chosen: Mapping[str, Toggle],
    *,
    named: Collection[str] = (),
    catalog: Catalog | None = None,
    excluded: Collection[str] = (),
) -> Candidates:
    """Candidates from toggles; what they require is taken from the catalogue.

    Raises BisectError when a toggle of `named` cannot be reverted, or nothing is left.
    """
    known = None if catalog is None else catalog.ids()
    toggles = dict(chosen)
    reasons: dict[str, str] = {}
    texts = ModuleTexts()
    pending = list(toggles.values())
    while pending:
        toggle = pending.pop(0)
        reason = _unfit(toggle, known, texts)
        if reason:
            reasons[toggle.id] = reason
            continue
        texts.add(toggle)
        for other in toggle.requires:
            if other not in toggles and catalog is not None and other not in excluded:
                toggles[other] = catalog.get(other)
                pending.append(toggles[other])
    conflicts = _conflicts([toggle for toggle in toggles.values() if toggle.id not in reasons], texts)
    reasons |= _left_by_relations(toggles, reasons, conflicts)
    refused = [toggle_id for toggle_id in named if toggle_id in reasons]
    fit = {toggle_id: toggle for toggle_id, toggle in toggles.items() if toggle_id not in reasons}
    if refused or not fit:
        lines = [f"{toggle_id}: {reasons[toggle_id]}" for toggle_id in refused or reasons]
        raise BisectError("cannot be reverted:\n" + "\n".join(lines))
    return Candidates(
        fit,
        Space(
            tuple(fit),
            {toggle_id: toggle.requires for toggle_id, toggle in fit.items()},
            {pair for pair in conflicts if pair <= fit.keys()},
        ),
        tuple(LeftOut(toggle_id, reason) for toggle_id, reason in reasons.items()),
        tuple(toggle_id for toggle_id in fit if toggle_id not in chosen),
        texts,
    )


def _excluded(catalog: Catalog, items: Iterable[str]) -> set[str]:
    """The ids of the toggles that stay out: those that are named, and those with a tag."""
    listed = list(items)
    named = catalog.select(item for item in listed if not item.startswith(TAG))
    tags = [item.removeprefix(TAG) for item in listed if item.startswith(TAG)]
    return {toggle.id for toggle in (*named, *(toggle for tag in tags for toggle in _tagged(catalog, tag)))}


def _tagged(catalog: Catalog, tag: str) -> list[Toggle]:
    toggles = catalog.project_toggles()
    found = [toggle for toggle in toggles if tag in toggle.tags]
    if not found:
        tags = {tag for toggle in toggles for tag in toggle.tags}
        offer = or_none(near_names(tag, tags)) or f"; there are {', '.join(sorted(tags)) or 'no tags'}"
        raise BisectError(f"no toggle has the tag {tag!r}{offer}")
    return found


def _unfit(toggle: Toggle, known: Sequence[str] | None, texts: ModuleTexts) -> str:
    """Why the toggle cannot be reverted by itself, in one line; "" when it can."""
    check = check_toggle(toggle, known, texts.cache)
    if check.status == "ok":
        return ""
    return next((message.splitlines()[0] for message in check.messages), check.status)


def _conflicts(toggles: Sequence[Toggle], texts: ModuleTexts) -> set[frozenset[str]]:
    """The pairs that exclude each other: by what specs say, by the lines they want, by variables they set."""
    return {
        frozenset((one.id, other.id))
        for one, other in combinations(toggles, 2)
        if other.id in one.conflicts
        or one.id in other.conflicts
        or any(other.env.get(name, value) != value for name, value in one.env.items())
        or texts.overlap(one.id, other.id)
    }


def _left_by_relations(
    toggles: Mapping[str, Toggle], unfit: Mapping[str, str], conflicts: Collection[frozenset[str]]
) -> dict[str, str]:
    """Toggles that cannot be reverted because of what they require, and why."""
    reasons = {}
    whole = Space(
        tuple(toggles),
        {
            toggle_id: [other for other in toggle.requires if other in toggles]
            for toggle_id, toggle in toggles.items()
        },
    )
    for toggle_id in toggles:
        closed = whole.close([toggle_id])
        needed = {other for member in closed for other in toggles[member].requires}
        gone = sorted(needed - toggles.keys()) + sorted((closed & unfit.keys()) - {toggle_id})
        clash = [sorted(pair) for pair in conflicts if pair <= closed]
        if toggle_id in unfit:
            continue
        if gone:
            reasons[toggle_id] = f"requires {gone[0]}, which is not searched"
        elif clash:
            needs = " and ".join(sorted(closed - {toggle_id})) or "itself"
            reasons[toggle_id] = f"requires {needs}, but {' and '.join(clash[0])} exclude each other"
    return reasons


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
