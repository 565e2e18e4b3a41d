"""What is asked of git: texts of files at a commit, what a commit changed, where files went since."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from prtoggle.errors import PrToggleError

_PULL = re.compile(r"\(#(\d+)\)|[Mm]erge pull request #(\d+)")
_GITHUB = re.compile(r"github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")


class GitError(PrToggleError, RuntimeError):
    """git is not there, the folder is no repository, or a revision is none."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its full name, its first parent ("" for a first commit), subject and body."""

    sha: str
    parent: str
    subject: str
    body: str = ""

    @property
    def pull_request(self) -> str:
        """The number of the pull request that the subject names, or ""."""
        found = _PULL.search(self.subject)
        return (found[1] or found[2]) if found else ""


class Repository:
    """A git work tree. Only reads from it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.root = Path(self.git("rev-parse", "--show-toplevel").strip())

    def git(self, *arguments: str) -> str:
        """What git prints, as UTF-8 text with its line ends. Raises GitError with git's own message."""
        return self.git_bytes(*arguments).decode("utf-8", "surrogateescape")

    def git_bytes(self, *arguments: str) -> bytes:
        """The same as bytes."""
        # The user's own settings (prefixes, languages) must not change the answer.
        fixed = ("-c", "core.quotepath=off", "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false")
        try:
            done = subprocess.run(  # noqa: S603  # arguments are ours, revisions are checked by rev-parse
                ["git", "-C", str(self._folder), *fixed, *arguments],  # noqa: S607  # the git of the user
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            )
        except FileNotFoundError as error:
            raise GitError("git is not installed, or not on PATH") from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise GitError(f"git {arguments[0]} in {self._folder}: {said[-1] if said else done.returncode}")
        return done.stdout

    def commit(self, revision: str) -> Commit:
        """The commit that `revision` names. Raises GitError when it names none, or several."""
        try:
            name = self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except GitError as error:
            raise self._no_commit(revision) from error
        form = "%H%x00%P%x00%s%x00%b"
        sha, parents, subject, body = self.git("show", "-s", f"--format={form}", name.strip()).split("\0", 3)
        return Commit(sha, parents.split(" ")[0], subject, body.strip())

    def _no_commit(self, revision: str) -> GitError:
        shallow = self.git("rev-parse", "--is-shallow-repository").strip() == "true"
        further = (
            "`git fetch --unshallow` brings what this shallow clone lacks"
            if shallow
            else "`git fetch` brings what only a remote has"
        )
        return GitError(
            f"{revision!r} names no single commit of {self.root}; `git log --oneline` lists the commits, "
            f"{further}"
        )

    def commits_since(self, revision: str, until: str = "HEAD") -> list[Commit]:
        """The commits after `revision` up to `until`, oldest first, without merges."""
        start, end = self.commit(revision).sha, self.commit(until).sha
        listed = self.git(
            "log", "--reverse", "--no-merges", "--format=%H%x00%P%x00%s%x00%x01", f"{start}..{end}"
        )
        entries = [entry.strip("\n") for entry in listed.split("\x01")]
        parts = [entry.split("\0") for entry in entries if entry]
        return [Commit(sha, parents.split(" ")[0], subject) for sha, parents, subject, _ in parts]

    def diff_of(self, commit: Commit) -> str:
        """The commit's diff against its first parent, with renames found and blob names in full."""
        options = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--full-index")
        if not commit.parent:
            return self.git("show", "--format=", "--root", *options, commit.sha)
        return self.git("diff", *options, commit.parent, commit.sha)

    def text_at(self, revision: str, path: str) -> bytes:
        """The file's bytes at a revision."""
        return self.git_bytes("show", f"{revision}:{path}")

    def blob(self, name: str) -> bytes | None:
        """The bytes of a blob that a diff's index line names; None when this repository does not have it."""
        try:
            return self.git_bytes("cat-file", "blob", name)
        except GitError:
            return None

    def renames_since(self, revision: str) -> dict[str, str]:
        """Path at `revision` to path in the work tree, for files that git sees as renamed since."""
        listed = self.git("diff", "--name-status", "-z", "--find-renames", "--diff-filter=R", revision)
        fields = listed.split("\0")
        return {fields[at + 1]: fields[at + 2] for at in range(0, len(fields) - 2, 3)}

    def github_slug(self) -> str:
        """owner/repository of the remote origin when that is on GitHub, or ""."""
        try:
            found = _GITHUB.search(self.git("remote", "get-url", "origin").strip())
        except GitError:
            return ""
        return found[1] if found else ""
