"""Drafts of all commits of a range, each judged on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prtoggle.errors import PrToggleError
from prtoggle.forge.draft import make_draft
from prtoggle.forge.fix import fix_of_commit
from prtoggle.forge.spec_draft import id_of, links_of, spec_text, title_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prtoggle.forge.draft_value import Draft
    from prtoggle.forge.git_history import Commit, Repository


class RangeDraft(NamedTuple):
    """One commit of a range: its toggle's id and YAML text, or "" and the reason why it cannot be one."""

    commit: Commit
    id: str
    text: str
    reason: str
    draft: Draft | None = None


def drafts_since(repository: Repository, revision: str, until: str = "HEAD") -> Iterator[RangeDraft]:
    """A draft, or a reason, for each commit after `revision`, oldest first; merges are left out.

    Ids are unique within the range: a second commit of one pull request gets its own short name behind the
    number. Nothing is written.
    """
    slug = repository.github_slug()
    taken: set[str] = set()
    for commit in repository.commits_since(revision, until):
        try:
            fix = fix_of_commit(repository, commit)
            draft = make_draft(fix, repository.root, repository.renames_since(commit.sha))
        except PrToggleError as error:
            yield RangeDraft(commit, "", "", str(error))
            continue
        if not draft.possible:
            yield RangeDraft(commit, "", "", draft.reason, draft)
            continue
        toggle_id = id_of(commit)
        if toggle_id in taken:
            toggle_id = f"{toggle_id}-{commit.sha[:7]}"
        taken.add(toggle_id)
        proposed = [path for path in fix.tests if (repository.root / path).is_file()]
        text = spec_text(
            draft, toggle_id, title=title_of(commit), links=links_of(commit, slug), proposed=proposed
        )
        yield RangeDraft(commit, toggle_id, text, "", draft)
