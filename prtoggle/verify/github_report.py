"""The verdicts as annotations in the log of a GitHub workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.verify.proof import Proof
    from prtoggle.verify.verdict import Verdict


def workflow_commands(proofs: Sequence[Proof]) -> Iterator[str]:
    """A workflow command per guard that does not catch its toggle, placed at the guard's file."""
    for proof in proofs:
        for guard in proof.guilty:
            yield _error(proof.id, guard.verdict, guard.detail, guard.guard.split("::")[0])
        if not proof.judged:
            yield _error(proof.id, proof.verdict, proof.detail, "")


def _error(toggle_id: str, verdict: Verdict, detail: str, file: str) -> str:
    place = f" file={_property(file)}," if file else " "
    title = _property(f"prtoggle {toggle_id}: {verdict}")
    return f"::error{place}title={title}::{_data(detail)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
