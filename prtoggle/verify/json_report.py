"""The verdicts and the matrix as JSON, version 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.verify.matrix import Matrix
    from prtoggle.verify.verdict import GuardRun, Proof

VERSION = 1


def proofs_document(proofs: Sequence[Proof]) -> dict[str, object]:
    """`{"version": 1, "results": [{"id", "verdict", "detail", "guards", "fixed", "reverted", ...}]}`."""
    return {"version": VERSION, "results": [_proof(proof) for proof in proofs]}


def _proof(proof: Proof) -> dict[str, object]:
    return {
        "id": proof.id,
        "title": proof.title,
        "verdict": proof.verdict.value,
        "detail": proof.detail,
        "guards": list(proof.guards),
        "passes_with_fix": [proof.passes_with_fix, len(proof.fixed)],
        "fails_without_fix": [proof.fails_without_fix, len(proof.reverted)],
        "seconds": round(proof.seconds, 3),
        "fixed": [_run(run) for run in proof.fixed],
        "reverted": [_run(run) for run in proof.reverted],
    }


def _run(run: GuardRun) -> dict[str, object]:
    return {
        "status": run.status,
        "seconds": round(run.seconds, 3),
        "trouble": run.trouble,
        "reached": sorted(run.reached),
        "tests": [{"name": test.name, "outcome": test.kind, "message": test.message} for test in run.tests],
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
        "stale_masks": [list(pair) for pair in matrix.stale_masks],
    }
