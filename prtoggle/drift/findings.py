"""Findings of `check` for others to show: annotations of a GitHub workflow, and a SARIF 2.1.0 document."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.drift.classes import PatchDrift
    from prtoggle.drift.judged import Judged
    from prtoggle.spec import Patch, SourceRef
    from prtoggle.static_check import PatchCheck

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def label(judged: Judged) -> str:
    """One word or two for what came of a toggle: the drift when that is a finding, else the status."""
    drift = judged.drift
    return drift.drift.value if drift is not None and drift.is_finding else judged.check.status


class Finding(NamedTuple):
    """One thing to look at: the rule that it breaks, what is wrong, and where it is written."""

    toggle: str
    rule: str
    text: str
    where: SourceRef | None


def findings_of(judged: Judged) -> list[Finding]:
    """A finding for each patch that has one; one for the toggle where only its patches together do."""
    check, toggle = judged.check, judged.toggle
    drifts = judged.drifts or (None,) * len(check.patches)
    found = [
        _of_patch(judged, patch, result, drift)
        for patch, result, drift in zip(toggle.patches, check.patches, drifts, strict=False)
        if result.status != "ok" or (drift is not None and (drift.is_finding or drift.decision))
    ]
    if found or not judged.is_finding:
        return found
    return [Finding(toggle.id, check.status, check.message, toggle.source)]


def _of_patch(judged: Judged, patch: Patch, result: PatchCheck, drift: PatchDrift | None) -> Finding:
    where = patch.where or judged.toggle.source
    if drift is None or not (drift.is_finding or drift.decision):
        healed = "`prtoggle check --fix` rewrites the spec" if judged.healed else ""
        return Finding(judged.toggle.id, result.status, _sentences(result.message, healed), where)
    rule = drift.drift.value if drift.is_finding else judged.check.status
    healed = "`prtoggle check --fix` rewrites the spec" if judged.healed else ""
    said = f"{drift.target}: {drift.why or result.message or judged.check.message}"
    return Finding(judged.toggle.id, rule, _sentences(said, drift.decision, healed), where)


def _sentences(*texts: str) -> str:
    return ". ".join(text for text in texts if text)


def workflow_commands(results: Sequence[Judged], root: Path) -> Iterator[str]:
    """A workflow command per finding, at the line of the patch in the spec."""
    for judged in results:
        for finding in findings_of(judged):
            file, line = _place(finding, root)
            title = _property(f"prtoggle {finding.toggle}: {finding.rule}")
            yield f"::error file={_property(file)},line={line},title={title}::{_data(finding.text)}"


def sarif(results: Sequence[Judged], root: Path, version: str) -> dict[str, Any]:
    """The findings as one run of a SARIF log; a rule is a status or a class of drift."""
    findings = [finding for judged in results for finding in findings_of(judged)]
    rules = sorted({finding.rule for finding in findings})
    driver = {
        "name": "prtoggle",
        "version": version,
        "rules": [{"id": _rule_id(rule), "shortDescription": {"text": rule}} for rule in rules],
    }
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(finding, root) for finding in findings]}],
    }


def _rule_id(rule: str) -> str:
    return rule.replace(" ", "-")


def _result(finding: Finding, root: Path) -> dict[str, Any]:
    file, line = _place(finding, root)
    location = {"artifactLocation": {"uri": quote(file)}, "region": {"startLine": max(1, line)}}
    return {
        "ruleId": _rule_id(finding.rule),
        "level": "error",
        "message": {"text": f"toggle {finding.toggle}: {finding.text}"},
        "locations": [{"physicalLocation": location}],
    }


def _place(finding: Finding, root: Path) -> tuple[str, int]:
    """The spec's path, relative to the root where it lies below it, and the line of the patch."""
    where = finding.where
    path = Path(where.file if where is not None else "").absolute()
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
    return shown, where.line if where is not None else 1


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
