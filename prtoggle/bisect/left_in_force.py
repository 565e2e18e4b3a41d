"""What of a commit is there in the runs without it, too: a cause among that is not excluded.

A toggle takes out code of the package. Statements and modules may stay in force, as may new names that
nothing in the package finds, though a test or the command itself could; and files beside the code, such as
tests and data, are in all runs what they are on the bad build.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prtoggle.bisect.command_files import named_files
from prtoggle.forge.fix import is_test

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.forge.draft_value import Draft
    from prtoggle.forge.git_history import Commit, Repository

#: Files beside the code that a reason names at most.
_SHOWN: Final = 3
#: Bytes of a file that is read for names.
_LARGEST: Final = 1 << 20
#: Looks names up that it does not spell.
_ANY_NAME: Final = re.compile(
    r"\b(?:globals|vars|dir|locals|eval|exec)\s*\(|__dict__|getmembers|\bimport\s*\(?\s*\*"
    r"|\b(?:getattr|hasattr)\s*\([^()]*,\s*[^\"'\s()]"
)


class InForce:
    """Tells of each commit of a range what no run takes out."""

    def __init__(self, repository: Repository, command: Sequence[str]) -> None:
        """`command` is what is run; its files and the repository's tests are read."""
        self._repository = repository
        tracked = repository.git("ls-files", "-z", "--", "*.py").split("\0")
        tests = [repository.root / path for path in tracked if path and is_test(path)]
        # The interpreter is a file of the command, too.
        scripts = [path for path in named_files(command) if path.resolve().is_relative_to(Path.cwd())]
        self._texts = [*command, *filter(None, map(_text_of, [*tests, *scripts]))]

    def of(self, commit: Commit, draft: Draft) -> str:
        """The reason why the commit is not searched in full; "" when it is."""
        added = [f"the module {file.path_after}" for file in draft.fix.files if file.before is None]
        code = [*draft.leaves, *added, *(name for name in draft.stays if self._may_find(name))]
        told = [f"stays in force: {', '.join(code)}"] if code else []
        return "; ".join([*told, *self.beside(commit, draft)])

    def beside(self, commit: Commit, draft: Draft) -> list[str]:
        """A sentence about the files that the commit changed beside the code, if any."""
        names = self._repository.git(
            "diff-tree", "-r", "--no-commit-id", "--name-only", "-z", f"{commit.sha}^", commit.sha
        ).split("\0")
        code = {path for file in draft.fix.files for path in (file.path_before, file.path_after)}
        others = [name for name in names if name and name not in code]
        more = f",... ({len(others)} files)" if len(others) > _SHOWN else ""
        return [f"{','.join(others[:_SHOWN])}{more} as on the bad build in all runs"] if others else []

    def _may_find(self, name: str) -> bool:
        """Whether a test or the command may find a name that stays: by spelling it, or among all names."""
        *owners, last = name.split(".")
        word, owner = (
            re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b") for names in ([last], owners[-2:])
        )
        return any(
            word.search(text) or (_ANY_NAME.search(text) and owner.search(text)) for text in self._texts
        )


def _text_of(path: Path) -> str:
    """The text of a file; "" for one that is none, or too large for a program."""
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _LARGEST else ""
    except (OSError, ValueError):
        return ""
