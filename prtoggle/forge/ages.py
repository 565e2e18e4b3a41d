"""Which lines of a file are older than a fix: what they do fits the code without it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prtoggle.errors import PrToggleError
from prtoggle.forge.fix import is_test
from prtoggle.forge.git_history import GitError, Repository
from prtoggle.source.source_text import decode_source, split_lines

if TYPE_CHECKING:
    import ast
    from pathlib import Path

    from prtoggle.forge.fix import Fix


@dataclass(slots=True)
class LineAges:
    """Asks git for the files as they were before the fix, each once; files of the fix are known."""

    root: Path
    repository: Repository | None
    parent: str
    _lines: dict[Path, Counter[str]] = field(default_factory=dict)

    def know(self, path: Path, text: str) -> None:
        """Enter the text that a file had before the fix."""
        self._lines[path.resolve()] = _counted(text)

    def is_older(self, path: Path, text: str, node: ast.expr | ast.stmt) -> bool:
        """Whether every line of a node in the file's text stood there as often before the fix."""
        if path not in self._lines:
            self.know(path, self._before(path))
        old, now = self._lines[path], _counted(text)
        lines = split_lines(text)[node.lineno - 1 : node.end_lineno]
        return all(old[line.strip()] >= now[line.strip()] for line in lines)

    def texts_with(self, name: str) -> list[str]:
        """The files that spelt the name before the fix, tests apart; none where nobody knows."""
        if self.repository is None or not self.parent:
            return []
        try:
            listed = self.repository.git("grep", "-lzwF", "-e", name, self.parent, "--", "*.py")
        except GitError:
            # It ends with 1 where there is none.
            return []
        paths = [entry.partition(":")[2] for entry in listed.split("\0") if entry]
        return [self._text(path) for path in paths if not is_test(path)]

    def _before(self, path: Path) -> str:
        """The text of the file before the fix, "" for one that was not there, or that nobody knows."""
        below = path.is_relative_to(self.root.resolve())
        return self._text(path.relative_to(self.root.resolve()).as_posix()) if below else ""

    def _text(self, name: str) -> str:
        if self.repository is None or not self.parent:
            return ""
        try:
            return decode_source(self.repository.text_at(self.parent, name), name).text
        except PrToggleError:
            return ""


def _counted(text: str) -> Counter[str]:
    return Counter(line.strip() for line in split_lines(text))


def ages_of(fix: Fix, root: Path) -> LineAges:
    """The ages of lines below the root, by the fix's commit where there is one."""
    repository = None
    if fix.commit is not None:
        try:
            repository = Repository(root)
        except GitError:
            repository = None
    ages = LineAges(root, repository, fix.commit.parent if fix.commit is not None else "")
    for file in fix.files:
        if file.before is not None and file.path_after:
            ages.know(root / file.path_after, file.before)
    return ages
