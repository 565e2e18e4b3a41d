"""Reads a toggle out of a tree of located values, and reports everything that is wrong with it at once.

The tree comes from YAML (`prtoggle.loader`) or from a plain mapping; nothing here knows which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from prtoggle.errors import SpecError, SpecProblem
from prtoggle.spec import (
    EDIT_MODES,
    MISSING,
    PATCH_MODES,
    Edit,
    EditMode,
    Patch,
    SourceRef,
    Toggle,
    check_target_text,
    normalise_id,
)
from prtoggle.spelling import near_names, or_none
from prtoggle.versions import parse_range

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Kind = Literal[
    "text", "whole number", "number", "yes or no", "nothing", "date", "list", "mapping", "tagged value"
]

_TOGGLE_KEYS: Final = (
    "id",
    "title",
    "links",
    "tags",
    "symptom",
    "guards",
    "requires",
    "conflicts",
    "masks",
    "applies_to",
    "env",
    "patches",
)
_PATCH_KEYS: Final = ("target", "edits", "preamble", "diff", "fix_diff", "value", "wrap")
_EDIT_KEYS: Final = ("match", *EDIT_MODES, "occurrence")


@dataclass(frozen=True, slots=True)
class Located:
    """A value with its place: lines and columns from 1, or 0 for a value that comes from no text.

    `text` is a scalar as it was written; `items` a list's or mapping's values, `keys` a mapping's keys.
    `plain` gives the ordinary Python value.
    """

    kind: Kind
    line: int
    column: int
    text: str = ""
    keys: tuple[Located, ...] = ()
    items: tuple[Located, ...] = ()
    plain: Callable[[], object] = lambda: None


@dataclass(slots=True)
class SpecReader:
    """Reads one spec. Problems are collected, not raised, until the spec is read to its end."""

    file: str
    default_id: str | None
    problems: list[SpecProblem] = field(default_factory=list)

    def read(self, root: Located, text: str) -> Toggle:
        """The toggle. Raises SpecError with all problems found."""
        keys = self._mapping(root, "", _TOGGLE_KEYS)
        toggle_id = self._id(keys, root)
        patches = self._patches(keys.get("patches"), root)
        applies_to = self._text(keys.get("applies_to"), "applies_to")
        if applies_to:
            self._try(keys["applies_to"], "applies_to", lambda: parse_range(applies_to))
        facts = {name: self._texts(keys.get(name), name) for name in ("links", "tags", "guards")}
        ids = {name: self._ids(keys.get(name), name) for name in ("requires", "conflicts", "masks")}
        title, symptom = (self._text(keys.get(name), name) for name in ("title", "symptom"))
        env = self._env(keys.get("env"))
        if self.problems:
            raise SpecError.of(self.problems)
        return Toggle(
            id=toggle_id,
            patches=patches,
            title=title.strip(),
            symptom=symptom.strip(),
            applies_to=applies_to,
            env=env,
            source=SourceRef(self.file, root.line, root.column),
            text=text,
            **facts,
            **ids,
        )

    def problem(self, place: Located, key_path: str, message: str) -> None:
        """Note one thing that is wrong."""
        self.problems.append(SpecProblem(self.file, place.line, place.column, key_path, message))

    def _try(self, place: Located, key_path: str, check: Callable[[], object]) -> None:
        try:
            check()
        except SpecError as error:
            self.problem(place, key_path, str(error))

    def _mapping(self, node: Located, path: str, allowed: Sequence[str]) -> Mapping[str, Located]:
        if node.kind != "mapping":
            self.problem(node, path, f"expected a mapping with {', '.join(allowed)}; found {_shown(node)}")
            return {}
        found: dict[str, Located] = {}
        for key, value in zip(node.keys, node.items, strict=True):
            if key.text not in allowed:
                near = or_none(near_names(key.text, allowed)) or f"; known are {', '.join(allowed)}"
                self.problem(key, _join(path, key.text), f"unknown key {key.text!r}{near}")
            else:
                found[key.text] = value
        return found

    def _id(self, keys: Mapping[str, Located], root: Located) -> str:
        node = keys.get("id")
        if node is not None:
            if node.kind not in ("text", "whole number"):
                self.problem(node, "id", f"expected a number or a slug; found {_shown(node)}")
                return ""
            self._try(node, "id", lambda: normalise_id(node.text))
            return node.text
        if self.default_id is None:
            self.problem(root, "id", "is missing, and there is no file name to take it from")
            return ""
        try:
            return normalise_id(self.default_id)
        except SpecError:
            self.problem(root, "id", f"is missing, and the file name {self.default_id!r} is not an id itself")
            return ""

    def _patches(self, node: Located | None, root: Located) -> tuple[Patch, ...]:
        if node is None:
            if root.kind == "mapping":
                self.problem(root, "patches", "is missing: a spec lists at least one patch")
            return ()
        if node.kind != "list" or not node.items:
            self.problem(node, "patches", f"expected a list of at least one patch; found {_shown(node)}")
            return ()
        read = [self._patch(item, f"patches[{number}]") for number, item in enumerate(node.items)]
        return tuple(patch for patch in read if patch is not None)

    def _patch(self, node: Located, path: str) -> Patch | None:
        before = len(self.problems)
        keys = self._mapping(node, path, _PATCH_KEYS)
        if node.kind != "mapping":
            return None
        target = self._text(keys.get("target"), f"{path}.target")
        if "target" not in keys:
            self.problem(node, path, "target is missing")
        elif target:
            self._try(keys["target"], f"{path}.target", lambda: check_target_text(target))
        modes = [mode for mode in PATCH_MODES if mode in keys]
        if len(modes) > 1:
            self.problem(
                keys[modes[1]], path, f"{' and '.join(modes)} exclude each other: a patch has one of them"
            )
        elif not modes and "preamble" not in keys:
            self.problem(node, path, f"one of {', '.join(PATCH_MODES)} is missing")
        if "preamble" in keys and modes not in ([], ["edits"]):
            self.problem(keys["preamble"], f"{path}.preamble", f"goes with edits only, not with {modes[0]}")
        edits = self._edits(keys.get("edits"), f"{path}.edits")
        texts = {
            name: self._text(keys[name], f"{path}.{name}", filled=True)
            for name in ("preamble", "diff", "fix_diff", "wrap")
            if name in keys
        }
        value = keys["value"].plain() if "value" in keys else MISSING
        if len(self.problems) > before:
            return None
        where = SourceRef(self.file, node.line, node.column, path)
        try:
            return Patch(target, edits, value=value, where=where, **texts)
        except SpecError as error:
            self.problem(node, path, str(error))
            return None

    def _edits(self, node: Located | None, path: str) -> tuple[Edit, ...]:
        if node is None:
            return ()
        if node.kind != "list" or not node.items:
            self.problem(node, path, f"expected a list of at least one edit; found {_shown(node)}")
            return ()
        read = [self._edit(item, f"{path}[{number}]") for number, item in enumerate(node.items)]
        return tuple(edit for edit in read if edit is not None)

    def _edit(self, node: Located, path: str) -> Edit | None:
        before = len(self.problems)
        keys = self._mapping(node, path, _EDIT_KEYS)
        if node.kind != "mapping":
            return None
        match = self._text(keys.get("match"), f"{path}.match", filled=True)
        if "match" not in keys:
            self.problem(node, path, "match is missing: the lines of the running code that the edit is about")
        modes: list[EditMode] = [mode for mode in EDIT_MODES if mode in keys]
        if len(modes) > 1:
            self.problem(
                keys[modes[1]], path, f"{' and '.join(modes)} exclude each other: an edit has one of them"
            )
        elif not modes:
            advice = 'to delete the matched lines, write replacement: ""'
            self.problem(node, path, f"one of {', '.join(EDIT_MODES)} is missing; {advice}")
        texts = {
            mode: self._text(keys[mode], f"{path}.{mode}", filled=mode != "replacement") for mode in modes
        }
        occurrence = self._occurrence(keys.get("occurrence"), f"{path}.occurrence")
        if len(self.problems) > before:
            return None
        where = SourceRef(self.file, node.line, node.column, path)
        try:
            return Edit(match, texts[modes[0]], modes[0], occurrence, where)
        except SpecError as error:
            self.problem(node, path, str(error))
            return None

    def _occurrence(self, node: Located | None, path: str) -> int | None:
        if node is None:
            return None
        if node.kind != "whole number" or not isinstance(value := node.plain(), int) or value < 1:
            self.problem(node, path, f"expected a whole number from 1; found {_shown(node)}")
            return None
        return value

    def _text(self, node: Located | None, path: str, *, filled: bool = False) -> str:
        if node is None:
            return ""
        if node.kind != "text":
            advice = "; put it in quotes" if node.text else '; an empty text is written ""'
            self.problem(node, path, f"expected text; found {_shown(node)}{advice}")
            return ""
        if filled and not node.text.strip():
            self.problem(node, path, "is empty")
        return node.text

    def _list(self, node: Located | None, path: str) -> tuple[Located, ...]:
        if node is None:
            return ()
        if node.kind != "list":
            self.problem(node, path, f"expected a list; found {_shown(node)}")
            return ()
        return node.items

    def _texts(self, node: Located | None, path: str) -> tuple[str, ...]:
        items = enumerate(self._list(node, path))
        return tuple(self._text(item, f"{path}[{number}]", filled=True) for number, item in items)

    def _ids(self, node: Located | None, path: str) -> tuple[str, ...]:
        found = []
        for number, item in enumerate(self._list(node, path)):
            if item.kind not in ("text", "whole number"):
                self.problem(item, f"{path}[{number}]", f"expected the id of a toggle; found {_shown(item)}")
            else:
                self._try(item, f"{path}[{number}]", partial(normalise_id, item.text))
                found.append(item.text)
        return tuple(found)

    def _env(self, node: Located | None) -> dict[str, str]:
        if node is None:
            return {}
        if node.kind != "mapping":
            self.problem(node, "env", f"expected a mapping of variables to texts; found {_shown(node)}")
            return {}
        found = {}
        for key, value in zip(node.keys, node.items, strict=True):
            if value.kind == "whole number":
                found[key.text] = value.text
            else:
                found[key.text] = self._text(value, f"env.{key.text}")
            if not key.text or "=" in key.text or "\0" in key.text + value.text:
                self.problem(key, f"env.{key.text}", "is not the name of an environment variable")
            elif key.text.upper().startswith("PRTOGGLE"):
                message = "is a variable of prtoggle's own, which says what is reverted in child processes"
                self.problem(key, f"env.{key.text}", message)
        return found


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _shown(node: Located) -> str:
    """A value as messages name it."""
    if node.kind in ("list", "mapping"):
        return f"a {node.kind}" if node.items else f"an empty {node.kind}"
    return "nothing" if node.kind == "nothing" else f"{node.text!r} ({node.kind})"
