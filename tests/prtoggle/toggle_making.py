"""Toggles for tests, built as values: no YAML, an id of their own each."""

from __future__ import annotations

import itertools

from prtoggle.spec import Edit, Patch, Toggle

_serial = itertools.count(1)


def make_patch(target: str, *edits: tuple[str, str], preamble: str = "", diff: str | None = None) -> Patch:
    """A patch that replaces the first text of each pair by the second."""
    return Patch(target, tuple(Edit(match, text) for match, text in edits), preamble=preamble, diff=diff)


def make_toggle(target: str, *edits: tuple[str, str], preamble: str = "", toggle_id: str = "") -> Toggle:
    """A toggle with one patch."""
    return toggle_of(make_patch(target, *edits, preamble=preamble), toggle_id=toggle_id)


def toggle_of(*patches: Patch, toggle_id: str = "", **fields: object) -> Toggle:
    """A toggle with these patches."""
    return Toggle(id=toggle_id or f"made-{next(_serial)}", patches=patches, **fields)  # type: ignore[arg-type]  # as given
