"""The verdicts and the matrix as one page that carries all it needs, to be forwarded as a file."""

from __future__ import annotations

import datetime as dt
from html import escape
from typing import TYPE_CHECKING

from prtoggle.verify.matrix import Cell
from prtoggle.verify.verdict import MEANING, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prtoggle.verify.matrix import Matrix
    from prtoggle.verify.proof import GuardProof, Proof

_STYLE = """
:root { color-scheme: light dark; --ok: #1a7f37; --bad: #cf222e; --warn: #9a6700;
  --line: #8884; --quiet: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { overflow: auto; white-space: pre-wrap; overflow-wrap: anywhere; background: var(--quiet);
  padding: .8rem; max-height: 24rem; }
td { overflow-wrap: anywhere; } td:first-child { min-width: 12rem; } td:nth-child(4) { min-width: 11rem; }
.verdict { font-weight: 600; white-space: nowrap; color: var(--bad); } .caught { color: var(--ok); }
.flaky, .unreached { color: var(--warn); }
.legend span { display: inline-block; margin-right: 1.2rem; }
.box { display: inline-block; width: .8rem; height: .8rem; vertical-align: -1px; margin-right: .35rem; }
svg { max-width: 100%; height: auto; overflow: visible; } svg text { fill: currentColor; }
"""

_COLOURS = {
    Cell.CAUGHT: "#1a7f37",
    Cell.MISSED: "#cf222e",
    Cell.QUIET: "#8882",
    Cell.MASKED: "#9a6700",
    Cell.FINDING: "#cf222e",
    Cell.ERROR: "#6e40c9",
}
_CELL_SAYS = {
    Cell.CAUGHT: "its own guard fails, as it must",
    Cell.MISSED: "its own guard passes",
    Cell.QUIET: "not noticed",
    Cell.MASKED: "noticed, and declared in masks",
    Cell.FINDING: "noticed, not declared: reverts more than its fix",
    Cell.ERROR: "could not be run",
}


def html_page(proofs: Sequence[Proof], matrix: Matrix | None = None) -> str:
    """The whole page; it loads nothing from anywhere."""
    caught = sum(proof.verdict is Verdict.CAUGHT for proof in proofs)
    made = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = ["<!doctype html><html lang=en><meta charset=utf-8><title>prtoggle verify</title>"]
    parts.append(f"<style>{_STYLE}</style><h1>prtoggle verify: {_headline(proofs, caught, matrix)}</h1>")
    parts.append(f"<p>Made {made}. Each guard ran with the fix and with the fix taken out.</p>")
    if proofs:
        parts.append("<table><tr><th>toggle<th>verdict<th>what was seen<th>guards<th>time</tr>")
        parts.extend(_rows(proofs))
        parts.append("</table>")
    if matrix is not None:
        parts.append("<h2>Every toggle against every guard</h2>")
        parts.append("<p>A row reverts its toggle, a column holds the guards of one toggle.</p>")
        parts.extend(_matrix(matrix))
    parts.append("</html>\n")
    return "\n".join(parts)


def _headline(proofs: Sequence[Proof], caught: int, matrix: Matrix | None) -> str:
    if proofs:
        return f"{caught} of {len(proofs)} caught"
    findings = len(matrix.findings) if matrix is not None else 0
    return f"{findings} findings in the matrix"


def _rows(proofs: Sequence[Proof]) -> Iterator[str]:
    for proof in proofs:
        yield (
            f"<tr><td><b>{escape(proof.id)}</b><br>{escape(proof.title)}"
            f"<td class='verdict {proof.verdict.value}'>{proof.verdict}"
            f"<td>{''.join(_seen(proof))}<td>{'<br>'.join(_guards(proof))}<td>{proof.seconds:.1f}&nbsp;s</tr>"
        )


def _guards(proof: Proof) -> Iterator[str]:
    """The guards; of several each with its own verdict."""
    for guard in proof.judged:
        own = f" <span class='verdict {guard.verdict.value}'>{guard.verdict}</span>"
        yield f"<code>{escape(guard.guard)}</code>{own if len(proof.judged) > 1 else ''}"


def _seen(proof: Proof) -> Iterator[str]:
    """What was seen of the guards that decide, each with its output."""
    if not proof.judged:
        yield escape(proof.detail)
    for guard in proof.guilty or proof.judged:
        name = f"<code>{escape(guard.guard)}</code>: " if len(proof.judged) > 1 else ""
        yield f"<div>{name}{escape(guard.detail)}{_output(guard)}</div>"


def _output(guard: GuardProof) -> str:
    """The end of the deciding run's output, folded away; what a caught guard printed is the symptom."""
    text = guard.decisive.output
    if not text.strip():
        return ""
    note = "" if guard.verdict is Verdict.CAUGHT else f"<br>{escape(MEANING[guard.verdict])}"
    side = "with" if guard.decisive_is_fixed else "without"
    folded = f"<summary>output {side} the fix</summary><pre>{escape(text[-6000:])}</pre>"
    return f"{note}<details>{folded}</details>"


def _matrix(matrix: Matrix) -> Iterator[str]:
    side, label = 16, 9 * max((len(name) for name in matrix.ids), default=1) * 0.72 + 8
    extent = label + side * len(matrix.ids) + 4
    yield (
        f"<svg viewBox='0 0 {extent:.0f} {extent:.0f}' width='{extent:.0f}' role='img' "
        "font-family='monospace' font-size='10'>"
    )
    for index, name in enumerate(matrix.ids):
        middle = label + side * index + side * 0.7
        yield f"<text x='{label - 4:.0f}' y='{middle:.0f}' text-anchor='end'>{escape(name)}</text>"
        yield f"<text transform='translate({middle:.0f},{label - 4:.0f}) rotate(-90)'>{escape(name)}</text>"
    for row, reverted in enumerate(matrix.ids):
        for column, guarded in enumerate(matrix.ids):
            cell = matrix.cells[reverted, guarded]
            x, y = label + side * column, label + side * row
            says = f"{escape(reverted)} reverted, guards of {escape(guarded)}: {_CELL_SAYS[cell]}"
            yield (
                f"<rect x='{x:.0f}' y='{y:.0f}' width='{side - 2}' height='{side - 2}' "
                f"fill='{_COLOURS[cell]}'><title>{says}</title></rect>"
            )
    yield "</svg><p class=legend>"
    for cell in Cell:
        yield f"<span><i class=box style='background:{_COLOURS[cell]}'></i>{_CELL_SAYS[cell]}</span>"
    yield "</p>"
    if matrix.findings:
        yield "<ul>"
        for reverted, guarded, cell in matrix.findings:
            why = matrix.trouble.get((reverted, guarded), _CELL_SAYS[cell])
            pair = f"<b>{escape(reverted)}</b> against the guards of <b>{escape(guarded)}</b>"
            yield f"<li>{pair}: {escape(why)}"
        yield "</ul>"
