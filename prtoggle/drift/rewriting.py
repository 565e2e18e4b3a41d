"""Rewrites patches in the text of a spec file and leaves every other byte, comments included, as it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from prtoggle.drift.spec_text import edit_lines, scalar
from prtoggle.errors import SpecError
from prtoggle.loader import load_text
from prtoggle.yaml_nodes import spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prtoggle.spec import Edit, Patch, Toggle


def rewritten(toggle: Toggle, text: str, patches: Sequence[Patch | None]) -> str:
    """The spec's text with the given patches in place of its own; None keeps one.

    Raises SpecError when the text cannot be changed in place, or does not read back as it was meant.
    """
    places = spans(text)
    changes: list[tuple[int, int, str]] = []
    for number, (old, new) in enumerate(zip(toggle.patches, patches, strict=True)):
        if new is not None:
            changes += _patch_changes(text, places, f"patches[{number}]", old, new)
    done = text
    for start, end, piece in sorted(changes, reverse=True):
        done = done[:start] + piece + done[end:]
    wanted = tuple(new or old for old, new in zip(toggle.patches, patches, strict=True))
    back = load_text(done, toggle.source.file if toggle.source else "<spec>", default_id=toggle.id)
    if back.patches != wanted or back.id != toggle.id:
        raise SpecError(f"the spec of {toggle.id} cannot be rewritten in place; write it anew:\n{done}")
    return done


def _patch_changes(
    text: str, places: dict[str, tuple[int, int]], path: str, old: Patch, new: Patch
) -> list[tuple[int, int, str]]:
    changes = []
    if old.target != new.target:
        changes.append((*places[f"{path}.target"], scalar(new.target)))
    if old.mode == "edits" and old.preamble == new.preamble and old.edits == new.edits:
        return changes
    if old.mode == "edits" and old.preamble.strip() and not new.preamble.strip():
        changes.append((*_entry(text, places, f"{path}.preamble"), ""))
    if old.mode != "edits" or not old.edits:
        key = next(name for name in ("diff", "fix_diff", "preamble") if f"{path}.{name}@" in places)
        changes = [change for change in changes if change[2]]
        changes.append(_whole_edits(text, places[f"{path}.{key}@"][0], places[f"{path}.{key}"], new.edits))
    elif len(old.edits) != len(new.edits):
        start = places[f"{path}.edits@"][0]
        changes.append(_whole_edits(text, start, places[f"{path}.edits"], new.edits))
    else:
        pairs = zip(old.edits, new.edits, strict=True)
        changes += [
            _one_edit(text, places[f"{path}.edits[{number}]"], edit)
            for number, (before, edit) in enumerate(pairs)
            if before != edit
        ]
    return changes


def _whole_edits(
    text: str, start: int, value: tuple[int, int], edits: Sequence[Edit]
) -> tuple[int, int, str]:
    """The change that puts `edits:` where a key begins at `start` and its value ends."""
    column = start - (text.rfind("\n", 0, start) + 1)
    if _in_flow(text, start):
        return start, value[1], f"edits: {json.dumps([_plain(edit) for edit in edits], ensure_ascii=False)}"
    lines = ["edits:"]
    for edit in edits:
        lines += edit_lines(edit, column + 2)
    return start, _end_of_block(text, value), "\n".join(lines) + "\n"


def _one_edit(text: str, place: tuple[int, int], edit: Edit) -> tuple[int, int, str]:
    start, _ = place
    if text[start] == "{" or _in_flow(text, start):
        return *place, json.dumps(_plain(edit), ensure_ascii=False)
    column = start - (text.rfind("\n", 0, start) + 1)
    # The entry's dash stays; what is written begins behind it.
    lines = edit_lines(edit, column - 2)
    return start, _end_of_block(text, place), "\n".join([lines[0][column:], *lines[1:]]) + "\n"


def _entry(text: str, places: dict[str, tuple[int, int]], path: str) -> tuple[int, int]:
    """The lines of one key and its value; behind the dash of a list only what leads to the next key."""
    key = places[f"{path}@"][0]
    start, end = text.rfind("\n", 0, key) + 1, _end_of_block(text, places[path])
    if not text[start:key].strip():
        return start, end
    return key, end + len(text[end:]) - len(text[end:].lstrip(" "))


def _in_flow(text: str, offset: int) -> bool:
    """Whether the place lies within brackets or braces of its line: then there are no blocks."""
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return "{" in line or "[" in line


def _end_of_block(text: str, place: tuple[int, int]) -> int:
    """Where a value ends, without blank lines and comments that belong to what follows it."""
    start, end = place
    column = start - (text.rfind("\n", 0, start) + 1)
    at = text.rfind("\n", 0, end) + 1 if not text[:end].endswith("\n") else end
    if text[at:end].strip():
        # The value ends within a line: a plain or quoted scalar.
        following = text.find("\n", end)
        return len(text) if following < 0 else following + 1
    while True:
        before = text.rfind("\n", 0, max(at - 1, 0)) + 1
        line = text[before:at]
        if before <= start or (line.strip() and not _is_comment(line, column)):
            return at
        at = before


def _is_comment(line: str, column: int) -> bool:
    bare = line.lstrip(" ")
    return bare.startswith("#") and len(line) - len(bare) <= column


def _plain(edit: Edit) -> dict[str, object]:
    found: dict[str, object] = {"match": edit.match}
    if edit.occurrence is not None:
        found["occurrence"] = edit.occurrence
    return {**found, edit.mode: edit.text}
