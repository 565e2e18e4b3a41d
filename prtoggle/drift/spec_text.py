"""Writes the parts of a spec as YAML that people read: literal blocks, nothing quoted without need."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.spec import Edit, Patch

_PLAIN = re.compile(r"[A-Za-z0-9_./<>][A-Za-z0-9_./#<>-]*(?: [A-Za-z0-9_./()#<>,'-]+)*")
_WORDS = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}
_UNPRINTABLE = re.compile(r"[^\n\t\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def scalar(text: str) -> str:
    """One line of text as a YAML value that reads back as this text."""
    number = re.fullmatch(r"[-+.0-9][0-9_.eExXoObB:+-]*", text)
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS and not number and " #" not in text:
        return text
    return json.dumps(text, ensure_ascii=False)


def block(key: str, text: str, indent: int) -> list[str]:
    """`key: text` with the text as a literal block where YAML has one for it, else quoted."""
    pad = " " * indent
    ends = text.endswith("\n") and not text.endswith("\n\n")
    if not text.strip() or not ends or text[0] in " \n\t" or _UNPRINTABLE.search(text):
        return [f"{pad}{key}: {json.dumps(text, ensure_ascii=False)}"]
    if any(line != line.rstrip() for line in text.split("\n")):
        return [f"{pad}{key}: {json.dumps(text, ensure_ascii=False)}"]
    return [
        f"{pad}{key}: |",
        *(f"{pad}  {line}" if line else "" for line in text.removesuffix("\n").split("\n")),
    ]


def edit_lines(edit: Edit, indent: int) -> list[str]:
    """One entry of `edits:`; its dash stands at column `indent`."""
    lines = block("match", edit.match, indent + 2)
    if edit.occurrence is not None:
        lines.append(f"{' ' * (indent + 2)}occurrence: {edit.occurrence}")
    lines += block(edit.mode, edit.text, indent + 2)
    return [f"{' ' * indent}- {lines[0].lstrip()}", *lines[1:]]


def patch_lines(patch: Patch, indent: int, comments: Sequence[str] = ()) -> list[str]:
    """One entry of `patches:` of the mode edits; its dash stands at column `indent`."""
    pad = " " * indent
    lines = [f"{pad}# {comment}" for comment in comments]
    lines += [f"{pad}- target: {patch.target}"]
    if patch.preamble.strip():
        lines += block("preamble", patch.preamble, indent + 2)
    lines.append(f"{pad}  edits:")
    for edit in patch.edits:
        lines += edit_lines(edit, indent + 4)
    return lines
