"""`prtoggle new`: from a fix, as git knows it, to the spec that takes it out of today's code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

import click

from prtoggle.catalog import Catalog
from prtoggle.catalogue_folders import PROJECT_ORIGINS
from prtoggle.cli import console
from prtoggle.cli.interruption import interruptible
from prtoggle.cli.output_file import OutputError, why_not_writable, write_output
from prtoggle.cli.show import short_path
from prtoggle.errors import SpecError
from prtoggle.forge.draft import IN_A_BRANCH, make_draft
from prtoggle.forge.fix import fix_of_commit, fix_of_diff
from prtoggle.forge.git_history import GitError, Repository
from prtoggle.forge.spec_draft import id_of, links_of, spec_text, title_of
from prtoggle.spec import normalise_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from prtoggle.forge.draft_value import Draft
    from prtoggle.forge.git_history import Commit
    from prtoggle.forge.guards import GuardCheck

FINDING = 1


class _Head(NamedTuple):
    """What a spec says beside its patches."""

    id: str
    title: str
    links: tuple[str, ...]


@click.command("new")
@click.option("--commit", metavar="SHA", help="The fix is this commit.")
@click.option(
    "--diff",
    type=click.File(encoding="utf-8"),
    help="The fix is git's diff in FILE, or on standard input for -.",
)
@click.option(
    "--since", metavar="REV", help="Draft every commit after REV, and say which cannot be a toggle."
)
@click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="The work tree with today's code; default: the working directory.",
)
@click.option("--id", "given_id", metavar="ID", help="Default: the pull request's number, or the subject.")
@click.option(
    "--guard",
    "guards",
    multiple=True,
    metavar="TEST",
    help="A test that has to catch the revert; repeatable.",
)
@click.option(
    "--check-guards", is_flag=True, help="Run the tests of the same commit, and keep those that catch it."
)
@click.option("--timeout", default=600.0, show_default=True, help="Seconds for one run of a guard.")
@click.option(
    "--output", "-o", metavar="PATH", help="Where the spec goes: a file or - (with --since: a folder)."
)
@click.option("--partial", is_flag=True, help="Write the spec although parts of the fix stay in.")
@click.option("--force", is_flag=True, help="Write over a spec that is there.")
def new_command(
    *,
    commit: str | None,
    diff: TextIO | None,
    since: str | None,
    repo: Path,
    given_id: str | None,
    guards: tuple[str, ...],
    check_guards: bool,
    timeout: float,
    output: str | None,
    partial: bool,
    force: bool,
) -> int:
    """Write the spec that takes one fix out of the code as it is now.

    The fix is merged out of each function that it touched (three versions: fixed, today's, before the fix),
    and the spec is only written when its edits were done on paper and compile. Exits with 1 when the fix
    cannot be a toggle, and says why.
    """
    if sum(option is not None for option in (commit, diff, since)) != 1:
        raise click.UsageError("give one of --commit, --diff and --since")
    if since is not None:
        from prtoggle.cli.new_range import draft_range  # noqa: PLC0415 (one commit needs none of it)

        return draft_range(Repository(repo), since, _folder(output), force=force)
    draft, head, root = _drafted(commit, diff, repo, given_id)
    out = console(stderr=True)
    if not (draft.possible or (partial and draft.patches)):
        _print_left_out(out, draft)
        out.print(f"{head.id}: no toggle: {draft.reason}", style="red", soft_wrap=True)
        return FINDING
    file = _file(output, head.id)
    _refuse_to_write(file, force=force)
    proposed = tuple(path for path in draft.fix.tests if (root / path).is_file() and path not in guards)
    checks: list[GuardCheck] = []
    if guards or (check_guards and proposed):
        asked = (*guards, *(proposed if check_guards else ()))
        checks = _checked(draft, head, asked, root, timeout)
        _print_guards(out, checks)
    missed = [check for check in checks if check.guard in guards and not check.caught]
    if missed:
        out.print(f"{head.id}: not written, because {missed[0].guard} does not guard it", style="red")
        return FINDING
    text = spec_text(
        draft,
        head.id,
        title=head.title,
        links=head.links,
        guards=[check.guard for check in checks if check.caught],
        proposed=() if check_guards else proposed,
    )
    _print_left_out(out, draft)
    _write(out, text, file, draft)
    return FINDING if draft.leaves else 0


def _drafted(
    commit: str | None, diff: TextIO | None, repo: Path, given_id: str | None
) -> tuple[Draft, _Head, Path]:
    """The draft, what the spec's head says, and the root that guards and paths are relative to."""
    if commit is not None:
        repository = Repository(repo)
        found = repository.commit(commit)
        fix = fix_of_commit(repository, found)
        draft = make_draft(fix, repository.root, repository.renames_since(found.sha))
        return draft, _head_of(found, repository, given_id), repository.root
    assert diff is not None
    text = diff.read()
    try:
        known: Repository | None = Repository(repo)
    except GitError:
        known = None
    root = known.root if known is not None else repo.resolve()
    draft = make_draft(fix_of_diff(text, root, known), root, {})
    name = given_id or re.sub(r"[^A-Za-z0-9]+", "-", Path(diff.name).stem).strip("-")
    if not name or (diff.name == "<stdin>" and given_id is None):
        raise click.UsageError("a diff from standard input needs an --id")
    return draft, _Head(normalise_id(name), "", ()), root


def _head_of(commit: Commit, repository: Repository, given_id: str | None) -> _Head:
    slug = repository.github_slug()
    return _Head(normalise_id(given_id or id_of(commit)), title_of(commit), tuple(links_of(commit, slug)))


def _checked(
    draft: Draft, head: _Head, guards: Sequence[str], root: Path, timeout: float
) -> list[GuardCheck]:
    from prtoggle.forge.guards import check_guards  # noqa: PLC0415 (a draft without guards starts no process)

    def text_of(chosen: Sequence[str]) -> str:
        return spec_text(draft, head.id, guards=chosen)

    with interruptible():
        return check_guards(text_of, head.id, list(dict.fromkeys(guards)), root, timeout)


def _print_guards(out: Console, checks: Sequence[GuardCheck]) -> None:
    for check in checks:
        detail = f": {check.detail}" if check.detail else ""
        out.print(
            f"guard {check.guard}: {check.verdict.value}{detail}",
            style="green" if check.caught else "yellow",
            soft_wrap=True,
        )


def _print_left_out(out: Console, draft: Draft) -> None:
    for item in draft.left_out:
        said = "cannot be taken out" if item.blocks else "left alone"
        out.print(f"{said}: {item.what} {item.why}", soft_wrap=True)
    for name in draft.stays:
        why = "other code uses it too" if name in draft.used_still else "nothing uses it after the revert"
        out.print(f"stays: {name}; {why}", soft_wrap=True)
    for name in draft.leaves:
        out.print(f"left in force: {name}", style="yellow", soft_wrap=True)
    if draft.leaves:
        out.print("this spec takes out a part of the fix only", style="yellow", soft_wrap=True)


def _file(output: str | None, toggle_id: str) -> Path | None:
    """The file to write; None for standard output."""
    if output is not None:
        return None if output == "-" else Path(output)
    folder = _catalogue()
    return None if folder is None else folder / f"{toggle_id}.yaml"


def _refuse_to_write(file: Path | None, *, force: bool) -> None:
    """Raises, before guards are run, SpecError for a spec that is there and OutputError for a bad place."""
    if file is None:
        return
    if file.exists() and not force:
        raise SpecError(f"{file} is there already: choose another --output or --id, or give --force")
    problem = f"{file} is a folder: name a file in it" if file.is_dir() else why_not_writable(file)
    if problem:
        raise OutputError(problem)


def _folder(output: str | None) -> Path:
    if output is not None:
        return Path(output)
    return (_catalogue() or Path()) / "drafts"


def _catalogue() -> Path | None:
    """The project's own catalogue folder."""
    folders = [folder for folder in Catalog.discover().folders if folder.origin in PROJECT_ORIGINS]
    return next((folder.path for folder in folders if folder.path.is_dir()), None)


def _write(out: Console, text: str, file: Path | None, draft: Draft) -> None:
    for item in draft.patches:
        moment = "at load only" if item.at_load_only else "at load or live"
        moment += f", {IN_A_BRANCH}" if IN_A_BRANCH in item.notes else ""
        out.print(f"target {item.patch.target}: {moment}, edits {len(item.patch.edits)}", soft_wrap=True)
    if file is None:
        click.echo(text, nl=False)
        return
    write_output(file, text)
    out.print(f"wrote {short_path(str(file.resolve()))}", style="green", soft_wrap=True)
