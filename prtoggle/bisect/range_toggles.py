"""The commits between a good and a bad revision as toggles of the bad build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.bisect.left_in_force import InForce
from prtoggle.bisect.refusals import BisectError
from prtoggle.forge.range_drafts import drafts_since
from prtoggle.loader import load_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prtoggle.forge.git_history import Repository
    from prtoggle.spec import Toggle


class LeftCommit(NamedTuple):
    """A commit of the range that is not searched, or in part only, and the reason."""

    sha: str
    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class Commits:
    """A range: what can be searched, by id, which commit each toggle is, and what cannot.

    `partly` are commits with a toggle that leaves a part of what they changed in force. `changed` says
    whether the work tree has changes that are in no commit.
    """

    good: str
    bad: str
    toggles: Mapping[str, Toggle]
    shas: Mapping[str, str]
    left_out: tuple[LeftCommit, ...]
    changed: bool
    partly: tuple[LeftCommit, ...] = ()


def commits_between(repository: Repository, good: str, bad: str, command: Sequence[str]) -> Commits:
    """A draft toggle of each commit after `good` up to `bad`, which has to be what the work tree is at.

    `command` is what is going to be run: it may find what a toggle leaves in force.
    Raises BisectError when it is not, when `good` is no ancestor of `bad`, or when no commit can be a toggle.
    """
    first, last = repository.commit(good), repository.commit(bad)
    head = repository.commit("HEAD")
    if head.sha != last.sha:
        raise BisectError(
            f"the work tree {repository.root} is at {head.sha[:12]}, --bad {bad} is {last.sha[:12]}: the bad "
            f"build itself is searched, so check it out first: git checkout {bad}"
        )
    if repository.git("merge-base", first.sha, last.sha).strip() != first.sha:
        raise BisectError(f"--good {good} is no ancestor of {bad}: there is no range of commits between them")
    toggles: dict[str, Toggle] = {}
    shas: dict[str, str] = {}
    left: list[LeftCommit] = []
    partly: list[LeftCommit] = []
    in_force = InForce(repository, command)
    for entry in drafts_since(repository, first.sha, last.sha):
        if entry.id:
            toggles[entry.id] = load_text(entry.text, f"{entry.id}.yaml", default_id=entry.id)
            shas[entry.id] = entry.commit.sha
            assert entry.draft is not None
            if stays := in_force.of(entry.commit, entry.draft):
                partly.append(LeftCommit(entry.commit.sha, entry.commit.subject, _one_line(stays)))
        else:
            reason = entry.reason
            if entry.draft is not None and not entry.draft.fix.files:
                # It changes no code of the package, but what a command reads as well.
                reason = "; ".join(in_force.beside(entry.commit, entry.draft)) or reason
            left.append(LeftCommit(entry.commit.sha, entry.commit.subject, _one_line(reason)))
    merges = repository.git("log", "--merges", "--format=%H%x00%s", f"{first.sha}..{last.sha}").splitlines()
    for sha, _, subject in (line.partition("\0") for line in merges):
        reason = "a merge: what its sides changed is searched, its own changes are not"
        left.append(LeftCommit(sha, subject, reason))
    if not toggles:
        why = "\n".join(f"  {item.sha[:9]} {item.subject}: {item.reason}" for item in left)
        raise BisectError(
            f"no commit between {good} and {bad} can be a toggle, so there is nothing to search:\n{why}"
            if left
            else f"there is no commit between {good} and {bad}"
        )
    changed = bool(repository.git("status", "--porcelain", "--untracked-files=no").strip())
    return Commits(first.sha, last.sha, toggles, shas, tuple(left), changed, tuple(partly))


def _one_line(text: str) -> str:
    return " ".join(text.split())
