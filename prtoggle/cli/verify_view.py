"""What `prtoggle verify` prints: a line a toggle, and in full what keeps one from being caught."""

from __future__ import annotations

from textwrap import shorten
from typing import TYPE_CHECKING

from prtoggle.cli import console, print_table
from prtoggle.verify.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.verify.matrix import Matrix
    from prtoggle.verify.proof import Proof

_COLOUR = {Verdict.CAUGHT: "green", Verdict.FLAKY: "yellow", Verdict.UNREACHED: "yellow"}


def print_proofs(proofs: Sequence[Proof]) -> None:
    """A table of the verdicts, and below it each guard that does not catch its toggle."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    output = console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("toggle", "verdict", "with fix", "without"):
        table.add_column(column, no_wrap=True)
    table.add_column("what was seen", overflow="fold")
    # One line a toggle where there is room for it; a finding is read in full below the table.
    room = output.width - max(len(proof.id) for proof in proofs) - len("no tests ran  1/1 pass  1/1 fail") - 6
    for proof in proofs:
        table.add_row(
            proof.id,
            Text(proof.verdict.value, style=_COLOUR.get(proof.verdict, "red")),
            f"{proof.passes_with_fix}/{proof.rounds} pass",
            f"{proof.fails_without_fix}/{proof.rounds} fail",
            shorten(proof.symptom, max(room, 36), placeholder="...")
            if proof.verdict is Verdict.CAUGHT
            else "see below",
        )
    caught = sum(proof.verdict is Verdict.CAUGHT for proof in proofs)
    print_table(output, table)
    for proof in proofs:
        for guard in proof.guilty:
            name = f"{guard.guard}: " if len(proof.judged) > 1 else ""
            output.print(f"{proof.id}: {guard.verdict}: {name}{guard.detail}", style="red", soft_wrap=True)
        if not proof.judged:
            output.print(f"{proof.id}: {proof.verdict}: {proof.detail}", style="red")
    output.print(f"{caught} of {len(proofs)} caught", style="green" if caught == len(proofs) else "red")


def print_matrix(matrix: Matrix) -> None:
    """The cells that need attention, and the size of the matrix."""
    output = console()
    for reverted, guarded, cell in matrix.findings:
        why = matrix.trouble.get((reverted, guarded))
        says = f"{cell.value}: {why}" if why else cell.value
        output.print(f"{reverted} reverted, guards of {guarded}: {says}", style="red", soft_wrap=True)
    for reverted, guarded in matrix.stale_masks:
        output.print(f"{reverted} declares to mask {guarded}, whose guards pass", style="yellow")
    size = len(matrix.ids)
    output.print(f"{size} x {size} cells, {len(matrix.findings)} findings")
