"""The commits between a good and a bad revision as toggles of the bad build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.bisect.refusals import BisectError
from prtoggle.forge.range_drafts import drafts_since
from prtoggle.loader import load_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prtoggle.forge.git_history import Repository
    from prtoggle.forge.range_drafts import RangeDraft
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


def commits_between(repository: Repository, good: str, bad: str) -> Commits:
    """A draft toggle of each commit after `good` up to `bad`, which has to be what the work tree is at.

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
    for entry in drafts_since(repository, first.sha, last.sha):
        if entry.id:
            toggles[entry.id] = load_text(entry.text, f"{entry.id}.yaml", default_id=entry.id)
            shas[entry.id] = entry.commit.sha
            if stays := _in_force(entry):
                partly.append(LeftCommit(entry.commit.sha, entry.commit.subject, f"stays in force: {stays}"))
        else:
            left.append(LeftCommit(entry.commit.sha, entry.commit.subject, _one_line(entry.reason)))
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


def _in_force(entry: RangeDraft) -> str:
    """What of the commit is there in the runs without it, too: statements, and modules that it added."""
    assert entry.draft is not None
    added = [f"the module {file.path_after}" for file in entry.draft.fix.files if file.before is None]
    return _one_line(", ".join([*entry.draft.leaves, *added]))


def _one_line(text: str) -> str:
    return " ".join(text.split())
