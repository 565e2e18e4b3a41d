"""Reads unified diffs as git and difflib print them: files, hunks, lines. Knows nothing of the source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prtoggle.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

_HUNK: Final = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(?: (.*))?")
_NO_NEWLINE: Final = "\\"
# What git prints between the headers of a file and its hunks.
_METADATA: Final = re.compile(
    r"(index|old mode|new mode|new file mode|deleted file mode|similarity index|dissimilarity index|"
    r"rename from|rename to|copy from|copy to|Binary files|GIT binary patch|diff --git|diff --cc) ?"
)
# What `git format-patch` ends a patch with, before the head of the next one in the same file.
_SIGNATURE: Final = re.compile(r"-- ?\n\d+\.\d")


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk. `lines` are pairs of a mark (" ", "-" or "+") and the text without line end.

    `old_start` and `new_start` are the line numbers that the header states (from 1).
    """

    old_start: int
    new_start: int
    lines: tuple[tuple[str, str], ...]
    heading: str = ""

    def reversed(self) -> Hunk:
        """The hunk that undoes this one; within each change the removed lines come first, as always."""
        turned = {" ": " ", "-": "+", "+": "-"}
        lines: list[tuple[str, str]] = []
        added: list[tuple[str, str]] = []
        for mark, text in self.lines:
            if turned[mark] == "+":
                added.append(("+", text))
                continue
            if mark == " ":
                lines += added
                added = []
            lines.append((turned[mark], text))
        return Hunk(self.new_start, self.old_start, tuple(lines + added), self.heading)

    @property
    def old(self) -> list[str]:
        """The lines that have to stand in the source."""
        return [text for mark, text in self.lines if mark != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that stand there afterwards."""
        return [text for mark, text in self.lines if mark != "-"]


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The hunks of one file; the paths are as printed, without git's a/ and b/, "" where there are none."""

    old_path: str
    new_path: str
    hunks: tuple[Hunk, ...]

    def reversed(self) -> FileDiff:
        """The diff that undoes this one."""
        return FileDiff(self.new_path, self.old_path, tuple(hunk.reversed() for hunk in self.hunks))

    @property
    def name(self) -> str:
        """The path for messages."""
        return self.new_path or self.old_path or "the diff"


def parse_diff(text: str) -> list[FileDiff]:
    """The files of a unified diff; a diff without headers is one file without paths.

    Raises SpecError, with the line of the diff, for text that is no unified diff: a hunk that is shorter or
    longer than its header says, a combined diff, no hunk at all.
    """
    lines = _without_mail([line.rstrip("\r") for line in text.split("\n")])
    files: list[FileDiff] = []
    old_path = new_path = ""
    hunks: list[Hunk] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        if line.startswith("@@@"):
            raise _wrong(position, line, "a combined diff (of a merge) has no single before and after")
        if line.startswith("@@"):
            hunk, position = _read_hunk(lines, position)
            hunks.append(hunk)
            continue
        starts_file = line.startswith("diff --git ") or (
            line.startswith("--- ") and position + 1 < len(lines) and lines[position + 1].startswith("+++ ")
        )
        if starts_file and hunks:
            files.append(FileDiff(old_path, new_path, tuple(hunks)))
            old_path, new_path, hunks = "", "", []
        if line.startswith("--- "):
            old_path = _path(line)
        elif line.startswith("+++ "):
            new_path = _path(line)
        elif hunks and line.strip() and not _METADATA.match(line):
            raise _wrong(
                position, line, "this line is outside of every hunk, so the hunk's header counts too few"
            )
        position += 1
    if hunks:
        files.append(FileDiff(old_path, new_path, tuple(hunks)))
    if not files:
        raise SpecError("the diff has no hunk (a line that begins with @@ -n,n +n,n @@)")
    return files


def _without_mail(lines: list[str]) -> list[str]:
    """The lines, but blank from the signature of a mailed patch to the next file or the end."""
    kept, in_mail = [], False
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        in_mail = (in_mail and not line.startswith("diff --git ")) or bool(
            _SIGNATURE.match(f"{line}\n{after}")
        )
        kept.append("" if in_mail else line)
    return kept


def _path(line: str) -> str:
    path = line[4:].partition("\t")[0].strip().strip('"')
    return "" if path == "/dev/null" else re.sub(r"^[abciow]/", "", path)


def _read_hunk(lines: list[str], position: int) -> tuple[Hunk, int]:
    """The hunk whose header stands at `position`, and the position after it."""
    header = _HUNK.match(lines[position])
    if header is None:
        raise _wrong(position, lines[position], "a hunk's header reads @@ -start,count +start,count @@")
    start = position
    old_left, new_left = (1 if header[group] is None else int(header[group]) for group in (2, 4))
    body: list[tuple[str, str]] = []
    position += 1
    while old_left or new_left:
        # Editors strip the blank that marks an empty context line.
        line = (lines[position] or " ") if position < len(lines) else ""
        if line.startswith(_NO_NEWLINE):
            position += 1
            continue
        mark = line[:1]
        if mark not in (" ", "-", "+") or (mark in " -" and not old_left) or (mark in " +" and not new_left):
            raise _wrong(start, lines[start], "the hunk's lines are not as many as its header counts")
        old_left -= mark != "+"
        new_left -= mark != "-"
        body.append((mark, line[1:]))
        position += 1
    while position < len(lines) and lines[position].startswith(_NO_NEWLINE):
        position += 1
    if not any(mark != " " for mark, _ in body):
        raise _wrong(start, lines[start], "the hunk changes nothing")
    return Hunk(int(header[1]), int(header[3]), tuple(body), header[5] or ""), position


def _wrong(position: int, line: str, why: str) -> SpecError:
    return SpecError(f"line {position + 1} of the diff ({line.strip()!r}): {why}")


def change_runs(hunk: Hunk) -> Iterator[tuple[int, int, list[str]]]:
    """The changes of a hunk: (first old line, one past the last, new lines), counted from 0 in `hunk.old`."""
    at = 0
    begin: int | None = None
    added: list[str] = []
    for mark, text in (*hunk.lines, (" ", "")):
        if mark == " ":
            if begin is not None:
                yield begin, at, added
            begin, added = None, []
            at += 1
            continue
        begin = at if begin is None else begin
        if mark == "-":
            at += 1
        else:
            added.append(text)
