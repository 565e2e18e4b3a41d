"""The verdicts and the matrix as JSON, version 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.verify.matrix import Matrix
    from prtoggle.verify.proof import GuardProof, Proof
    from prtoggle.verify.verdict import GuardRun

VERSION = 1


def proofs_document(proofs: Sequence[Proof]) -> dict[str, object]:
    """`{"version": 1, "results": [{"id", "verdict", "detail", "guards", "judged", "fixed", ...}]}`."""
    return {"version": VERSION, "results": [_proof(proof) for proof in proofs]}


def _proof(proof: Proof) -> dict[str, object]:
    return {
        "id": proof.id,
        "title": proof.title,
        "verdict": proof.verdict.value,
        "detail": proof.detail,
        "guards": list(proof.guards),
        "passes_with_fix": [proof.passes_with_fix, proof.rounds],
        "fails_without_fix": [proof.fails_without_fix, proof.rounds],
        "seconds": round(proof.seconds, 3),
        "judged": [_guard(guard, proof.rounds) for guard in proof.judged],
        "fixed": [_run(run) for run in proof.fixed],
        "reverted": [_run(run) for run in proof.reverted],
        "required": [_run(run) for run in proof.required],
    }


def _guard(guard: GuardProof, num_rounds: int) -> dict[str, object]:
    return {
        "guard": guard.guard,
        "verdict": guard.verdict.value,
        "detail": guard.detail,
        "passes_with_fix": [guard.passes_with_fix, num_rounds],
        "fails_without_fix": [guard.fails_without_fix, num_rounds],
    }


def _run(run: GuardRun) -> dict[str, object]:
    return {
        "status": run.status,
        "seconds": round(run.seconds, 3),
        "trouble": run.trouble,
        "reached": sorted(run.reached),
        "tests": [
            {
                "name": test.name,
                "outcome": test.kind,
                "message": test.message,
                "reached": [toggle_id for toggle_id, _ in test.reached],
            }
            for test in run.tests
        ],
    }


def matrix_document(matrix: Matrix, fingerprint: str) -> dict[str, object]:
    """`{"version": 1, "fingerprint", "ids", "cells": {reverted: {guard of: cell}}, ...}`."""
    return {
        "version": VERSION,
        "fingerprint": fingerprint,
        "ids": list(matrix.ids),
        "cells": {row: {col: matrix.cells[row, col].value for col in matrix.ids} for row in matrix.ids},
        "masks": {row: list(masks) for row, masks in matrix.masks.items()},
        "findings": [[row, col, cell.value] for row, col, cell in matrix.findings],
        "trouble": [[row, column, trouble] for (row, column), trouble in matrix.trouble.items()],
        "stale_masks": [list(pair) for pair in matrix.stale_masks],
    }
