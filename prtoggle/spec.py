"""What a revert spec says, as validated values: a toggle holds patches, an edits patch holds edits.

Nothing here reads a file. The YAML form is read by `prtoggle.loader`; values may be built directly too, and
are checked the same way.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, final, get_args

from prtoggle.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

EditMode = Literal["replacement", "prepend", "append"]
PatchMode = Literal["edits", "diff", "fix_diff", "value", "wrap"]
EDIT_MODES: Final[tuple[EditMode, ...]] = get_args(EditMode)
PATCH_MODES: Final[tuple[PatchMode, ...]] = get_args(PatchMode)

_ID = re.compile(r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*")
_DOTTED = re.compile(r"(?!\d)\w+(?:[.:](?:(?!\d)\w+|<locals>))*")
_CALLABLE = re.compile(r"(?!\d)\w+(?:\.(?!\d)\w+)*:(?!\d)\w+(?:\.(?!\d)\w+)*")


@final
class _Missing:
    """The type of `MISSING`; there is one, and it is false."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""A `Patch.value` that was not given; None is a value like any other."""


def normalise_id(value: object) -> str:
    """The id as text: a number, a slug or number-slug. Raises SpecError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and _ID.fullmatch(value):
        return value
    raise SpecError(
        f"{value!r} is not a toggle id: it has to be a number, a slug (letters, digits, -, _) or number-slug"
    )


@dataclass(frozen=True, slots=True)
class SourceRef:
    """Where in which file something was written. Lines and columns count from 1."""

    file: str
    line: int = 0
    column: int = 0
    key_path: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of source text: find `match`, then replace it by `text` or put `text` before or after it.

    An empty `text` with the mode "replacement" deletes the matched lines. `occurrence` (from 1) picks one
    place where `match` stands several times; without it the text has to stand exactly once.
    """

    match: str
    text: str
    mode: EditMode = "replacement"
    occurrence: int | None = None
    where: SourceRef | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.match.strip():
            raise SpecError("match is empty: give the lines of the running code that the edit is about")
        if self.mode not in EDIT_MODES:
            raise SpecError(f"an edit is one of {', '.join(EDIT_MODES)}, not {self.mode!r}")
        if self.mode != "replacement" and not self.text.strip():
            raise SpecError(f"{self.mode} is empty: the edit would change nothing")
        if self.mode == "replacement" and _block(self.match) == _block(self.text):
            raise SpecError("replacement is the same text as match: the edit would change nothing")
        if self.occurrence is not None and self.occurrence < 1:
            raise SpecError(f"occurrence counts from 1, found {self.occurrence}")


@dataclass(frozen=True, slots=True)
class Patch:
    """What a toggle does to one target; exactly one of the five modes is given.

    `preamble` goes with `edits` only: statements that become the first of the function's body.
    """

    target: str
    edits: tuple[Edit, ...] = ()
    preamble: str = ""
    diff: str | None = None
    fix_diff: str | None = None
    value: object = field(default=MISSING, hash=False)
    wrap: str | None = None
    where: SourceRef | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_target_text(self.target)
        # As Python does with every name: a ligature is its letters.
        object.__setattr__(self, "target", unicodedata.normalize("NFKC", self.target))
        modes = self._modes()
        if len(modes) != 1:
            found = " and ".join(modes) if modes else "none"
            raise SpecError(
                f"the patch of {self.target} needs one of {', '.join(PATCH_MODES)}; found {found}"
            )
        if self.preamble.strip() and modes != ["edits"]:
            raise SpecError(
                f"the patch of {self.target} has a preamble, which goes with edits only, not {modes[0]}"
            )
        if self.wrap is not None and not _CALLABLE.fullmatch(self.wrap):
            raise SpecError(f"wrap names a callable as package.module:name, found {self.wrap!r}")

    def _modes(self) -> list[PatchMode]:
        given: dict[PatchMode, bool] = {
            "edits": bool(self.edits) or bool(self.preamble.strip()),
            "diff": self.diff is not None,
            "fix_diff": self.fix_diff is not None,
            "value": self.value is not MISSING,
            "wrap": self.wrap is not None,
        }
        chosen = [mode for mode, present in given.items() if present]
        # A preamble beside another mode is reported as such, not as two modes.
        return chosen if self.edits or chosen == ["edits"] else [mode for mode in chosen if mode != "edits"]

    @property
    def mode(self) -> PatchMode:
        """Which of the five modes this patch is of."""
        return "edits" if self.edits else self._modes()[0]

    @property
    def changes_source(self) -> bool:
        """Whether the patch is an edit of source text (edits, diff, fix_diff) rather than of an object."""
        return self.value is MISSING and self.wrap is None


@dataclass(frozen=True, slots=True)
class Toggle:
    """One historical fix that can be taken out: its id, what people need to trust it, and its patches."""

    id: str
    patches: tuple[Patch, ...]
    title: str = ""
    links: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    symptom: str = ""
    guards: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    applies_to: str = ""
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    source: SourceRef | None = field(default=None, compare=False)
    text: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", normalise_id(self.id))
        if not self.patches:
            raise SpecError(f"toggle {self.id} has no patches")

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets of all patches, in the order of the spec, each once."""
        return tuple(dict.fromkeys(patch.target for patch in self.patches))


def _block(text: str) -> list[str]:
    """The lines without blanks that make no difference between two blocks."""
    return [line.rstrip() for line in textwrap.dedent(text).strip("\r\n").splitlines()]


def check_target_text(target: str) -> None:
    """Raise SpecError unless `target` is written as pkg.module.Class.method or pkg.module:Class.method."""
    if not _DOTTED.fullmatch(target) or target.count(":") > 1:
        raise SpecError(
            f"{target!r} is not a target: write pkg.module.Class.method or pkg.module:Class.method"
        )
