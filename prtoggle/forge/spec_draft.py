"""A draft as the text of a spec file, read back and compared before anybody gets to see it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from prtoggle.drift.spec_text import patch_lines, scalar
from prtoggle.errors import SpecError
from prtoggle.loader import load_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.forge.draft_value import Draft
    from prtoggle.forge.git_history import Commit
    from prtoggle.spec import Toggle

AT_LOAD_ONLY = "at-load-only"


def id_of(commit: Commit) -> str:
    """The number of the pull request, else a slug of the commit's subject."""
    words = re.findall(r"[A-Za-z0-9]+", commit.subject.lower())
    slug = "-".join(words[:6]) or commit.sha[:10]
    return commit.pull_request or (slug if not slug.isdigit() else f"commit-{commit.sha[:10]}")


def title_of(commit: Commit) -> str:
    """The commit's subject without the number of its pull request."""
    return re.sub(r"\s*\(#\d+\)\s*$", "", commit.subject)


def links_of(commit: Commit, slug: str) -> list[str]:
    """The pull request, where subject and remote name it, else the commit."""
    if commit.pull_request:
        return [f"{slug}#{commit.pull_request}"]
    return [f"{slug}@{commit.sha[:12]}" if slug else f"commit {commit.sha[:12]}"]


def spec_text(
    draft: Draft,
    toggle_id: str,
    *,
    title: str = "",
    links: Sequence[str] = (),
    guards: Sequence[str] = (),
    proposed: Sequence[str] = (),
) -> str:
    """The YAML of the draft. `proposed` are tests that nobody has checked; they go into a comment."""
    lines = [f"id: {toggle_id}"]
    lines += [f"title: {scalar(title)}"] if title else []
    lines += [f"links: [{', '.join(_quoted(link) for link in links)}]"] if links else []
    if draft.at_load_only:
        lines += [f"tags: [{AT_LOAD_ONLY}]"]
    if guards:
        lines.append(f"guards: [{', '.join(scalar(guard) for guard in guards)}]")
    if proposed:
        lines.append("# Tests of the same commit, which nobody has run against this spec yet:")
        lines.append(f"# guards: [{', '.join(proposed)}]")
    lines += [f"# Left in: {item.what} {_one_line(item.why)}" for item in draft.left_out if item.blocks]
    lines += [f"# Left in force: {_one_line(name)}" for name in draft.leaves]
    lines.append("patches:")
    for item in draft.patches:
        notes = [_one_line(note) for note in item.notes]
        if item.at_load_only and not any(note.startswith("at load only") for note in notes):
            notes.insert(0, "at load only: the decorators change")
        lines += patch_lines(item.patch, 2, notes)
    text = "\n".join(lines) + "\n"
    _read_back(text, draft, toggle_id)
    return text


def _quoted(link: str) -> str:
    return f'"{link}"' if re.search(r"[#@:,\[\]{}]", link) and '"' not in link else scalar(link)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _read_back(text: str, draft: Draft, toggle_id: str) -> Toggle:
    toggle = load_text(text, f"{toggle_id}.yaml", default_id=toggle_id)
    if toggle.id != toggle_id or toggle.patches != tuple(item.patch for item in draft.patches):
        raise SpecError(f"the spec of {toggle_id} does not read back as it was drafted:\n{text}")
    return toggle
