"""Whether tests guard a draft: run with the fix and without it, before the spec is written."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prtoggle.loader import load_file
from prtoggle.verify.guard_run import GuardRunner
from prtoggle.verify.proof import verify_toggles
from prtoggle.verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class GuardCheck(NamedTuple):
    """One test (file or node) and what running it with and without the fix came to."""

    guard: str
    verdict: Verdict
    detail: str

    @property
    def caught(self) -> bool:
        """Whether the test passes with the fix and fails without it."""
        return self.verdict is Verdict.CAUGHT


def check_guards(
    text_of: Callable[[Sequence[str]], str], toggle_id: str, guards: Sequence[str], root: Path, timeout: float
) -> list[GuardCheck]:
    """Each guard on its own against the spec that `text_of([guard])` gives, run in `root`."""
    checks = []
    for guard in guards:
        with tempfile.TemporaryDirectory(prefix="prtoggle-new-") as folder:
            file = Path(folder) / f"{toggle_id}.yaml"
            file.write_text(text_of([guard]), encoding="utf-8")
            proof = verify_toggles([load_file(file)], GuardRunner(root, (folder,), timeout))[0]
        checks.append(GuardCheck(guard, proof.verdict, proof.detail))
    return checks
