"""The answer as JSON (docs/bisect.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.bisect.answer import Answer
    from prtoggle.bisect.range_toggles import Commits, LeftCommit

FORMAT_VERSION: Final = 1


def document(
    answer: Answer, command: Sequence[str], by_hand: tuple[str, str], commits: Commits | None = None
) -> dict[str, Any]:
    """The documented form of an answer."""
    finding, space, count = answer.finding, answer.space, answer.count
    found = answer.outcome == "cause"
    return {
        "version": FORMAT_VERSION,
        "command": list(command),
        "outcome": answer.outcome,
        "searched": list(space.order),
        "left_out": [{"id": item.id, "reason": item.reason} for item in answer.left_out],
        "commits_left_out": _told(commits.left_out) if commits else [],
        "commits_searched_in_part": _told(commits.partly) if commits else [],
        "ends": [
            {"reverted": space.ordered(toggles), "verdict": verdict.value}
            for toggles, verdict in answer.ends.items()
        ],
        "cause": [_member(answer, toggle_id, commits) for toggle_id in finding.members if found],
        "doubted": [] if found else space.ordered(finding.cause),
        "by_hand": list(by_hand) if found else [],
        "symptom": answer.symptom if found else "",
        "never_reached": answer.never_reached if found else [],
        "tests": count.tests,
        "runs": count.runs,
        "closing": count.closing,
        "located": count.located,
        "bound": round(count.bound, 2),
        "repeat": answer.ledger.repeat,
        "confidence": answer.certainty.confidence if answer.certainty else None,
        "unresolved": [
            {"reverted": space.ordered(toggles), "reason": reason}
            for toggles, reason in answer.unresolved.items()
        ],
        "not_together": [] if found else answer.not_together,
        "table": [record.as_json() for record in (*answer.ledger.records, *answer.ledger.closings)],
    }


def _told(commits: Sequence[LeftCommit]) -> list[dict[str, str]]:
    return [{"commit": item.sha, "subject": item.subject, "reason": item.reason} for item in commits]


def _member(answer: Answer, toggle_id: str, commits: Commits | None) -> dict[str, Any]:
    toggle = answer.toggles[toggle_id]
    return {
        "id": toggle_id,
        "title": toggle.title,
        "links": list(toggle.links),
        "symptom": toggle.symptom,
        "commit": commits.shas.get(toggle_id) if commits else None,
        "spec": toggle.text,
        "required_by": answer.required_by(toggle_id),
        "without": answer.finding.members[toggle_id].value,
    }
