"""Findings of `check` for others to show: annotations of a GitHub workflow, and a SARIF 2.1.0 document."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.drift.judged import Judged

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def label(judged: Judged) -> str:
    """One word or two for what came of a toggle: the drift when that is a finding, else the status."""
    drift = judged.drift
    return drift.drift.value if drift is not None and drift.is_finding else judged.check.status


def message(judged: Judged) -> str:
    """What is wrong, and what has to be decided or can be done."""
    drift = judged.drift
    sentences = []
    if drift is not None and drift.is_finding:
        sentences.append(f"{drift.target}: {drift.why}")
        sentences.append(drift.decision)
        if judged.healed:
            sentences.append("`prtoggle check --fix` rewrites the spec")
    else:
        sentences.append(judged.check.message)
        sentences += [patch.message for patch in judged.check.patches]
    return ". ".join(sentence for sentence in sentences if sentence)


def workflow_commands(results: Sequence[Judged], root: Path) -> Iterator[str]:
    """A workflow command per finding, at the line of the patch in the spec."""
    for judged in results:
        if judged.is_finding:
            file, line = _place(judged, root)
            title = _property(f"prtoggle {judged.toggle.id}: {label(judged)}")
            yield f"::error file={_property(file)},line={line},title={title}::{_data(message(judged))}"


def sarif(results: Sequence[Judged], root: Path, version: str) -> dict[str, Any]:
    """The findings as one run of a SARIF log; a rule is a status or a class of drift."""
    findings = [judged for judged in results if judged.is_finding]
    rules = sorted({_rule(judged) for judged in findings})
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "prtoggle",
                        "version": version,
                        "rules": [{"id": rule} for rule in rules],
                    }
                },
                "results": [_result(judged, root) for judged in findings],
            }
        ],
    }


def _rule(judged: Judged) -> str:
    return label(judged).replace(" ", "-")


def _result(judged: Judged, root: Path) -> dict[str, Any]:
    file, line = _place(judged, root)
    return {
        "ruleId": _rule(judged),
        "level": "error",
        "message": {"text": f"toggle {judged.toggle.id}: {message(judged)}"},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": file}, "region": {"startLine": max(1, line)}}}
        ],
    }


def _place(judged: Judged, root: Path) -> tuple[str, int]:
    """The spec's path, relative to the root where it lies below it, and the line of the patch."""
    toggle, drift = judged.toggle, judged.drift
    patch = next((item for item in toggle.patches if drift is not None and item.target == drift.target), None)
    where = patch.where if patch is not None and patch.where is not None else toggle.source
    path = Path(where.file if where is not None else "").absolute()
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
    return shown, where.line if where is not None else 1


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
