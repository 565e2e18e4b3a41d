"""A fix as texts: every file that it changed, before and after. Read from a commit or from git's own diff."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.drift.merging import ToolMissingError
from prtoggle.errors import SpecError, UnsupportedTargetError
from prtoggle.source.diff_text import parse_diff
from prtoggle.source.diffs import find_spots
from prtoggle.source.source_text import decode_source, read_source, split_lines

if TYPE_CHECKING:
    from unidiff.patch import PatchedFile

    from prtoggle.forge.git_history import Commit, Repository
    from prtoggle.source.diff_text import FileDiff

_INERT = {".md", ".rst", ".txt", ".png", ".svg", ".jpg", ".gif", ".ipynb", ".gitignore"}
_INDEX = re.compile(r"^index ([0-9a-f]{7,64})\.\.([0-9a-f]{7,64})", re.MULTILINE)


class FixedFile(NamedTuple):
    """A Python file of the fix. A text is None where the file is not there; `path_after` "" then."""

    path_before: str
    path_after: str
    before: str | None
    after: str | None


class LeftOut(NamedTuple):
    """Something of the fix that a toggle cannot take out, or need not. `blocks` tells which."""

    what: str
    why: str
    blocks: bool = True


@dataclass(frozen=True, slots=True)
class Fix:
    """What a fix changed: Python files, tests by path, and the rest with the reason why it is left out."""

    files: tuple[FixedFile, ...]
    tests: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    commit: Commit | None = None


def fix_of_commit(repository: Repository, commit: Commit) -> Fix:
    """The fix that a commit made. Raises GitError."""
    files, tests, left_out = _sorted_out(parsed(repository.diff_of(commit)))
    read = []
    for file in files:
        old, new = _path(file.source_file), _path(file.target_file)
        before = None if file.is_added_file else _decoded(repository.text_at(commit.parent, old), old)
        after = None if file.is_removed_file else _decoded(repository.text_at(commit.sha, new), new)
        read.append(FixedFile(old, new, before, after))
    return Fix(tuple(read), tests, left_out, commit)


def fix_of_diff(text: str, root: Path, repository: Repository | None) -> Fix:
    """The fix of a diff: its files' texts from the repository's blobs, else from today's files.

    Without the blobs today's text stands in for the fix's, which needs every hunk to stand there as it is.
    """
    files, tests, left_out = _sorted_out(parsed(text))
    read, left = [], list(left_out)
    by_name = {(file.old_path, file.new_path): file for file in parse_diff(text)}
    for file in files:
        old, new = _path(file.source_file), _path(file.target_file)
        texts = _from_blobs(file, repository) or _from_today(by_name.get((old, new)), root, new)
        if isinstance(texts, str):
            left.append(LeftOut(new or old, texts))
        else:
            read.append(FixedFile(old, new, *texts))
    return Fix(tuple(read), tests, tuple(left))


def parsed(text: str) -> list[PatchedFile]:
    """The files of a diff. Raises SpecError for a text that is none, ToolMissingError without unidiff."""
    try:
        from unidiff.errors import UnidiffParseError  # noqa: PLC0415 (of the extra "forge")
        from unidiff.patch import PatchSet  # noqa: PLC0415
    except ImportError as error:
        raise ToolMissingError(
            "reading a fix needs the package unidiff: pip install 'prtoggle[forge]'"
        ) from error
    try:
        files = list(PatchSet(text))
    except UnidiffParseError as error:
        raise SpecError(f"the diff cannot be read: {error}") from error
    if not files:
        raise SpecError("the diff is empty: give the output of git diff or git show")
    return files


def is_test(path: str) -> bool:
    """Whether the path is a test's by the conventions of pytest and unittest."""
    parts = PurePosixPath(path).parts
    name = parts[-1] if parts else ""
    return (
        any(part in ("test", "tests", "testing") for part in parts[:-1])
        or name == "conftest.py"
        or re.fullmatch(r"test_.*\.py|.*_test\.py", name) is not None
    )


def _sorted_out(
    patched: list[PatchedFile],
) -> tuple[list[PatchedFile], tuple[str, ...], tuple[LeftOut, ...]]:
    files, tests, left = [], [], []
    for file in patched:
        path = _path(file.target_file) or _path(file.source_file)
        if is_test(path):
            tests += [path] if not file.is_removed_file and path.endswith(".py") else []
        elif path.endswith(".py"):
            files.append(file)
        elif PurePosixPath(path).suffix in _INERT or path.startswith(("docs/", ".github/")):
            left.append(LeftOut(path, "is no code", blocks=False))
        else:
            left.append(LeftOut(path, "is no Python file: only Python code can be reverted in a process"))
    return files, tuple(tests), tuple(left)


def _path(name: str) -> str:
    name = name.strip('"')
    return "" if name == "/dev/null" else re.sub(r"^[abciow]/", "", name)


def _decoded(data: bytes, path: str) -> str:
    return decode_source(data, path).text


def _from_blobs(file: PatchedFile, repository: Repository | None) -> tuple[str | None, str | None] | None:
    """Both texts by the blob names of the diff's index line, where the repository has both."""
    found = _INDEX.search(str(file.patch_info or ""))
    if repository is None or found is None:
        return None
    texts: list[str | None] = []
    for name, gone in zip(found.groups(), (file.is_added_file, file.is_removed_file), strict=True):
        data = None if gone else repository.blob(name)
        if data is None and not gone:
            return None
        texts.append(None if data is None else _decoded(data, file.path))
    return texts[0], texts[1]


def _from_today(file: FileDiff | None, root: Path, path: str) -> tuple[str, str] | str:
    """Today's text and the same without the fix; or why that cannot be had."""
    if file is None or not path:
        return "is removed by the diff, and this repository does not have its text"
    if not (root / path).is_file():
        return f"is not below {root}, and the repository does not have the blobs that the diff names"
    try:
        after = read_source(root / path).text
    except (UnsupportedTargetError, OSError) as error:
        return str(error)
    lines = split_lines(after)
    for hunk in reversed(file.hunks):
        spots = [spot for spot in find_spots(lines, hunk.new) if not spot.prefix]
        exact = [spot for spot in spots if spot.first == hunk.new_start]
        if len(exact or spots) != 1:
            return (
                f"the hunk at line {hunk.new_start} stands {len(spots)} times in today's file, and without "
                "the commit there is no text to merge: use --commit, or run in a clone that has it"
            )
        first = (exact or spots)[0].first - 1
        lines[first : first + len(hunk.new)] = [line + "\n" for line in hunk.old]
    return "".join(lines), after
