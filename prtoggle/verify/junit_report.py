"""The verdicts as a JUnit file: a test case per toggle, for whatever CI shows such files."""

from __future__ import annotations

import xml.etree.ElementTree as ET  # only written, never parsed
from typing import TYPE_CHECKING

from prtoggle.verify.verdict import MEANING, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.verify.proof import Proof


def junit_text(proofs: Sequence[Proof]) -> str:
    """A JUnit file, one `<testcase>` per toggle: all but `caught` fail, what could not run is an error."""
    suite = ET.Element(
        "testsuite",
        name="prtoggle verify",
        tests=str(len(proofs)),
        failures=str(sum(proof.verdict not in {Verdict.CAUGHT, Verdict.ERROR} for proof in proofs)),
        errors=str(sum(proof.verdict is Verdict.ERROR for proof in proofs)),
        skipped="0",
        time=f"{sum(proof.seconds for proof in proofs):.3f}",
    )
    for proof in proofs:
        case = ET.SubElement(
            suite, "testcase", classname="prtoggle.verify", name=proof.id, time=f"{proof.seconds:.3f}"
        )
        if proof.verdict is Verdict.CAUGHT:
            continue
        tag = "error" if proof.verdict is Verdict.ERROR else "failure"
        trouble = ET.SubElement(
            case, tag, type=proof.verdict.value, message=_printable(f"{proof.verdict}: {proof.detail}")
        )
        trouble.text = _printable(_account(proof))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data.decode() + "\n"


def _account(proof: Proof) -> str:
    """Each guard that is not caught, with the end of what the run printed that decided."""
    parts = [MEANING[proof.verdict]]
    for guard in proof.guilty:
        parts += [f"{guard.guard}: {guard.verdict}: {guard.detail}", guard.decisive.output[-4000:]]
    return "\n".join(parts)


def _printable(text: str) -> str:
    """The text without what XML has no place for: control characters, halves of pairs, U+FFFE and U+FFFF."""
    return "".join(
        char
        for char in text
        if char in "\t\n"
        or (ord(char) >= 32 and not 0xD800 <= ord(char) < 0xE000 and char not in "\ufffe\uffff")
    )
