"""The verdicts as annotations in the log of a GitHub workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prtoggle.verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.verify.verdict import Proof


def workflow_commands(proofs: Sequence[Proof]) -> Iterator[str]:
    """A workflow command per toggle that is not caught, placed at the first guard's file."""
    for proof in proofs:
        if proof.verdict is Verdict.CAUGHT:
            continue
        file = proof.guards[0].split("::")[0] if proof.guards else ""
        place = f" file={_property(file)}," if file else " "
        title = _property(f"prtoggle {proof.id}: {proof.verdict}")
        yield f"::error{place}title={title}::{_data(proof.detail)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
